"""The result of a run: one JSON document, described field by field in docs/results.md."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fathom.options import Compiled, Mode, Origin
from fathom.results.base import (
    SCHEMA,
    Count,
    DeviceName,
    Document,
    Integer,
    NotNegative,
    Number,
    OpenRecord,
    PositiveCount,
    PrecisionName,
    Record,
    Share,
    absent,
)
from fathom.results.distribution import Distribution
from fathom.results.generation import Generation
from fathom.results.steps import Steps

TensorKind = Literal["weights", "activations", "gradients", "updates"]

_UNDISTURBED = 0.95  # least CPU time over wall time of undisturbed steps, on any threads
_SHORTEST_EVIDENCE = 1.0  # seconds of steps: many clock ticks of the CPU time


class Data(OpenRecord):
    """The data set of a run; workloads add their own fields, such as numbers of examples."""

    name: str = Field(description="name of the data set")
    directory: str = Field(default="", description="its folder")
    kind: Origin = Field(
        description="`given` (`--data-dir`), `environment` (`$FATHOM_DATA_DIR`), `fetched`, "
        "`packaged` (with an installed library, as the games with ale-py) or `synthetic`"
    )
    skipped: dict[str, str] | None = absent(
        "each damaged file that was left out, with the reason; absent "
        "if the workload never skips files"
    )


class UsedHyperparameters(OpenRecord):
    """Every field of the workload's dataclass of hyperparameters, as used."""

    batch_size: PositiveCount = Field(description="examples per step")


class UsedOptions(OpenRecord):
    """Every field of the workload's dataclass of options of a run, as used."""


class Environment(Record):
    """The machine and the software that made a result."""

    cpu_model: str = Field(description="name of the processor")
    cpu_generation: str | None = absent(
        "family and model of an x86 processor, as one name may have several "
        "generations; else `null`"
    )
    cpu_flags: list[str] = Field(
        default_factory=list, description="its instruction sets that affect speed"
    )
    cores_available: PositiveCount = Field(description="number of cores that the process may use")
    memory_bytes: Count = Field(description="memory of the machine, in bytes")
    platform: str = Field(description="operating system and its version")
    python: str | None = absent("version of Python")
    tensorflow: str = Field(description="version of TensorFlow")
    keras: str | None = absent("version of Keras")
    numpy: str | None = absent("version of NumPy")
    cuda: str | None = absent("version of CUDA that TensorFlow was built for")
    cudnn: str | None = absent("version of cuDNN that TensorFlow was built for")
    onednn: bool | None = absent(
        "TensorFlow uses oneDNN's kernels, as `fathom machine` explains; `null`: not known"
    )
    switches: dict[str, str] = Field(
        default_factory=dict, description="environment variables that change TensorFlow's behaviour"
    )
    gpu: str | None = Field(description="name of the GPU; `null` for a run on the CPU")
    gpu_number: Count | None = absent(
        "its number among the GPUs of the machine, as in `--device gpu:N`"
    )
    gpus_visible: Count | None = absent(
        "number of GPUs that the process saw: one for a run on a GPU, as the others "
        "are hidden from it"
    )
    device: DeviceName = Field(
        description="as TensorFlow names it, which numbers the GPUs that it sees"
    )
    threads: PositiveCount = Field(description="threads of the run")
    intra_op_threads: PositiveCount | None = absent(
        "intra-op threads: those that one operation may use"
    )
    inter_op_threads: PositiveCount = Field(
        default=1, description="inter-op threads: operations that run at once"
    )
    microbatches: PositiveCount = Field(
        default=1,
        description="parts of a batch that are computed at once; where batches have several "
        "shapes, of those that can be divided",
    )
    precision: PrecisionName = Field(description="of the computation")
    xla: Compiled = Field(
        description="what XLA compiled: the whole `step`, some `layers`, or nothing (`off`)"
    )
    git_commit: str | None = absent("commit of Fathom's checkout, else `null`")
    fathom: str | None = absent("version of Fathom")
    source: str | None = absent("digest of Fathom's own source, committed or not")
    command: str = Field(default="", description="the command line")


class Sections(OpenRecord):
    """Times of the sections of a run in seconds, as in the Minsky paper.

    deepq adds sections of `run`: `emulator`, `acting`, `sampling` and `learning`.
    """

    __pydantic_extra__: dict[str, NotNegative]

    import_: NotNegative | None = Field(
        default=None,
        alias="import",
        description="import of Fathom and TensorFlow, in seconds; only on the command line",
    )
    init: NotNegative = Field(description="processing of options, in seconds")
    load: NotNegative = Field(description="loading of data, in seconds")
    setup: NotNegative = Field(
        description="building, tracing and compiling the network, in seconds"
    )
    run: NotNegative = Field(description="steps and their input, in seconds")
    evaluate: NotNegative | None = absent("evaluation, in seconds; with `--evaluate`")
    wall: NotNegative | None = absent("age of the process at the time of writing, in seconds")


