"""The plan of a characterization's runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fathom.options import Characterization, Mode
from fathom.results.characterization import Kind, Planned, Purpose
from fathom.system.device import CPU

_PROFILE_STEPS, _QUICK_PROFILE_STEPS = 20, 6
_SHORTEST_LIFE = 8  # steps
_FOLLOWED = ("profile", "train", CPU.name, 1, 0)  # over a whole run: kind, mode, ..., repeat


@dataclass(frozen=True)
class Request:
    """The requested measurements, of all combinations of workloads, modes and devices.

    ``quick`` means fewer steps, smaller batches for the largest networks, and core counts in powers
    of two. Batches or workers, if there are any, are the only set.
    """

    workloads: Mapping[str, Characterization]  # by name, their classes' measurement settings
    modes: Sequence[Mode]
    devices: Sequence[str]  # as TensorFlow names them
    cores: int  # that are available
    threads: Sequence[int]  # intra-op thread counts for training profiles
    steps: int | None  # per run; None: determined by ``quick``
    repeats: int  # whole training runs per workload, to measure their spread
    warmup_runs: int  # whole runs before them, not counted
    profile_repeats: int  # processes per profile, and per timing that ``repeats`` does not repeat
    precision: str  # of all runs
    batch_size: int | None  # of all runs; None: each workload's default, or that of ``quick``
    quick: bool
    batches: Sequence[int] = ()  # batch sizes of a sweep
    workers: Sequence[int] = ()  # of distributed trainings, which need a batch size


def powers_of_two(most: int) -> list[int]:
    """Returns 1, 2, 4, ... below ``most``, and ``most``."""
    return [2**i for i in range(most.bit_length()) if 2**i < most] + [most]


def plan(request: Request) -> list[Planned]:
    """Returns all runs in execution order.

    First every workload runs once in every mode, then come profiles, threads and cores, then all
    these again for ``profile_repeats``, and finally repeats, so that an interrupted
    characterization is broad rather than deep. A run that belongs to several sets is done once.
    Sweeps over batch sizes take the small ones first.
    """
    if request.batches:
        return _batches(request)
    if request.workers:
        return _scaling(request)
    runs: dict[str, Planned] = {}
    rounds = [
        run
        for number in range(request.profile_repeats)
        for planner in (_modes, _profiles, _threads, _cores)
        for run in planner(request, number)
    ]
    for run in [*rounds, *_repeats(request)]:
        if run.id in runs:
            run = run.model_copy(update={"purpose": (*runs[run.id].purpose, *run.purpose)})
        runs[run.id] = run
    return list(runs.values())


def _modes(request: Request, number: int) -> list[Planned]:
    """Each workload in each mode on each device, with default thread pools.

    Training is repeated by ``_repeats``.
    """
    return [
        _run(request, "timing", "modes", workload, mode, device, repeat=number)
        for workload, mode, device in product(request.workloads, request.modes, request.devices)
        if mode == "infer" or not number
    ]


def _profiles(request: Request, number: int) -> list[Planned]:
    """The op profiles: with one thread on the CPU, with default thread pools on a GPU."""
    return [
        _run(
            *(request, "profile", "profile", workload, mode, device),
            threads=1 if device == CPU.name else None,
            repeat=number,
        )
        for workload, mode, device in product(request.workloads, request.modes, request.devices)
    ]


def _threads(request: Request, number: int) -> list[Planned]:
    """Training profiles with several numbers of threads."""
    return [
        _run(
            *(request, "profile", "threads", workload, "train", CPU.name),
            threads=threads,
            repeat=number,
        )
        for workload in _trained_on_cpu(request)
        for threads in request.threads
    ]


def _cores(request: Request, number: int) -> list[Planned]:
    """Training on only the first cores, from one to all; on all, ``_repeats`` makes it again."""
    sizes = powers_of_two(request.cores) if request.quick else range(1, request.cores + 1)
    return [
        _run(request, "timing", "cores", workload, "train", CPU.name, cores=cores, repeat=number)
        for workload in _trained_on_cpu(request)
        for cores in sizes
        if cores < request.cores or not number
    ]


def _repeats(request: Request) -> list[Planned]:
    """Repeated whole training runs, alternating between workloads.

    Without warm-up the run of ``_modes`` is the first of the repeats.
    """
    if "train" not in request.modes or not request.repeats:
        return []
    first = 1 if request.warmup_runs else 0
    numbers = [*range(-request.warmup_runs, 0), *range(first, first + request.repeats)]
    return [
        _run(
            *(request, "timing", "repeats" if number >= 0 else "warmup", workload, "train", device),
            repeat=number,
        )
        for number in numbers
        for workload in request.workloads
        for device in request.devices
    ]


def _batches(request: Request) -> list[Planned]:
    """Each workload in each mode on each device at each batch size."""
    return [
        _run(
            *(request, "timing", "batches", workload, mode, device), repeat=repeat, batch_size=size
        )
        for size in request.batches
        for repeat in range(max(1, request.repeats))
        for workload, mode, device in product(request.workloads, request.modes, request.devices)
    ]


def _scaling(request: Request) -> list[Planned]:
    """Trainings by several workers of one thread each, and by one worker of as many threads.

    Strong scaling divides the batch among the workers, weak scaling gives each of them one.
    """
    size = request.batch_size or 1
    shared = [(workers, 1, size) for workers in request.workers if not size % workers]
    larger = [(workers, 1, size * workers) for workers in request.workers]
    threaded = [(1, threads, size) for threads in request.workers]
    return [
        _run(
            *(request, "timing", "scaling", workload, "train", CPU.name),
            threads=threads,
            repeat=repeat,
            batch_size=batch_size,
            workers=workers,
        )
        for repeat in range(max(1, request.repeats))
        for workers, threads, batch_size in dict.fromkeys([*shared, *larger, *threaded])
        for workload in request.workloads
    ]


def _trained_on_cpu(request: Request) -> Collection[str]:
    """Returns the workloads of the sets that train on the CPU."""
    wanted = "train" in request.modes and CPU.name in request.devices
    return request.workloads if wanted else ()


def _run(
    request: Request,
    kind: Kind,
    purpose: Purpose,
    workload: str,
    mode: Mode,
    device: str,
    *,
    threads: int | None = None,
    cores: int | None = None,
    repeat: int = 0,
    batch_size: int | None = None,
    workers: int | None = None,
) -> Planned:
    swept = [f"batch{batch_size}"] if batch_size else []
    batch_size = batch_size or request.batch_size
    if batch_size is None and request.quick:
        batch_size = request.workloads[workload].quick_batch_size
    cores = cores or request.cores
    parts = [workload, mode, device.strip("/").replace(":", ""), kind, *swept]
    parts += [f"workers{workers}"] if workers else []
    parts += [f"threads{threads}"] if threads else []
    parts += [f"cores{cores}"] if cores != request.cores else []
    parts += [f"{'repeat' if repeat > 0 else 'warmup'}{abs(repeat)}"] if repeat else []
    planned = Planned(
        id="-".join(parts),
        kind=kind,
        purpose=(purpose,),
        workload=workload,
        mode=mode,
        device=device,
        threads=threads,
        cores=cores,
        repeat=repeat,
        workers=workers,
        precision=request.precision,
        batch_size=batch_size,
        argv=(),
    )
    return planned.model_copy(update={"argv": _command(request, planned)})


def _life(request: Request, workload: str) -> int:
    """Returns the steps of the run that F1 follows: ten times a timing's, or a quick timing's."""
    wanted = request.workloads[workload]
    steps = request.steps or (wanted.quick_steps if request.quick else wanted.steps)
    return max(_SHORTEST_LIFE, steps if request.quick else 10 * steps)


def _command(request: Request, run: Planned) -> tuple[str, ...]:
    """Returns the command, without its output file.

    Batches are whole in all runs. Where operations run at once and the batch can be divided, a run
    would otherwise take microbatches instead of XLA, and a sweep over batch sizes or cores would
    compare several programs.
    """
    timing, quick, wanted = run.kind == "timing", request.quick, request.workloads[run.workload]
    if timing:
        steps = wanted.quick_steps if quick else wanted.steps
    else:
        steps = _QUICK_PROFILE_STEPS if quick else _PROFILE_STEPS
    command = ["python", "-m", "fathom"]
    launch = ["launch", f"--workers={run.workers}", "--"]
    command += launch if run.workers else ["run" if timing else "profile"]
    command += [run.workload]
    command += ["--quiet"] if timing else []
    command += [f"--{run.mode}", f"--device={run.device}", f"--precision={run.precision}"]
    command += ["--microbatches=1", f"--steps={request.steps or steps}"]
    command += [f"--threads={run.threads}"] if run.threads else []
    command += [f"--batch-size={run.batch_size}"] if run.batch_size else []
    settings = (
        None if timing else wanted.profile_setting,
        wanted.quick_setting if quick else None,
        wanted.inference_setting if run.mode == "infer" else None,
    )
    command += [f"--set={setting}" for setting in settings if setting]
    if (run.kind, run.mode, run.device, run.threads, run.repeat) == _FOLLOWED:
        command.append(f"--life={_life(request, run.workload)}")
    return tuple(command)
