"""Profiles a model in this process."""

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fathom.core.training.compilation import Batch, Nest, Step, copied
from fathom.errors import FathomError
from fathom.hardware.description.attribution import Attribution
from fathom.measure.profile import files, gpu, xplane
from fathom.measure.profile.chrome import Place
from fathom.measure.profile.completeness import Counts, counts_of, require_equal_ops
from fathom.measure.profile.gpu import Sessions
from fathom.measure.profile.overhead import NumberedStep, in_turn, seconds_per_op, warm_up
from fathom.measure.profile.windows import Windows
from fathom.measure.profile.work import op_work
from fathom.measure.profile.xplane import OpEvent
from fathom.nn import NeuralNetworkModel
from fathom.options import field_names
from fathom.results.profile import (
    ApiCall,
    GpuTime,
    LayerCosts,
    OpTime,
    ProcessGpuTime,
    Profile,
    Timeline,
)
from fathom.results.records import Processor, RunResult, UsedOptions
from fathom.system import environment

_BATCHES = 4  # held in memory and cycled


def profile_model(
    model: NeuralNetworkModel,
    steps: int,
    directory: Path,
    *,
    run_steps: int | None = None,
    sessions: Sessions | None = None,
) -> tuple[Profile, Place]:
    """Profiles a model after its setup.

    A few real batches are fetched first, while the first steps warm up; then the input pipeline is
    released, so that it takes no time from the steps, and the batches are cycled. The model's step
    is executed only with the profiler, so that it has every op; in turn with it a copy of the step
    is executed without.

    Args:
        model: with one step per call, not compiled as a whole by XLA.
        steps: number of profiled steps, and of steps without the profiler.
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
    batches, works, result = _warmed_up(model, windows, run_steps or _BATCHES, sessions)
    step = model.compiled.step.single
    traced, untraced = (_on_batches(each, batches, model) for each in (step, copied(step)))
    whole = _ops_of_graphs(untraced, batches)
    warm_up(traced, untraced, sessions.session)
    processor, stolen = Processor(), environment.steal_seconds()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        times = in_turn(traced, untraced, steps, processor, sessions.session, folder)
        paths = sorted(folder.iterdir())
        traces = [xplane.read(path) for path in paths]
        gpu_use = _gpu_time(paths, sessions)
        (directory / files.PROFILE).unlink(missing_ok=True)  # of the trace that this one replaces
        xplane.join(paths, directory / files.TRACE)
    processor.add_system(stolen, environment.steal_seconds(), environment.frequency_mhz())
    ops_by_step = [ops for trace in traces for ops in trace.ops_by_step()]
    turns = [number % _BATCHES for number in range(steps)]
    require_equal_ops([counts_of(ops) for ops in ops_by_step], turns, whole)
    attribution = Attribution(model.model(), model.network, model.optimizer)
    bounds = [step for trace in traces for step in trace.steps]
    ops = add_up(ops_by_step, attribution.place)
    profile = Profile(
        workload=model.name,
        mode=model.mode,
        batch_size=model.hyperparameters.batch_size,
        threads=model.threads,
        device=model.device.name,
        precision=result.environment.precision,
        step_seconds=np.array([end - start for start, end in bounds]),
        unprofiled_step_seconds=times[1],
        traced_step_seconds=times[0],
        tracing_seconds_per_op=seconds_per_op(),
        compiled_step_seconds=np.array([]),
        outside_seconds=np.concatenate([trace.outside_seconds() for trace in traces]),
        work=np.array([works[turn] for turn in turns]),
        ops=ops,
        timeline=of_median_step(bounds, ops_by_step, ops, attribution.place),
        op_work=op_work(model, works[0]),
        life=windows.life() if windows else None,
        gpu=gpu_use,
        settings=UsedOptions(
            **{"seed": result.seed} | dict(result.hyperparameters) | dict(result.options)
        ),
        cost=LayerCosts(**dict(result.cost), layers=list(model.cost().layers)),
        processor=processor,
        environment=result.environment,
    )
    return profile, attribution.place


def _ops_of_graphs(untraced: NumberedStep, batches: Sequence[Batch]) -> dict[int, Counts]:
    """Returns the ops of the step on each batch, from executions of a copy that never ran before.

    A batch of each shape runs first: when TensorFlow optimises the graph of a shape, it runs ops of
    its own to fold constants.
    """
    shapes = (tuple(tuple(tensor.shape) for tensor in batch) for batch in batches)
    of_each_shape = {each: number for number, each in enumerate(shapes)}.values()
    turns = iter([list(of_each_shape), *([number] for number in range(_BATCHES))])

    def step() -> None:
        for number in next(turns):
            untraced(number)

    trace = xplane.trace(step, _BATCHES)
    return dict(enumerate(map(counts_of, trace.ops_by_step())))


def _gpu_time(paths: Sequence[Path], sessions: Sessions) -> GpuTime | None:
    """Returns the use of the GPU in the marked steps of traces, and in all sessions so far."""
    if sessions.gpu is None:
        return None
    in_steps = gpu.GpuUse()
    for path in paths:
        in_steps.add(gpu.read(path)[0])
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


def add_up(steps: Sequence[Sequence[OpEvent]], place: Place) -> tuple[OpTime, ...]:
    """Sums op events by type, layer, phase and device, in decreasing order of time."""
    seconds: dict[tuple[str, ...], np.ndarray] = {}
    counts: dict[tuple[str, ...], int] = {}
    for number, events in enumerate(steps):
        for event in events:
            key = _key(event, place)
            seconds.setdefault(key, np.zeros(len(steps)))[number] += event.self_s
            counts[key] = counts.get(key, 0) + 1
    names = ("type", "layer", "phase", "on", "seconds", "count")
    ops = (
        dict(zip(names, (*key, each, counts[key] / len(steps)), strict=True))
        for key, each in seconds.items()
    )
    return tuple(sorted(map(OpTime.model_validate, ops), key=lambda op: -op.seconds.sum()))


def _key(event: OpEvent, place: Place) -> tuple[str, str, str, str]:
    """Returns an event's type, layer, phase and device."""
    layer, phase = place(event.name, event.op_type)
    return event.op_type, layer, phase, "gpu" if event.on_gpu else "cpu"