class Throughput(Record):
    """The speed of the steps."""

    example: str = Field(default="example", description="name of an example")
    examples_per_second: NotNegative | None = absent(
        "examples per second at the median time of one"
    )
    examples_per_second_with_input: NotNegative | None = absent(
        "examples per second of the steps and the wait for their batches"
    )
    flops_per_second: NotNegative | None = Field(
        description="floating-point operations per second, median rate"
    )

    @classmethod
    def of(cls, steps: Steps, example: str, batch_size: int, flops: int) -> "Throughput":
        """Returns the speed of steps, given the FLOPs per example."""
        if not steps.measurements:
            return cls(example=example, flops_per_second=None)
        return cls(
            example=example,
            examples_per_second=steps.examples_per_second(batch_size),
            examples_per_second_with_input=steps.examples_per_second_with_input(batch_size),
            flops_per_second=flops * batch_size * steps.work_per_second,
        )


class Cost(Record):
    """Size and work of the network, counted from the architecture."""

    parameters: Count = Field(description="number of trainable values")
    forward_macs_per_example: Count = Field(
        description="multiply-accumulates of the forward pass per example"
    )
    forward_flops_per_example: Count = Field(
        description="floating-point operations of the same: twice the multiply-accumulates"
    )
    training_flops_per_example: Count = Field(
        description="floating-point operations of the forward and backward pass per example; "
        "including deepq's target network"
    )


class Memory(Record):
    """The peak memory of the run."""

    peak_resident_bytes: Count | None = absent("resident memory of the process, in bytes")
    peak_gpu_bytes: Count | None = absent("TensorFlow's allocations on the GPU, in bytes")


class Processor(Record):
    """Use of the processor by the steps: evidence of disturbance by other processes."""

    cpu_seconds: NotNegative | None = absent(
        "CPU time of the process, all threads, during all steps, input excluded, in seconds"
    )
    wall_seconds: NotNegative | None = absent("time of the same steps by the clock, in seconds")
    involuntary_switches: Count | None = absent(
        "involuntary context switches of its threads during the steps"
    )
    minor_faults: Count | None = absent(
        "minor page faults of its threads during the steps: memory that they used for "
        "the first time; `null` in older files"
    )
    frequency_mhz: NotNegative | None = absent(
        "frequency of the fastest core after the last step, in MHz; virtual machines "
        "often give a constant"
    )
    steal_seconds: NotNegative | None = absent(
        "time that the host of a virtual machine took from its cores, all together, "
        "from before the first step to after the last, in seconds"
    )
    unread: dict[str, str] = Field(
        default_factory=dict, description="why a field is `null`, by its name; empty in older files"
    )

    def add(
        self, before: tuple[float, int, int], after: tuple[float, int, int], seconds: float
    ) -> None:
        """Adds one call of the step, from ``environment.cpu_use`` before and after it."""
        self.cpu_seconds = (self.cpu_seconds or 0.0) + max(0.0, after[0] - before[0])
        self.wall_seconds = (self.wall_seconds or 0.0) + seconds
        self.involuntary_switches = (self.involuntary_switches or 0) + after[1] - before[1]
        self.minor_faults = (self.minor_faults or 0) + after[2] - before[2]

    def add_system(
        self, steal_before: float | None, steal_after: float | None, frequency: float | None
    ) -> None:
        """Adds the readings of ``system.environment``; None where there are none."""
        self.frequency_mhz = frequency
        if steal_before is not None and steal_after is not None:
            self.steal_seconds = max(0.0, steal_after - steal_before)
        for name in ("frequency_mhz", "steal_seconds"):
            if getattr(self, name) is None:
                self.unread[name] = "the operating system does not report it"

    def share(self, environment: Environment) -> float | None:
        """Returns CPU time over time by the clock: 0.97 or more unless the steps were disturbed.

        Several threads wait for each other, but one of them always runs. None where it is no
        evidence: for a GPU, for which the CPU waits, and for steps that take less than a second in
        total.
        """
        if self.cpu_seconds is None or self.wall_seconds is None or environment.gpu:
            return None
        if self.wall_seconds < _SHORTEST_EVIDENCE:
            return None
        return self.cpu_seconds / self.wall_seconds


def is_disturbed(cpu_share: float | None) -> bool:
    """Returns whether other processes took the processor, given ``Processor.share``."""
    return cpu_share is not None and cpu_share < _UNDISTURBED


