"""The op profile of one workload."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field, computed_field, model_validator
from typing_extensions import Self

from fathom.options import DeviceKind, Mode
from fathom.results.base import (
    SCHEMA,
    Count,
    DeviceName,
    Document,
    NonemptyPositiveArray,
    NotNegative,
    Positive,
    PositiveArray,
    PositiveCount,
    PrecisionName,
    Record,
    SecondsArray,
    absent,
)
from fathom.results.records import Cost, Environment, Processor, UsedOptions, is_disturbed

Phase = Literal["forward", "backward", "optimizer", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class OpTime(Record, frozen=True):
    """The time of all ops of one type in one layer and phase."""

    type: str = Field(
        description="op type as TensorFlow's profiler names it; `ops.paper_type` gives the paper's"
    )
    layer: str = Field(
        description="the network's layer, or a role: `loss`, `optimizer`, `network` (between "
        "its layers), `unknown`"
    )
    phase: Phase = Field(description="`forward`, `backward`, `optimizer` or `other`")
    on: DeviceKind = Field(description="`cpu` or `gpu`")
    seconds: SecondsArray = Field(description="self time in each step, in seconds")
    count: NotNegative = Field(description="average occurrences per step")


class OpWork(Record, frozen=True):
    """The work of all ops of one type in one layer and phase, from the step's description."""

    type: str = Field(description="op type as the papers name it, fused ops by their main part")
    layer: str = Field(description="as in `ops`")
    phase: Phase = Field(description="as in `ops`")
    flops: Count = Field(
        description="floating-point operations per step, two for each multiply-accumulate"
    )
    bytes: Count = Field(
        description="bytes of inputs, weights and outputs per step, weights once for each op"
    )