def of_median_step(
    bounds: Sequence[tuple[float, float]],
    ops_by_step: Sequence[Sequence[OpEvent]],
    ops: Sequence[OpTime],
    place: Place,
) -> Timeline:
    """Returns the timeline of the step of median time.

    Args:
        bounds: start and end of each profiled step, in seconds.
        ops_by_step: the ops that ran in each.
        ops: the same, from ``add_up``.
        place: maps an op's name and type to its layer and phase; see ``Attribution.place``.
    """
    durations = [end - start for start, end in bounds]
    step = int(np.argsort(durations)[len(durations) // 2])
    events = sorted(ops_by_step[step], key=lambda event: (event.start_s, -event.duration_s))
    threads = sorted({event.line for event in events})
    order: dict[tuple[str, ...], int] = {
        (op.type, op.layer, op.phase, op.on): i for i, op in enumerate(ops)
    }
    return Timeline(
        step=step,
        threads=tuple(threads),
        thread=tuple(threads.index(event.line) for event in events),
        op=tuple(order[_key(event, place)] for event in events),
        start_seconds=np.array([event.start_s - bounds[step][0] for event in events]),
        seconds=np.array([event.duration_s for event in events]),
    )


def single_steps(model_class: type[NeuralNetworkModel]) -> dict[str, object]:
    """Returns the option that makes each call one step: a trace separates steps by calls."""
    has_option = "steps_per_call" in field_names(model_class.RunOptions)
    return {"steps_per_call": 1} if has_option else {}


def _warmed_up(
    model: NeuralNetworkModel, windows: Windows | None, run_steps: int, sessions: Sessions
) -> tuple[list[Batch], list[float], RunResult]:
    """Warms up a model's step; returns a few batches, their work and the run.

    Work is relative to that of a batch of the stated cost; windows trace some of the steps.
    """
    batches: list[Batch] = []
    works: list[float] = []
    step = model.compiled.step.single

    def keep(_: Step, batch: Batch) -> Nest:
        """Runs the step in one graph, where a run would compute it in two phases."""
        value = windows.step(step, batch) if windows else step(*batch)
        if len(batches) < _BATCHES:
            batches.append(batch)
            works.append(model.work(*batch))
        return value

    with contextlib.nullcontext() if windows else sessions.session():
        result = model.run(runstep=keep, n_steps=run_steps)
    return batches, works, result


def _on_batches(step: Step, batches: Sequence[Batch], model: NeuralNetworkModel) -> NumberedStep:
    """Returns a function that runs a step on the batch of a number, in turn, and waits."""

    def run(number: int) -> None:
        step(*batches[number % _BATCHES])
        model.device.synchronize()

    return run


def step_seconds(model: NeuralNetworkModel, steps: int) -> np.ndarray:
    """Sets up a model and returns the times of some steps after a warm-up."""
    model.setup()
    warmup = max(_BATCHES, model.steps_per_call)  # the first call is slow
    steps = max(steps, model.steps_per_call)
    seconds = model.run(n_steps=warmup + steps, warmup=warmup).steps.counted
    model.teardown()
    return seconds
