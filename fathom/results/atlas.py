"""A machine's row in the atlas: one JSON document, described field by field in docs/atlas.md."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fathom.options import Mode
from fathom.results.base import (
    SCHEMA,
    Count,
    DeviceName,
    Document,
    Number,
    Positive,
    PositiveCount,
    PrecisionName,
    Record,
    Share,
)
from fathom.results.characterization import Threads
from fathom.results.records import Compiled, Environment
from fathom.system.words import counted


class Measured(Record):
    """One workload in one mode on one machine."""

    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    device: DeviceName = Field(description="as TensorFlow names it")
    precision: PrecisionName = Field(description="of the computation")
    batch_size: PositiveCount = Field(description="examples per step")
    threads: PositiveCount = Field(description="threads of the run")
    microbatches: PositiveCount = Field(description="parts of a batch that are computed at once")
    xla: Compiled = Field(description="what XLA compiled, as in docs/results.md")
    data: str = Field(description="name of the data set, and whether it is `synthetic`")
    seed: int = Field(description="of everything random")
    command: str = Field(description="the command that measured it")
    step_seconds: tuple[Positive, ...] = Field(
        min_length=1, description="median step of each process, in seconds"
    )
    low: Positive | None = Field(
        description="lower limit of the 95 % interval of the median step: between processes, or of "
        "the calls of a single one, whose steps are timed together; `null` if these are fewer than "
        "six"
    )
    high: Positive | None = Field(description="upper limit of the same")
    example: str = Field(description="name of an example")
    examples_per_second: Positive = Field(description="at the median step, with the batch at hand")
    flops_per_second: Positive = Field(description="floating-point operations per second")
    parameters: Count = Field(description="number of trainable values")
    forward_macs_per_example: Count = Field(
        description="multiply-accumulates of the forward pass per example"
    )
    first_loss: Number | None = Field(
        description="loss of the first step, which follows from the seed up to rounding; `null`: "
        "inference"
    )
    op_shares: dict[str, Share] = Field(
        description="share of each op type above 1 % in the time in ops of the profiles on the "
        "CPU; empty for inference and on a GPU"
    )


class Bundle(Document):
    """What one machine contributes to an atlas."""

    remedy: ClassVar[str] = "make it again with fathom submit"

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    environment: Environment = Field(description="as in docs/results.md, without the command line")
    gemm_flops_per_second: dict[Threads, Positive] = Field(
        min_length=1,
        description="rate of a large matrix product, by the number of threads, as text",
    )
    triad_bytes_per_second: dict[Threads, Positive] = Field(
        description="memory bandwidth, by the number of threads, as text"
    )
    rows: tuple[Measured, ...] = Field(min_length=1, description="the workloads, in order")

    @property
    def name(self) -> str:
        """The machine in a few words."""
        has = self.environment
        cores = counted(has.cores_available, "core")
        isa = has.switches.get("ONEDNN_MAX_CPU_ISA")
        limit = f"limited to {isa}" if isa else ""
        others = filter(None, (has.cpu_generation, cores, has.gpu, limit))
        return ", ".join([has.cpu_model, *others])