class Timeline(Record, frozen=True):
    """When each op of one profiled step ran, in the order of their starts."""

    step: Count = Field(description="number of the profiled step, counting from 0")
    threads: tuple[str, ...] = Field(description="names of the threads and the GPU's streams")
    thread: tuple[Count, ...] = Field(description="of each op, its place in `threads`")
    op: tuple[Count, ...] = Field(description="of each op, its place in the profile's `ops`")
    start_seconds: SecondsArray = Field(
        description="from the start of the step to that of each op, in seconds"
    )
    seconds: SecondsArray = Field(
        description="from the start of each op to its end, with ops nested in it, in seconds"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {len(each) for each in (self.thread, self.op, self.start_seconds, self.seconds)}
        if len(lengths) > 1 or max(self.thread, default=-1) >= len(self.threads):
            raise ValueError("the lists of its timeline differ in their ops or threads")
        return self


class Roofs(Record, frozen=True):
    """The rates of the profiled machine, on the profile's threads."""

    flops_per_second: Positive = Field(description="of a large matrix product")
    bytes_per_second: Positive = Field(description="of the memory, in the triad of STREAM")


class ApiCall(Record, frozen=True):
    """The calls of one function of the GPU's driver or runtime."""

    name: str = Field(description="name of the function")
    count: Count = Field(description="number of calls")
    seconds: NotNegative = Field(
        description="time of the calls without other calls in them, in seconds"
    )


def time_of_calls(kernel_seconds: float, calls: Mapping[str, float]) -> float | None:
    """Adds up seconds by call; None if kernels ran, but the profiler recorded no launches."""
    if kernel_seconds and not any("Launch" in name for name in calls):
        return None
    return sum(calls.values())


class ProcessGpuTime(Record, frozen=True):
    """The time of a GPU and its driver in the whole process, as nvprof gives it."""

    kernel_seconds: NotNegative = Field(description="time of kernels on the GPU, in seconds")
    memcpy_seconds: NotNegative = Field(
        description="time of copies to, from and within the GPU, in seconds"
    )
    calls: tuple[ApiCall, ...] = Field(
        description="calls of the driver and the runtime, in decreasing order of time"
    )

    @property
    def api_seconds(self) -> float | None:
        """Time of all calls; see ``time_of_calls``."""
        return time_of_calls(self.kernel_seconds, {each.name: each.seconds for each in self.calls})


class GpuTime(Record, frozen=True):
    """The time of a GPU and its driver, in all profiled steps together."""

    kernel_seconds: NotNegative = Field(description="time of kernels on the GPU, in seconds")
    api_seconds: NotNegative | None = Field(
        description="time of calls to the driver and the runtime on the host, in seconds; `null` "
        "if the profiler did not record the launches of kernels"
    )
    memcpy_seconds: NotNegative = Field(
        description="time of copies to, from and within the GPU, in seconds"
    )
    process: ProcessGpuTime | None = absent(
        "the same from the set-up of the network to the last profiled step, and by "
        "API call; `null` in older files"
    )


class SampledOp(Record, frozen=True):
    """The time of all ops of one type in some steps."""

    type: str = Field(description="op type as TensorFlow's profiler names it")
    seconds: SecondsArray = Field(description="self time in each step, in seconds")
    count: NotNegative = Field(description="average occurrences per step")


class Life(Record, frozen=True):
    """Short windows of profiled steps, spread over a whole run on fresh batches."""

    run_steps: PositiveCount = Field(description="number of steps of the run")
    numbers: tuple[Count, ...] = Field(
        min_length=1, description="number of each profiled step in the run, counting from 0"
    )
    windows: tuple[Count, ...] = Field(description="window of each profiled step")
    step_seconds: NonemptyPositiveArray = Field(
        description="time of each of these steps with the profiler on, in seconds"
    )
    work: PositiveArray = Field(
        description="work of each step's batch, relative to that of a batch of the stated cost"
    )
    ops: tuple[SampledOp, ...] = Field(description="by type, in decreasing order of time")

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {len(self.windows), len(self.step_seconds), len(self.work)}
        if lengths | {len(op.seconds) for op in self.ops} != {len(self.numbers)}:
            raise ValueError("the lists of its windows differ in their steps")
        return self


class Layer(Record, frozen=True):
    """The cost of one layer for one example."""

    name: str = Field(description="its name in the network")
    kind: str = Field(description="its class")
    output_shape: tuple[Count, ...] = Field(
        default=(), description="of its first output, without the batch dimension"
    )
    parameters: Count = Field(description="number of trainable values")
    macs: Count = Field(description="multiply-accumulates of the forward pass")
    activations: Count = Field(description="number of output values")
    reads_input: bool = Field(
        description="no earlier layer has weights, so that no gradient of its input is computed"
    )
    forward_passes: PositiveCount = Field(
        default=1, description="forward passes in a training step"
    )  # older profiles have one forward pass

    @property
    def training_macs(self) -> int:
        """Multiply-accumulates of the layer's forward and backward passes in a training step.

        The backward pass has two products for each of the forward pass: the gradient of the weights
        and, except for layers that read the network's input, the gradient of the layer's input.
        """
        return (self.forward_passes + (1 if self.reads_input else 2)) * self.macs


class LayerCosts(Cost):
    """The cost of a network and of each of its layers."""

    layers: list[Layer] = Field(description="in the network's order")


class Profile(Document, frozen=True):
    """The op profile of some steps of one workload; see docs/profiling.md."""

    schema_version: Annotated[Literal[2], SCHEMA] = 2
    workload: str = Field(description="name of the workload")
    mode: Mode = Field(description="`train` or `infer`")
    batch_size: PositiveCount = Field(description="examples per step")
    threads: PositiveCount = Field(description="threads of the run")
    device: DeviceName = Field(description="as TensorFlow names it")
    precision: PrecisionName = Field(description="of the computation")
    settings: UsedOptions = Field(
        default_factory=UsedOptions,
        description="hyperparameters, options of the run and seed, as used; empty in older files",
    )
    step_seconds: NonemptyPositiveArray = Field(
        description="time of each step with the profiler on, in seconds"
    )
    unprofiled_step_seconds: PositiveArray = Field(
        description="times of steps without the profiler, in turn with the profiled ones and on "
        "the same batches, in seconds"
    )
    traced_step_seconds: PositiveArray = Field(
        default_factory=lambda: np.array([]),
        description="times of the profiled steps by the clock of those without the profiler, in "
        "the same order, in seconds; in older files of further steps, or empty",
    )
    tracing_seconds_per_op: NotNegative | None = absent(
        "measured cost of tracing one execution of an op, in seconds; `null` in older files"
    )
    compiled_step_seconds: PositiveArray = Field(
        description="times of steps compiled by XLA, in seconds, if that is the workload's "
        "default, else empty; the profile itself is op by op"
    )
    outside_seconds: SecondsArray = Field(
        description="time in each step without any op running, in seconds"
    )
    work: SecondsArray = Field(
        description="work of each step's batch, relative to that of a batch of the stated cost: "
        "batches may differ in length"
    )
    ops: tuple[OpTime, ...] = Field(
        description="by type, layer, phase and device, in decreasing order of time"
    )
    op_work: tuple[OpWork, ...] = Field(
        default=(),
        description="work of a batch of the stated cost by type, layer and phase, as described in "
        "docs/accelerators.md; empty in older files",
    )
    timeline: Timeline | None = absent("of the step of median time; `null` in older files")
    roofs: Roofs | None = absent(
        "rates of the machine, measured after the steps; `null` in older files, on a "
        "GPU and in a characterization, whose `machine.json` has them"
    )
    life: Life | None = absent("windows over a whole run; `null` without `--life`")
    gpu: GpuTime | None = Field(description="of the profiled steps; `null` without a GPU")
    cost: LayerCosts = Field(description="counted work of the network and its layers")
    processor: Processor = Field(
        default_factory=Processor,
        description="use of the processor by the steps with and without the profiler, as in "
        "docs/results.md",
    )
    environment: Environment = Field(description="as in docs/results.md")

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {len(self.outside_seconds), len(self.work), *(len(op.seconds) for op in self.ops)}
        if lengths != {self.steps}:
            raise ValueError("the lists of its profile differ in their steps")
        if len(self.traced_step_seconds) not in (0, len(self.unprofiled_step_seconds)):
            raise ValueError("its steps with and without the profiler are no pairs")
        if self.timeline and max(self.timeline.op, default=-1) >= len(self.ops):
            raise ValueError("its timeline has ops that are not in the profile")
        return self

    @computed_field(description="number of profiled steps")
    @property
    def steps(self) -> int:
        """Number of profiled steps."""
        return len(self.step_seconds)

    @computed_field(
        description="types of ops whose mean time is shorter than the cost of tracing them: not "
        "to be relied on"
    )
    @property
    def dominated_by_tracing(self) -> list[str]:
        """Types whose mean time per execution is below ``tracing_seconds_per_op``, sorted."""
        seconds: dict[str, float] = {}
        count: dict[str, float] = {}
        for op in self.ops:
            seconds[op.type] = seconds.get(op.type, 0.0) + float(op.seconds.mean())
            count[op.type] = count.get(op.type, 0.0) + op.count
        limit = self.tracing_seconds_per_op or 0.0
        return sorted(name for name in seconds if seconds[name] < limit * count[name])

    @property
    def op_seconds(self) -> float:
        """Self time of all ops in all steps."""
        return float(sum(op.seconds.sum() for op in self.ops))

    @property
    def outside_share(self) -> float:
        """The share of the steps' time without any op running, from 0 to 1."""
        return float(self.outside_seconds.sum() / self.step_seconds.sum())

    @property
    def cpu_share(self) -> float | None:
        """CPU time of the steps over their time, if it is evidence: see ``Processor.share``."""
        return self.processor.share(self.environment)

    @property
    def disturbed(self) -> bool:
        """Whether other processes took the processor from the steps."""
        return is_disturbed(self.cpu_share)
