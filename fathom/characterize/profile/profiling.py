"""Profiles a model in this process."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fathom.characterize.profile import files, xplane
from fathom.characterize.profile.xplane import OpEvent
from fathom.description.attribution import Attribution
from fathom.description.ops import paper_type
from fathom.description.step import operations
from fathom.errors import FathomError
from fathom.nn import NeuralNetworkModel
from fathom.results.description import Operation, StepPhase
from fathom.results.profile import GpuTime, Layer, LayerCosts, OpTime, OpWork, Phase, Profile
from fathom.results.records import Processor
from fathom.system import environment
from fathom.training.compilation import Batch, Step

_BATCHES = 4  # held in memory and cycled


def profile_model(
    model: NeuralNetworkModel, steps: int, directory: Path
) -> tuple[Profile, Callable[[str, str], tuple[str, str]]]:
    """Profiles a model after its setup.

    A few real batches are fetched first, while the first steps warm up; then the input pipeline is
    released, so that it takes no time from the steps, and the batches are cycled. All steps up to
    the end of the profile are traced, so that it has every op; steps without the profiler follow.

    Args:
        model: with one step per call, not compiled as a whole by XLA.
        steps: number of timed steps, and of profiled steps.
        directory: of the trace.

    Returns:
        the profile, and the function that maps an op's name and type to its layer and phase.

    Raises:
        FathomError: a call runs several steps, the profiler is already in use, or the trace is
            incomplete or cannot be written.
    """
    if model.steps_per_call > 1:
        raise FathomError(
            f"a call of this {model.name} runs {model.steps_per_call} steps, which a trace cannot "
            "tell apart: set it up with one step a call"
        )
    with xplane.profiling():
        held = _HeldBatches(model)
    stolen = environment.steal_seconds()
    path = directory / files.TRACE
    xplane.record(held.step, steps, path)
    trace = xplane.read(path)
    work = held.work[-steps:]
    ops_by_step = trace.ops_by_step()
    require_equal_ops(ops_by_step, _BATCHES)
    unprofiled = [_seconds(held.step) for _ in range(steps)]
    held.processor.add_system(stolen, environment.steal_seconds(), environment.frequency_mhz())
    attribution = Attribution(model.model(), model.network, model.optimizer)
    gpu = trace.gpu_seconds
    profile = Profile(
        workload=model.name,
        mode="infer" if model.forward_only else "train",
        batch_size=model.hyperparameters.batch_size,
        threads=model.threads,
        device=model.device,
        precision=held.environment.precision,
        step_seconds=np.array([end - start for start, end in trace.steps]),
        unprofiled_step_seconds=np.array(unprofiled),
        compiled_step_seconds=np.array([]),
        outside_seconds=np.array(trace.outside_seconds()),
        work=np.array(work),
        ops=add_up(ops_by_step, attribution.place),
        op_work=op_work(_description(model)),
        gpu=GpuTime(**{f"{name}_seconds": value for name, value in gpu.items()}) if gpu else None,
        cost=held.cost,
        processor=held.processor,
        environment=held.environment,
    )
    return profile, attribution.place


def _description(model: NeuralNetworkModel) -> tuple[Operation, ...]:
    """Returns the operations of a batch of the stated cost."""
    if model.signature_of_length(None) == model.signatures()[-1]:  # traced already
        return operations(model.model(), model.network, model.optimizer)
    return model.describe().operations


def op_work(described: Sequence[Operation]) -> tuple[OpWork, ...]:
    """Sums operations by the papers' type, layer and a profile's phase."""
    sums: dict[tuple[str, str, Phase], list[int]] = {}
    for row in described:
        key = (paper_type(row.type), row.layer, _PHASES[row.phase])
        work = sums.setdefault(key, [0, 0])
        work[0] += row.total_flops
        work[1] += row.working_set_bytes
    return tuple(
        OpWork(type=kind, layer=layer, phase=phase, flops=flops, bytes=size)
        for (kind, layer, phase), (flops, size) in sums.items()
    )


_PHASES: dict[StepPhase, Phase] = {
    "forward": "forward",
    "input gradient": "backward",
    "weight gradient": "backward",
    "update": "optimizer",
    "other": "other",
}


def require_equal_ops(steps: Sequence[Sequence[OpEvent]], period: int) -> None:
    """Refuses an incomplete trace: steps on the same batch must have the same ops.

    Args:
        steps: the ops of each step.
        period: number of steps after which batches repeat.

    Raises:
        FathomError: a step's ops differ from those of the previous step on the same batch.
    """
    counts = [Counter((op.name, op.op_type) for op in ops) for ops in steps]
    for number, (before, now) in enumerate(zip(counts, counts[period:], strict=False), period):
        if before != now:
            different = next(iter((before - now) + (now - before)))
            raise FathomError(
                f"the trace is incomplete: step {number} has {now.total():,} ops, and step "
                f"{number - period}, on the same batch, {before.total():,}; they differ in "
                f"{different[0]} ({different[1]}); profile again"
            )


def add_up(
    steps: Sequence[Sequence[OpEvent]], place: Callable[[str, str], tuple[str, str]]
) -> tuple[OpTime, ...]:
    """Sums op events by type, layer, phase and device, in decreasing order of time.

    Args:
        steps: the events of each step.
        place: maps an op's name and type to its layer and phase; see ``Attribution.place``.
    """
    seconds: dict[tuple[str, ...], np.ndarray] = {}
    counts: dict[tuple[str, ...], int] = {}
    for number, events in enumerate(steps):
        for event in events:
            place_of_op = place(event.name, event.op_type)
            key = (event.op_type, *place_of_op, "gpu" if event.on_gpu else "cpu")
            seconds.setdefault(key, np.zeros(len(steps)))[number] += event.self_s
            counts[key] = counts.get(key, 0) + 1
    names = ("type", "layer", "phase", "on", "seconds", "count")
    ops = (
        dict(zip(names, (*key, each, counts[key] / len(steps)), strict=True))
        for key, each in seconds.items()
    )
    return tuple(sorted(map(OpTime.model_validate, ops), key=lambda op: -op.seconds.sum()))


def single_steps(model_class: type[NeuralNetworkModel]) -> type[NeuralNetworkModel]:
    """Returns the class with one step per call: a trace separates steps by calls."""
    return type(model_class.__name__, (model_class,), {"steps_per_call": 1})


class _HeldBatches:
    """A few batches of a model, used to warm it up and then cycled.

    Attributes:
        work: of each step's batch so far, relative to a batch of the stated cost.
        processor: its use by these steps.
        environment, cost: of the run; the cost includes each layer's.
    """

    def __init__(self, model: NeuralNetworkModel) -> None:
        self._device = model.device
        self._turns: list[tuple[Step, Batch, float]] = []
        self.work: list[float] = []
        self.processor = Processor()

        def keep(step: "Step", batch: "Batch") -> Any:
            value = step(*batch)
            self._turns.append((step, batch, model.work(*batch)))
            return value

        result = model.run(runstep=keep, n_steps=_BATCHES)
        layers = [Layer(**dataclasses.asdict(layer)) for layer in model.cost().layers]
        self.environment = result.environment
        self.cost = LayerCosts(**dict(result.cost), layers=layers)

    def step(self) -> None:
        """Runs the step on the next batch and waits for it."""
        compiled, batch, work = self._turns[len(self.work) % len(self._turns)]
        self.work.append(work)
        used, started = environment.cpu_use(), time.perf_counter()
        compiled(*batch)
        if self._device != "/cpu:0":
            tf.test.experimental.sync_devices()
        self.processor.add(used, environment.cpu_use(), time.perf_counter() - started)


def step_seconds(model: NeuralNetworkModel, steps: int) -> np.ndarray:
    """Sets up a model and returns the times of some steps after a warm-up."""
    model.setup()
    warmup = max(_BATCHES, model.steps_per_call)  # the first call is slow
    steps = max(steps, model.steps_per_call)
    seconds = model.run(n_steps=warmup + steps, warmup=warmup).steps.counted
    model.teardown()
    return seconds


def _seconds(function: Callable[[], object]) -> float:
    """Returns the time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
