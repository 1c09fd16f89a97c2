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
    absent,
)
from fathom.results.records import Environment

Scenario = Literal["single-stream", "multi-stream", "server", "offline"]
Batching = Literal["dynamic", "continuous", "static", "unknown"]


class Bounds(Record):
    """The bounds of the 99th percentiles (a service-level objective), in seconds."""

    latency: Positive | None = absent("from arrival to answer")
    first_token: Positive | None = absent("from arrival to first token")
    output_token: Positive | None = absent("from one token to the next, the mean of a query")

    def given(self) -> dict[str, float]:
        """Returns the bounds that there are, by name."""
        return {name: bound for name, bound in self if bound is not None}


class Trial(Record):
    """One run."""

    rate: Positive | None = Field(
        description="queries per second that were sent; `null` outside the scenario `server`"
    )
    valid: bool = Field(
        description="the verdict of LoadGen, for the duration and bounds of this test; of other "
        "arrivals than its own: the 99th percentiles met the bounds"
    )
    reason: str = Field(description="why a run is invalid; empty if valid")
    queries: Count = Field(description="number of queries; `offline` sends all samples in one")
    samples_per_second: NotNegative = Field(description="inferred samples per second")
    latency: dict[str, NotNegative] = Field(
        description="latency in seconds: `mean`, and `p50` to `p99.9`; of `offline`, from the "
        "start until each sample is inferred; as LoadGen reports it, if it sent the queries"
    )
    batches: dict[str, PositiveCount] = Field(
        description="number of batches by size, of generated text number of decoding steps; empty "
        "with an endpoint"
    )
    goodput: NotNegative | None = absent(
        "queries per second that met all bounds; `null` without bounds"
    )
    tokens_per_second: NotNegative | None = absent("generated tokens of all queries per second")
    first_token: dict[str, NotNegative] | None = absent(
        "time from a query's scheduled arrival to its first token, in seconds: as "
        "`latency`; `null` for inference that does not generate token by token"
    )
    output_token: dict[str, NotNegative] | None = absent(
        "time from one token of a query to the next, in seconds: from its first to "
        "its last by the number of tokens between; `null` as before, or if no query has two"
    )


class ServingResult(Document):
    """A workload's inference under a load test."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    scenario: Scenario = Field(description="one of LoadGen's")
    batching: Batching = Field(
        default="dynamic",
        description="how batches are formed; of generated text `continuous`, or `static` as a "
        "baseline; `unknown` of an endpoint",
    )
    largest_batch: PositiveCount = Field(
        description="limit of the batches, or of the sequences that run at once"
    )
    cache_bytes: PositiveCount | None = absent("bound of the memory of cached keys and values")
    url: str | None = absent("of the endpoint; `null`: in this process")
    arrivals: str = Field(
        default="LoadGen",
        description="what sends the queries: LoadGen, a gamma distribution, or a trace",
    )
    different_samples: PositiveCount = Field(description="number of samples that queries draw from")
    duration: Positive = Field(description="shortest duration of a run of LoadGen, in seconds")
    latency_bound: Positive | None = Field(
        description="of the 99th percentile, in seconds; `null` without one"
    )
    bounds: Bounds = Field(
        default_factory=Bounds,
        description="all bounds of the 99th percentiles; none outside the scenario `server`",
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
