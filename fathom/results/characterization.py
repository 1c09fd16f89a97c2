"""A characterization: the machine, and the runs planned and done on it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fathom.options import Characterization, Mode
from fathom.results.base import (
    SCHEMA,
    Count,
    DeviceName,
    Document,
    Integer,
    NotNegative,
    Positive,
    PositiveCount,
    PrecisionName,
    Record,
)
from fathom.results.profile import Profile
from fathom.results.records import Environment, RunResult, is_disturbed
from fathom.system.words import counted

Kind = Literal["timing", "profile"]
Purpose = Literal["modes", "profile", "threads", "cores", "repeats", "warmup", "batches", "scaling"]
UNDISTURBED = 0.9  # least share of the processor of an undisturbed ceiling
Threads = Annotated[str, Field(pattern="^[1-9][0-9]*$")]  # a number as the key of a JSON object


class Machine(Document, frozen=True):
    """The machine of a characterization."""

    indent: ClassVar[int | None] = 1

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    environment: Environment = Field(description="as in docs/results.md")
    gemm_flops_per_second: dict[Threads, Positive] = Field(
        description="rate of a large matrix product in floating-point operations a second, by "
        "the number of threads, as text; the best of `gemm_probes`"
    )
    gemm_probes: dict[Threads, tuple[Positive, ...]] = Field(
        default={},
        description="each measurement of the same, in order: before the first run, after the last, "
        "and again for each time that runs were added; empty in older files",
    )
    triad_bytes_per_second: dict[Threads, Positive] = Field(
        default={},
        description="memory bandwidth in bytes a second, by the number of threads, as text: the "
        "best triad of the STREAM benchmark; empty in older files",
    )
    gemm_cpu_share: dict[Threads, NotNegative] = Field(
        default={},
        description="CPU time over time by the clock and threads of the matrix product that gave "
        "the rate: below 0.9 other processes took the processor, and the rate is no ceiling of the "
        "machine; empty in older files",
    )
    triad_cpu_share: dict[Threads, NotNegative] = Field(
        default={}, description="the same of the triad, of which one thread's CPU time counts"
    )

    def disturbed(self, threads: str) -> float | None:
        """Returns the share of the processor of a ceiling that is none; None if there is none."""
        shares = [each.get(threads, 1.0) for each in (self.gemm_cpu_share, self.triad_cpu_share)]
        return min(shares) if min(shares) < UNDISTURBED else None


class Probe(Document):
    """The results of the probing process."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    environment: Environment = Field(description="as in docs/results.md")
    characterizations: dict[str, Characterization] = Field(
        default={}, description="how the workloads want to be measured, by name"
    )
    gpus: Count = Field(description="number of GPUs that TensorFlow sees")
    gemm_flops_per_second: Positive = Field(
        description="rate of a large matrix product on its threads, in floating-point "
        "operations a second"
    )
    gemm_cpu_share: NotNegative = Field(
        description="CPU time over time by the clock and threads of the fastest product"
    )
    triad_bytes_per_second: Positive = Field(
        description="memory bandwidth on its threads, in bytes a second"
    )
    triad_cpu_share: NotNegative = Field(
        description="CPU time over time by the clock of the fastest triad"
    )


class Planned(Record, frozen=True):
    """One planned run."""

    id: str = Field(description="name of its file, unique in the directory")
    kind: Kind = Field(
        description="`timing`, or `profile`, whose times include the profiler's overhead"
    )
    purpose: tuple[Purpose, ...] = Field(description="the sets of runs that it belongs to")
    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    device: DeviceName = Field(description="as TensorFlow names it")
    threads: PositiveCount | None = Field(description="threads of the run; `null`: one per core")
    cores: PositiveCount = Field(description="number of cores that the process may use")
    repeat: Integer = Field(
        description="0, or its number among equal runs; negative for a warm-up run"
    )
    workers: PositiveCount | None = Field(
        default=None, description="workers of a distributed training; `null`: an ordinary run"
    )
    precision: PrecisionName = Field(description="of the computation")
    batch_size: PositiveCount | None = Field(
        description="examples per step; `null`: the workload's default"
    )
    argv: tuple[str, ...] = Field(description="the command, without the file that it wrote")

    def __str__(self) -> str:
        threads = "" if self.threads is None else f", {counted(self.threads, 'thread')}"
        repeat = {0: ""}.get(self.repeat, f", repeat {self.repeat}")
        if self.repeat < 0:
            repeat = ", warm-up run"
        cores = f", {counted(self.cores, 'core')}"
        what = f"{self.kind} {self.workload} {self.mode} on {self.device}"
        if self.workers:
            what += f", {counted(self.workers, 'worker')}"
        sized = self.workers or "batches" in self.purpose
        batch = f", batch size {self.batch_size}" if sized else ""
        return f"{what}{batch}{threads}{cores}{repeat}"

    def same_sweep(self, other: "Planned") -> bool:
        """Returns whether both belong to one sweep over batch sizes."""
        ours, theirs = ((each.workload, each.mode, each.device) for each in (self, other))
        return ours == theirs and "batches" in self.purpose and "batches" in other.purpose


class Run(Document, Planned, frozen=True):
    """One run of one workload in a separate process, done or failed."""

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    status: Literal["done", "failed"] = Field(description="`done` or `failed`")
    reason: str | None = Field(description="why it failed, else `null`")
    wall_s: Positive = Field(
        description="seconds from the start to the end of the process, measured from outside"
    )
    first_cpu_share: NotNegative | None = Field(
        default=None,
        description="CPU time over time of an earlier measurement that other processes disturbed, "
        "and that is kept in `disturbed/`; `null` if it was measured once",
    )
    result: RunResult | None = Field(
        description="of a timing that is `done` (docs/results.md), else `null`"
    )
    profile: Profile | None = Field(description="of a profile that is `done`, else `null`")

    @property
    def environment(self) -> Environment | None:
        """The environment of the run; None if it failed."""
        record = self.result or self.profile
        return record.environment if record else None

    @property
    def cpu_share(self) -> float | None:
        """CPU time of the steps over their time, if it is evidence: see ``Processor.share``."""
        record = self.result or self.profile
        return record.cpu_share if record else None

    @property
    def disturbed(self) -> bool:
        """Whether other processes took the processor from the steps."""
        return is_disturbed(self.cpu_share)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuses contradictory fields."""
        if self.status == "failed":
            if self.reason is None or self.result or self.profile:
                raise ValueError("a failed run has a reason, no result and no profile")
            return self
        record = {"timing": self.result, "profile": self.profile}[self.kind]
        if record is None or (self.result and self.profile):
            raise ValueError(
                f"a {self.kind} that is done has no result or profile, or that of the other kind"
            )
        for name in ("workload", "mode"):
            mine, held = getattr(self, name), getattr(record, name)
            if mine != held:
                raise ValueError(f"{name} is {mine!r}, but what it holds is of {held!r}")
        return self
