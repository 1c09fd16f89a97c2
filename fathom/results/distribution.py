"""Distributed training: the replicas, the bytes that they sum, and the time of the sums."""

from typing import Literal

from pydantic import Field

from fathom.results.base import Count, NotNegative, Positive, PositiveCount, Record, absent

Statistics = Literal["replica", "batch"]


class Link(Record):
    """The connection of the workers, measured by sums over all of them before the first step."""

    bytes_per_second: Positive = Field(
        description="that each worker sends in a large sum, in bytes per second: the bandwidth of "
        "the connection and of the additions together"
    )
    latency_seconds: NotNegative = Field(description="time of the sum of one number, in seconds")


class Distribution(Record):
    """A distributed training."""

    strategy: str = Field(description="`mirrored` or `multi-worker`")
    collectives: str = Field(
        default="tensorflow",
        description="what sums the gradients of workers: `tensorflow` or `gloo`",
    )
    reduce_dtype: str = Field(
        default="float32", description="type of the sums: `float32` or `bfloat16`"
    )
    workers: PositiveCount = Field(description="number of processes")
    replicas: PositiveCount = Field(description="number of devices, with a part of the batch each")
    batch_statistics: Statistics | None = absent(
        "what batch normalization uses: the statistics of each `replica`'s part, so "
        "that losses differ from those of one process, or those of the whole `batch`; `null` for "
        "networks without it"
    )
    gradient_bytes: Count = Field(
        description="gradients that each replica adds to the sums of a step, in bytes; those of "
        "batch statistics, which are small, are not counted"
    )
    sent_bytes: NotNegative | None = absent(
        "what each worker sends of them in a step, in bytes: 2 (n - 1) / n of the gradients in a "
        "ring of n workers, n - 1 times the rows of embeddings; `null` in one process"
    )
    link: Link | None = absent("the connection of the workers; `null` in one process")
    collective_seconds: list[NotNegative] = Field(
        default_factory=list,
        description="mean time a step of each replica from the last of its own gradients to the "
        "last sum, in seconds, after the warm-up: transfers that the backward pass does not hide, "
        "and waiting; empty if no step was counted",
    )
    waiting_seconds: list[NotNegative] = Field(
        default_factory=list,
        description="the part of it in which the gradients of the slowest replica were missing: "
        "its excess over the smallest of all replicas; the slowest one waits least",
    )
    collective_share: NotNegative | None = absent(
        "mean of the `collective_seconds` of the first worker's replicas over the mean "
        "time of the same steps of that worker"
    )

    def summary(self) -> list[str]:
        """Returns lines for the terminal."""
        lines = []
        if self.batch_statistics == "replica":
            lines.append("batch normalization: by the statistics of each replica's part")
        if self.collective_share is not None:
            waits = ", ".join(f"{1e3 * each:.3g}" for each in self.waiting_seconds)
            lines.append(
                f"{self.replicas} replicas: {self.gradient_bytes / 1e6:,.3g} MB of gradients a "
                f"step; {self.collective_share:.1%} of the step in their sums, of it waiting for "
                f"others, by replica: {waits} ms"
            )
        return lines


def ring_bytes(total: float, workers: int) -> float:
    """Returns the bytes that each worker sends to sum tensors in a ring of workers."""
    return 2 * (workers - 1) / workers * total