class Energy(Record):
    """The energy of the measured steps, of the whole machine, other processes included."""

    joules: dict[str, NotNegative] = Field(
        default_factory=dict,
        description="energy of all steps after the warm-up, input excluded, by counter: `cpu` (all "
        "sockets), `dram` (their memory) and `gpu`, in joules",
    )
    joules_per_step: NotNegative | None = absent(
        "mean energy of a step, all counters together, in joules; `null` without the "
        "counter of the run's device"
    )
    flops_per_joule: NotNegative | None = absent(
        "counted floating-point operations of the same steps per joule"
    )
    unread: dict[str, str] = Field(
        default_factory=dict,
        description="why a counter is missing, by its name; empty in older files",
    )

    @classmethod
    def of(
        cls, joules: dict[str, float], unread: dict[str, str], device: str, steps: int, flops: float
    ) -> "Energy":
        """Returns the energy of a number of steps that took these FLOPs together.

        ``device``, ``cpu`` or ``gpu``, is the counter without which there is no mean; ``unread``
        has the reasons for missing counters by name.
        """
        total = sum(joules.values())
        if not steps or device not in joules or not total:
            return cls(joules=joules if steps else {}, unread=unread)
        return cls(
            joules=joules,
            joules_per_step=total / steps,
            flops_per_joule=flops / total,
            unread=unread,
        )


class Metrics(OpenRecord):
    """The evaluation's means over the test data, and the curves noted during the run."""

    examples: Count | None = absent("number of evaluated examples; absent without evaluation")
    history: dict[str, list[tuple[Integer, Number | None]]] | None = absent(
        "curves by name, each a list of (steps done, value), such as the validation "
        "error and the `learning_rate`; absent if there are none"
    )

    @classmethod
    def of(cls, history: Mapping[str, Sequence[tuple[int, float]]]) -> "Metrics":
        """Returns the curves of a run, with None for values that are not finite."""
        curves = {
            name: [(step, float(value) if math.isfinite(value) else None) for step, value in points]
            for name, points in history.items()
        }
        return cls(history=curves or None)


class FixedTensor(Record):
    """The fixed-point numbers of one tensor, in all steps and evaluations of the run."""

    layer: str = Field(description="the layer that the tensor belongs to")
    tensor: str = Field(description="`output`, or the name of the variable")
    kind: TensorKind = Field(description="`gradients` are those of the output or of the variable")
    fraction: Integer = Field(description="f: the numbers are multiples of 2^-f")
    values: Count = Field(
        description="number of counted values: those of every eighth step; of weights, the initial "
        "or restored ones"
    )
    saturated: Share | None = Field(
        description="share of the values beyond the largest numbers; `null` if none was counted"
    )
    zeroed: Share | None = Field(
        description="share of the values other than 0 that were rounded to 0; `null` if there "
        "were none"
    )


class FixedPointRecord(Record):
    """The simulated fixed-point numbers of a run."""

    bits: PositiveCount = Field(description="of a number, with its sign")
    quantized: list[str] = Field(description="the kinds of tensors that were rounded")
    rounding: str = Field(description="to `nearest`, or `stochastic`")
    overflow: str = Field(description="`saturate` at the largest numbers, or `wrap`")
    tensors: list[FixedTensor] = Field(description="each rounded tensor")

    def share(self, kind: str, name: Literal["saturated", "zeroed"]) -> float | None:
        """Returns the mean of the shares that tensors of a kind have, by their values, or None."""
        rows = [row for row in self.tensors if row.kind == kind and row.values]
        known = [row for row in rows if getattr(row, name) is not None]
        if not known:
            return None
        parts = [getattr(row, name) * row.values for row in known]
        return min(1.0, sum(parts) / sum(row.values for row in known))


class RunResult(Document):
    """The result of a run."""

    indent: ClassVar[int | None] = 1

    schema_version: Annotated[Literal[1], SCHEMA] = 1
    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    data: Data = Field(description="the data set")
    hyperparameters: UsedHyperparameters = Field(description="as used")
    options: UsedOptions = Field(default_factory=UsedOptions, description="of the run, as used")
    seed: Integer = Field(default=0, description="the run's seed")
    environment: Environment = Field(description="machine and software")
    sections: Sections = Field(description="times of the sections of the run")
    steps: Steps = Field(description="every step, and statistics")
    throughput: Throughput = Field(description="speed")
    generation: Generation | None = absent(
        "speed of prefill and decode, if inference generates token by token"
    )
    cost: Cost = Field(description="size and work of the network")
    memory: Memory = Field(default_factory=Memory, description="peak memory")
    processor: Processor = Field(
        default_factory=Processor, description="use of the processor by the steps"
    )
    energy: Energy = Field(default_factory=Energy, description="energy of the steps")
    metrics: Metrics = Field(
        default_factory=Metrics, description="metrics of the evaluation and curves of the run"
    )
    fixed_point: FixedPointRecord | None = absent(
        "simulated fixed-point numbers; `null` in floating point"
    )
    distribution: Distribution | None = absent("distributed training; `null` on one device")
    ended: str = Field(
        default="complete",
        description="`complete`, `interrupted`, or the error that ended the run early; the "
        "document then has the steps completed so far",
    )

    @property
    def cpu_share(self) -> float | None:
        """CPU time of the steps over their time, if it is evidence: see ``Processor.share``.

        It is none for a worker, which waits for the others.
        """
        return None if self.distribution else self.processor.share(self.environment)

    @property
    def disturbed(self) -> bool:
        """Whether other processes took the processor from the steps."""
        return is_disturbed(self.cpu_share)
