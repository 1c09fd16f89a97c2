"""``fathom submit``: checks a characterization, and makes a bundle of it."""

import itertools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from fathom import workloads
from fathom.errors import FathomError
from fathom.measure.frames import device_kind
from fathom.measure.report import overview
from fathom.measure.report.intervals import of_median, ratio
from fathom.measure.runs.folder import Folder
from fathom.options import MODES
from fathom.results.atlas import Bundle, Measured
from fathom.results.characterization import Run
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system.environment import source

_SAME_LOSS = 1e-3  # relative: first losses of one seed differ by rounding between machines
_NAMED = 4  # problems in a message


def submit(path: Path) -> Bundle:
    """Returns the bundle of a results directory.

    Raises:
        FathomError: the folder cannot be read; or what it holds is not complete, undisturbed, of
            one known source of Fathom, with published counts and with the losses of its seed.
    """
    folder = Folder.read(path)
    cases = _cases(folder)
    problems = [*_incomplete(folder, cases), *_untimed(folder, cases)]
    problems += [*_of_other_source(folder), *itertools.chain(*map(_contradictions, cases))]
    if problems:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise FathomError(f"{path} cannot be submitted: {'; '.join(problems[:_NAMED])}{more}")
    shares = overview.heaviest(folder)
    rows = tuple(_row(case, shares.get(case[0].workload, {})) for case in cases)
    machine = folder.machine
    used = [_result(run).environment.gpu for run in itertools.chain(*cases)]
    gpus = [gpu for gpu in used if gpu]
    return Bundle(
        environment=machine.environment.model_copy(
            update={"command": "", "gpu": gpus[0] if gpus else None}
        ),
        gemm_flops_per_second=machine.gemm_flops_per_second,
        triad_bytes_per_second=machine.triad_bytes_per_second,
        rows=rows,
    )


def _cases(folder: Folder) -> list[list[Run]]:
    """Returns the timings with default threads and batches on all cores, equal ones together."""
    timed = [
        run
        for purpose in ("modes", "repeats")
        for run in folder.select(purpose)
        if run.kind == "timing" and run.repeat >= 0
    ]
    unique = {run.id: run for run in timed}.values()
    order = {name: i for i, name in enumerate(workloads.names())}

    def case(run: Run) -> tuple[object, ...]:
        return order.get(run.workload, len(order)), run.workload, run.mode != "train", run.device

    return [list(each) for _, each in itertools.groupby(sorted(unique, key=case), case)]


def _incomplete(folder: Folder, cases: Sequence[Sequence[Run]]) -> Iterator[str]:
    timed = {(case[0].workload, case[0].mode) for case in cases}
    profiled = {run.workload for run in folder.select("profile") if run.kind == "profile"}
    for name in workloads.EIGHT:
        missing = [f"--{mode}" for mode in MODES if (name, mode) not in timed]
        if missing:
            yield f"{name} {' and '.join(missing)} {'were' if missing[1:] else 'was'} not timed"
        if name not in profiled:
            yield f"{name} was not profiled"
    yield from (f"{run.id} failed" for run in folder.runs if run.status == "failed")


def _untimed(folder: Folder, cases: Sequence[Sequence[Run]]) -> Iterator[str]:
    for run in itertools.chain(*cases, folder.select("profile")):
        if run.disturbed:
            yield f"{run.id} was disturbed by other processes"
        if run.result and not run.result.steps.measurements:
            yield f"{run.id} has no step after its warm-up"
    for threads in folder.machine.gemm_flops_per_second:
        if folder.machine.disturbed(threads):
            yield f"the machine's rate on {threads} threads was disturbed by other processes"


def _of_other_source(folder: Folder) -> list[str]:
    """Returns why the source that measured is not the one that checks."""
    found = {run.environment.source for run in folder.runs if run.environment}
    if found == {source()}:
        return []
    shown = ", ".join(sorted(each or "unknown" for each in found))
    return [f"it was measured by another source of Fathom ({shown}) than this one, {source()}"]


def _contradictions(case: Sequence[Run]) -> Iterator[str]:
    """Yields what contradicts the published counts, or a loss that its seed does not give."""
    first = _result(case[0])
    name = first.workload
    try:
        published = workloads.descriptor(name)
    except FathomError:  # another package's, without a descriptor
        return
    if first.mode == "train" and first.data.kind == "synthetic":  # others have other vocabularies
        found = (first.cost.parameters, first.cost.forward_macs_per_example)
        if found != (published.parameters, published.macs):
            yield (
                f"{name} has {found[0]:,} parameters and {found[1]:,} multiply-accumulates, where "
                f"{published.parameters:,} and {published.macs:,} are published"
            )
    losses = [_first_loss(_result(run)) for run in case]
    known = [loss for loss in losses if loss is not None]
    if not all(math.isclose(loss, known[0], rel_tol=_SAME_LOSS) for loss in known):
        yield f"{name}'s processes begin with different losses: {known}"


def _row(case: Sequence[Run], shares: Mapping[str, float]) -> Measured:
    results = [_result(run) for run in case]
    first, environment = results[0], results[0].environment
    medians = np.array([result.steps.median for result in results])
    found = ratio(medians, np.ones(len(medians)))
    low, high = (found.low, found.high) if found.known else of_median(_by_call(first.steps))
    profiled = first.mode == "train" and device_kind(environment.device) == "cpu"
    return Measured(
        workload=first.workload,
        mode=first.mode,
        device=environment.device,
        precision=environment.precision,
        batch_size=first.hyperparameters.batch_size,
        threads=environment.threads,
        microbatches=environment.microbatches,
        xla=environment.xla,
        data=f"{first.data.name} ({first.data.kind})",
        seed=first.seed,
        command=shlex.join(case[0].argv),
        step_seconds=tuple(medians.tolist()),
        low=None if np.isnan(low) else low,
        high=None if np.isnan(high) else high,
        example=first.throughput.example,
        examples_per_second=geometric_mean(
            filter(None, (each.throughput.examples_per_second for each in results))
        ),
        flops_per_second=geometric_mean(
            filter(None, (each.throughput.flops_per_second for each in results))
        ),
        parameters=first.cost.parameters,
        forward_macs_per_example=first.cost.forward_macs_per_example,
        first_loss=_first_loss(first),
        op_shares=dict(shares) if profiled else {},
    )


def _by_call(steps: Steps) -> np.ndarray:
    """Returns the time of a counted step in each call, whose steps were timed together."""
    return np.array([*{steps.call[i]: steps.seconds[i] for i in steps.numbers}.values()])


def _result(run: Run) -> RunResult:
    if run.result is None:
        raise FathomError(f"{run.id} has no result")
    return run.result


def _first_loss(result: RunResult) -> float | None:
    return result.steps.loss[0] if result.steps.loss else None
