"""Profiles a model in this process."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fathom.core.training.compilation import Batch, CompiledStep, Nest, Step
from fathom.errors import FathomError
from fathom.hardware.description.attribution import Attribution
from fathom.measure.profile import files, gpu, xplane
from fathom.measure.profile.completeness import counts_of, require_equal_ops
from fathom.measure.profile.gpu import Sessions
from fathom.measure.profile.overhead import in_turn, seconds_per_op
from fathom.measure.profile.timeline import of_median_step
from fathom.measure.profile.windows import Windows
from fathom.measure.profile.work import op_work
from fathom.measure.profile.xplane import OpEvent
from fathom.nn import NeuralNetworkModel
from fathom.options import field_names
from fathom.results.profile import (
    ApiCall,
    GpuTime,
    Layer,
    LayerCosts,
    OpTime,
    ProcessGpuTime,
    Profile,
)
from fathom.results.records import Processor
from fathom.system import environment

_BATCHES = 4  # held in memory and cycled
_FEWEST_PAIRS = 3  # of steps with and without the profiler


def profile_model(
    model: NeuralNetworkModel,
    steps: int,
    directory: Path,
    *,
    run_steps: int | None = None,
    sessions: Sessions | None = None,
) -> tuple[Profile, Callable[[str, str], tuple[str, str]]]:
    """Profiles a model after its setup.

    A few real batches are fetched first, while the first steps warm up; then the input pipeline is
    released, so that it takes no time from the steps, and the batches are cycled. All steps up to
    the end of the profile are traced, so that it has every op; steps in turn with and without the
    profiler follow.

    Args:
        model: with one step per call, not compiled as a whole by XLA.
        steps: number of profiled steps, and at least as many in turn with and without the profiler.
        directory: of the trace.
        run_steps: if given, the warm-up is a run of so many steps on fresh batches, with windows.
        sessions: of the profiler before, such as in the setup.

    Returns:
        the profile, and the function that maps an op's name and type to its layer and phase.

    Raises:
        FathomError: a call runs several steps, the profiler is already in use, or the trace is
            incomplete or cannot be written.
    """
    if model.steps_per_call > 1:
        raise FathomError(
            f"a call of this {model.name} runs {model.steps_per_call} steps, which a trace cannot "
            "tell apart: set it up with one step per call"
        )
    sessions = sessions or Sessions(model.device)
    windows = Windows(model, run_steps, sessions) if run_steps else None
    held = _HeldBatches(model, windows, run_steps or _BATCHES, sessions)
    stolen = environment.steal_seconds()
    path = directory / files.TRACE
    first = held.steps
    xplane.record(held.step, steps, path)
    trace = xplane.read(path)
    numbers = range(first + 1, first + 1 + steps)  # after the one in which the profiler starts up
    ops_by_step = trace.ops_by_step()
    require_equal_ops([counts_of(ops) for ops in ops_by_step], [n % _BATCHES for n in numbers])
    gpu_use = _gpu_time(path, sessions)
    with xplane.profiling():
        with_profiler = held.copy()
    traced, untraced = in_turn(with_profiler, held.copy(), max(_FEWEST_PAIRS, steps // 2))
    held.processor.add_system(stolen, environment.steal_seconds(), environment.frequency_mhz())
    attribution = Attribution(model.model(), model.network, model.optimizer)
    profile = Profile(
        workload=model.name,
        mode=model.mode,
        batch_size=model.hyperparameters.batch_size,
        threads=model.threads,
        device=model.device.name,
        precision=held.environment.precision,
        step_seconds=np.array([end - start for start, end in trace.steps]),
        unprofiled_step_seconds=untraced,
        traced_step_seconds=traced,
        tracing_seconds_per_op=seconds_per_op(),
        compiled_step_seconds=np.array([]),
        outside_seconds=np.array(trace.outside_seconds()),
        work=np.array([held.work(number) for number in numbers]),
        ops=(ops := add_up(ops_by_step, attribution.place)),
        timeline=of_median_step(trace, ops, attribution.place),
        op_work=op_work(model),
        life=windows.life() if windows else None,
        gpu=gpu_use,
        cost=held.cost,
        processor=held.processor,
        environment=held.environment,
    )
    return profile, attribution.place


def _gpu_time(path: Path, sessions: Sessions) -> GpuTime | None:
    """Returns the use of the GPU in the marked steps of a trace, and in all sessions with it."""
    if sessions.gpu is None:
        return None
    in_steps, whole = gpu.read(path)
    sessions.gpu.add(whole)
    calls = sorted(sessions.gpu.calls.items(), key=lambda call: (-call[1][1], call[0]))
    return GpuTime(
        kernel_seconds=in_steps.kernel_seconds,
        api_seconds=in_steps.api_seconds,
        memcpy_seconds=in_steps.memcpy_seconds,
        process=ProcessGpuTime(
            kernel_seconds=sessions.gpu.kernel_seconds,
            memcpy_seconds=sessions.gpu.memcpy_seconds,
            calls=tuple(
                ApiCall(name=name, count=count, seconds=seconds) for name, (count, seconds) in calls
            ),
        ),
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


def single_steps(model_class: type[NeuralNetworkModel]) -> dict[str, object]:
    """Returns the option that makes each call one step: a trace separates steps by calls."""
    has_option = "steps_per_call" in field_names(model_class.RunOptions)
    return {"steps_per_call": 1} if has_option else {}


class _HeldBatches:
    """A few batches of a model, used to warm it up and then cycled.

    Args:
        model: after its setup.
        windows: trace some steps of the warm-up, if given.
        run_steps: of the warm-up.
        sessions: of the profiler.

    Attributes:
        steps: number of steps after the warm-up so far.
        processor: its use by these steps.
        environment, cost: of the run; the cost includes each layer's.
    """

    def __init__(
        self, model: NeuralNetworkModel, windows: Windows | None, run_steps: int, sessions: Sessions
    ) -> None:
        self._model = model
        self._turns: list[tuple[Step, Batch, float]] = []
        self.steps = 0
        self.processor = Processor()

        def keep(step: Step, batch: Batch) -> Nest:
            value = windows.step(step, batch) if windows else step(*batch)
            if len(self._turns) < _BATCHES:
                self._turns.append((step, batch, model.work(*batch)))
            return value

        if windows:
            result = model.run(runstep=keep, n_steps=run_steps)
        else:
            with sessions.session():
                result = model.run(runstep=keep, n_steps=run_steps)
        layers = [Layer(**dataclasses.asdict(layer)) for layer in model.cost().layers]
        self.environment = result.environment
        self.cost = LayerCosts(**dict(result.cost), layers=layers)

    def work(self, number: int) -> float:
        """Returns the work of a step, relative to a batch of the stated cost."""
        return self._turns[number % _BATCHES][2]

    def step(self) -> None:
        """Runs the next step and waits for it."""
        self.run(self.steps)
        self.steps += 1

    def run(self, number: int) -> None:
        """Runs the step of this number and waits for it."""
        compiled, batch, _ = self._turns[number % _BATCHES]
        self._run(compiled, batch)

    def copy(self) -> Callable[[int], None]:
        """Returns ``run`` with an executor of its own, after the first execution of each graph.

        Steps are compared between two copies, never between a copy and the original: a copy has one
        call more in its graph. It is called as directly as the original, since the look-up of
        ``tf.function`` takes up to a tenth of a short step.
        """
        step, signatures = self._turns[0][0], self._model.signatures()
        with self._model.device.placement():
            copy = CompiledStep(lambda *batch: step(*batch), signatures, 1, xla=False).single
        by_shape = {tuple(tuple(t.shape) for t in batch): batch for _, batch, _ in self._turns}
        for batch in list(by_shape.values())[: len(signatures)]:
            self._run(copy, batch)
        return lambda number: self._run(copy, self._turns[number % _BATCHES][1])

    def _run(self, step: Step, batch: Batch) -> None:
        used, started = environment.cpu_use(), time.perf_counter()
        step(*batch)
        self._model.device.synchronize()
        self.processor.add(used, environment.cpu_use(), time.perf_counter() - started)


def step_seconds(model: NeuralNetworkModel, steps: int) -> np.ndarray:
    """Sets up a model and returns the times of some steps after a warm-up."""
    model.setup()
    warmup = max(_BATCHES, model.steps_per_call)  # the first call is slow
    steps = max(steps, model.steps_per_call)
    seconds = model.run(n_steps=warmup + steps, warmup=warmup).steps.counted
    model.teardown()
    return seconds
