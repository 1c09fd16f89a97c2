"""Makes the runs of a characterization, each in a new process: ``fathom characterize``."""

import contextlib
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from fathom.errors import FathomError
from fathom.measure.profile.files import PROFILE, TRACE
from fathom.measure.runs import folder, plan, request
from fathom.measure.runs.request import Wanted
from fathom.results.characterization import Planned, Run
from fathom.results.profile import Profile
from fathom.results.records import RunResult
from fathom.system.files import atomic_write
from fathom.system.folders import claim_folder
from fathom.system.lock import FolderLock, lock_folder
from fathom.system.processes import run_python
from fathom.system.words import counted

_QUICK_MINUTES = 18.0  # after which --quick measures nothing again


def run(wanted: Wanted, out: Path, budget: float | None, screen: Console) -> None:
    """Makes the runs that a folder lacks; exits with 1 if one failed.

    Args:
        wanted: the measurements.
        out: results directory.
        budget: minutes after which no new run starts; None: no limit.
        screen: for the progress.

    Raises:
        FathomError: an invalid option or device, or a folder of another machine or request.
    """
    lock = _create(out)
    planned, skipped = _measure(wanted, out, budget, screen)
    del lock  # held until here
    runs = folder.read_runs(out)
    failed = [runs[p.id] for p in planned if p.id in runs and runs[p.id].status == "failed"]
    ends = [each for each in failed if _is_end_of_sweep(each, runs.values())]
    for each in failed:
        screen.print(f"{'end of sweep' if each in ends else 'failed'}: {each.id}: {each.reason}")
    if skipped:
        rest = counted(skipped, "run")
        screen.print(f"time budget exhausted, {rest} left: rerun the command to continue")
    screen.print(f"the analyses: python -m fathom report {out}")
    if len(failed) > len(ends):
        sys.exit(1)


def _measure(
    wanted: Wanted, out: Path, budget: float | None, screen: Console
) -> tuple[Sequence[Planned], int]:
    """Makes the remaining runs; returns all completed runs and the number skipped."""
    try:
        asked = request.measure_machine(wanted, out, screen)
        planned = plan.plan(asked)
        before = _done_before(planned, out)
        beyond = [each for each in planned if _is_beyond_end(each, before.values())]
        left = [each for each in planned if each.id not in before and each not in beyond]
        done = len(planned) - len(left) - len(beyond)
        more = f", {len(beyond)} beyond the end of a sweep" if beyond else ""
        screen.print(f"{counted(len(planned), 'run')}, {done} of them done before{more}: {out}")
        started = time.perf_counter()
        skipped = _make(left, before, started + 60 * (budget or math.inf), out, screen)
        minutes = budget or (_QUICK_MINUTES if wanted.quick else math.inf)
        _make_disturbed(planned, started + 60 * minutes, out, screen)
        if left:
            request.measure_again(out, asked, screen)
    except KeyboardInterrupt as stop:
        stop.args = ("rerun the command to continue",)
        raise
    return planned, skipped


def _create(out: Path) -> FolderLock:
    """Creates the folder, if necessary, and locks it while the lock is referenced."""
    if folder.read_machine(out) is None:
        claim_folder(out, "characterize")
    try:
        (out / "runs").mkdir(exist_ok=True)
        (out / "traces").mkdir(exist_ok=True)
        return lock_folder(out)
    except OSError as error:
        raise FathomError(f"cannot write to {out}: {error.strerror}") from error


def _done_before(planned: Sequence[Planned], out: Path) -> dict[str, Run]:
    """Returns the runs already in the folder, after adding new purposes to them."""
    before = folder.read_runs(out)
    for each in planned:
        run = before.get(each.id)
        if run is None:
            continue
        if run.argv != each.argv or run.cores != each.cores:
            raise FathomError(
                f"{out}/runs/{each.id}.json was made by {' '.join(run.argv)!r} on {run.cores} "
                f"cores, not by {' '.join(each.argv)!r} on {each.cores}: measure into another --out"
            )
        purpose = tuple(dict.fromkeys((*run.purpose, *each.purpose)))
        if purpose != run.purpose:
            before[each.id] = run.model_copy(update={"purpose": purpose})
            folder.write_run(before[each.id], out)
    return before


def _make(
    left: Sequence[Planned], before: Mapping[str, Run], end: float, out: Path, screen: Console
) -> int:
    """Makes the runs and writes each when done; returns the number skipped for the budget."""
    recorded = list(before.values())
    done = [run for run in recorded if run.status == "done"]
    for number, planned in enumerate(left):
        if time.perf_counter() > end:
            return len(left) - number
        label = f"[{number + 1}/{len(left)}] {planned}"
        if _is_beyond_end(planned, recorded):
            screen.print(f"{label}: left out, its sweep has ended")
            continue
        with screen.status(f"{label}; {_time_left(left[number:], done)}"):
            run = make_run(planned, out)
        folder.write_run(run, out)
        recorded.append(run)
        done += [run] if run.status == "done" else []
        screen.print(f"{label}: {_ended(run)}; {_time_left(left[number + 1 :], done)}")
    return 0


