"""The result of a load test: one JSON document, described field by field in docs/serving.md."""

from typing import Annotated, Literal

from pydantic import Field

from fathom.results.base import (
    SCHEMA,
    Count,
    Document,
    NotNegative,
    Positive,
    PositiveCount,
    Record,
)
from fathom.results.records import Environment

Scenario = Literal["single-stream", "multi-stream", "server", "offline"]


class Trial(Record):
    """One run of LoadGen."""

    rate: Positive | None = Field(
        description="queries per second that were sent; `null` outside the scenario `server`"
    )
    valid: bool = Field(description="LoadGen's verdict, for the duration and bound of this test")
    reason: str = Field(description="LoadGen's reason for an invalid run; empty if valid")
    queries: Count = Field(description="number of queries; `offline` sends all samples in one")
    samples_per_second: NotNegative = Field(description="inferred samples per second")
    latency: dict[str, NotNegative] = Field(
        description="latency in seconds: `mean`, and `p50` to `p99.9`; of `offline`, from the "
        "start until each sample is inferred"
    )
    batches: dict[str, PositiveCount] = Field(description="number of batches by size")
    first_token: dict[str, NotNegative] | None = Field(
        default=None,
        description="time from a query to its first token, waiting included, in seconds: `mean`, "
        "`p50`, `p90`, `p99`; `null` for inference that does not generate token by token",
    )
    output_token: dict[str, NotNegative] | None = Field(
        default=None,
        description="time from one token of a query to the next, in seconds: the same; the tokens "
        "of a batch end together",
    )


class ServingResult(Document):
    """A workload's inference under a load test."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    scenario: Scenario = Field(description="one of LoadGen's")
    largest_batch: PositiveCount = Field(description="limit of the dynamic batches")
    different_samples: PositiveCount = Field(description="number of samples that queries draw from")
    duration: Positive = Field(description="shortest duration of a run of LoadGen, in seconds")
    latency_bound: Positive | None = Field(
        description="of the 99th percentile, in seconds; `null` outside the scenario `server`"
    )
    seed: Count = Field(description="of the order of samples and the times of queries")
    batch_seconds: dict[str, Positive] = Field(
        description="time of a batch by size, without a load: the shortest of a few"
    )
    environment: Environment = Field(description="the machine and the software")
    trials: list[Trial] = Field(
        description="runs that searched for the highest rate, in order; empty without a search"
    )
    result: Trial = Field(
        description="the run whose figures count: of a search, the valid one with the highest rate"
    )