def _make_disturbed(planned: Sequence[Planned], end: float, out: Path, screen: Console) -> None:
    """Makes runs that other processes disturbed again, once, and keeps the first measurement."""
    runs = folder.read_runs(out)
    recorded = [runs[each.id] for each in planned if each.id in runs]
    again = [run for run in recorded if run.disturbed and run.first_cpu_share is None]
    for number, first in enumerate(again):
        if time.perf_counter() > end:
            screen.print(f"no time left to make disturbed runs again: {len(again) - number}")
            return
        label = f"[{number + 1}/{len(again)}] disturbed, once more: {first}"
        _keep(first, out)
        with screen.status(label):
            second = make_run(first, out)
        if second.status == "done":
            folder.write_run(second.model_copy(update={"first_cpu_share": first.cpu_share}), out)
        screen.print(f"{label}: {_ended(second)}")


def _keep(run: Run, out: Path) -> None:
    """Copies a run and its trace to ``disturbed/``."""
    for name in (f"runs/{run.id}.json", f"traces/{run.id}.xplane.pb"):
        if (out / name).exists():
            kept = out / "disturbed" / name
            with atomic_write(kept) as whole:
                whole.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(out / name, whole)


def _ended(run: Run) -> str:
    disturbed = ", disturbed by other processes" if run.disturbed else ""
    return f"{run.status} in {run.wall_s:.1f} s{disturbed}"


def _is_beyond_end(planned: Planned, recorded: Iterable[Run]) -> bool:
    """Returns whether a run of the same sweep failed at this batch size or a smaller one.

    The usual reasons are too little memory and too little data, which larger batches do not mend.
    """
    size = planned.batch_size or 0
    return any(
        run.status == "failed" and run.same_sweep(planned) and (run.batch_size or 0) <= size
        for run in recorded
    )


def _is_end_of_sweep(failed: Run, runs: Iterable[Run]) -> bool:
    """Returns whether smaller batches of its sweep succeeded."""
    size = failed.batch_size or 0
    return any(
        run.status == "done" and run.same_sweep(failed) and (run.batch_size or 0) < size
        for run in runs
    )


def make_run(planned: Planned, out: Path) -> Run:
    """Makes and returns one run; writes its trace to ``traces/`` in ``out``."""
    with tempfile.TemporaryDirectory() as temporary:
        output, profiled = Path(temporary), Path(temporary) / "profile"
        file, options = output / "result.json", [f"--json={output / 'result.json'}"]
        argv = list(planned.argv[1:])
        if planned.workers:
            argv.insert(argv.index("--"), f"--out={output / 'launch'}")
        if planned.kind == "profile":
            file, options = profiled / PROFILE, [f"--out={profiled}", "--raw"]
        with _only_cores(planned.cores):
            started = time.perf_counter()
            reason = run_python([*argv, *options], output / "log")
            wall_s = time.perf_counter() - started
        if reason is None and not file.exists():
            reason = "exit code 0, but it wrote no result"
        done = reason is None
        result = RunResult.read(file) if done and planned.kind == "timing" else None
        profile = Profile.read(file) if done and planned.kind == "profile" else None
        trace = profiled / TRACE
        if done and trace.exists():
            with atomic_write(out / "traces" / f"{planned.id}.xplane.pb") as whole:
                shutil.copyfile(trace, whole)
    return Run(
        **{name: getattr(planned, name) for name in Planned.model_fields},
        status="done" if done else "failed",
        reason=reason,
        wall_s=wall_s,
        result=result,
        profile=profile,
    )


@contextlib.contextmanager
def _only_cores(cores: int) -> Iterator[None]:
    """Restricts processes started in the block to the first of the available cores."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(available)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, available)


def _time_left(left: Sequence[Planned], done: Sequence[Run]) -> str:
    """Estimates the remaining time from the most similar completed runs."""
    if not left:
        return "nothing left"
    if not done:
        return f"{len(left)} left"
    seconds = sum(_expected_seconds(planned, done) for planned in left)
    time_left = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
    return f"{len(left)} left, about {time_left}"


def _expected_seconds(planned: Planned, done: Sequence[Run]) -> float:
    """Returns the mean time of the most similar runs, of which there is at least one."""
    for names in (("workload", "mode", "kind"), ("workload", "kind"), ("workload",), ("kind",), ()):
        alike = [
            run.wall_s
            for run in done
            if all(getattr(run, name) == getattr(planned, name) for name in names)
        ]
        if alike:
            break
    return sum(alike) / len(alike)
