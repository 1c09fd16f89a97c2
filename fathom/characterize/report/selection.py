"""Which runs of a folder an analysis is made from, and why a workload is missing from it."""

from collections.abc import Callable, Iterable

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import published
from fathom.characterize.report.analyses.runs import device_kind
from fathom.results.characterization import Run
from fathom.results.profile import Profile


def training_profiles(folder: Folder, device: str = "cpu") -> list[Profile]:
    """Returns one training profile a workload, on the fewest threads, in the paper's order.

    Args:
        folder: a characterization.
        device: ``cpu`` or ``gpu``.
    """
    fewest: dict[str, Profile] = {}
    for profile in _profiles(folder, device):
        known = fewest.get(profile.workload)
        if known is None or profile.threads < known.threads:
            fewest[profile.workload] = profile
    return sorted(fewest.values(), key=lambda profile: rank(profile.workload))


def thread_profiles(folder: Folder) -> list[Profile]:
    """Returns the training profiles on the CPU on any number of threads, in the paper's order."""
    return sorted(_profiles(folder, "cpu"), key=lambda p: (rank(p.workload), p.threads))


def timing_runs(folder: Folder, purpose: str) -> list[Run]:
    """Returns the timing runs of one set that are done, in the paper's order.

    Args:
        folder: a characterization.
        purpose: the set, one of those in docs/characterization.md.
    """
    runs = [run for run in folder.select(purpose) if run.kind == "timing"]
    return sorted(runs, key=lambda run: (rank(run.workload), run.id))


def gaps(
    folder: Folder, there: Iterable[str], wanted: Callable[[Run], bool], too_few: str = ""
) -> list[str]:
    """Says what an analysis lacks, and why: failed runs, workloads measured too little or not.

    Args:
        folder: a characterization.
        there: the workloads that the analysis has.
        wanted: tells the runs that it is made from.
        too_few: says of a workload what its runs lack where they do not suffice.
    """
    failed = [run for run in folder.failed if wanted(run)]
    explained = {*there, *(run.workload for run in failed)}
    missing = [name for name in published.breakdown().workloads if name not in explained]
    measured = {run.workload for run in folder.runs if run.status == "done" and wanted(run)}
    sentences = [f"{_case(run)}: failed ({run.reason})" for run in failed]
    for names, reason in (
        ([name for name in missing if name in measured], too_few),
        ([name for name in missing if name not in measured], "not measured"),
    ):
        sentences += [f"{', '.join(names)}: {reason}"] if names else []
    return list(dict.fromkeys(sentences))


def _case(run: Run) -> str:
    threads = f", {run.threads} thread{'s' if run.threads > 1 else ''}" if run.threads else ""
    return f"{run.workload} {run.mode}{threads}"


def is_profile(run: Run) -> bool:
    """Whether it is a profile of training on the CPU."""
    return run.kind == "profile" and run.mode == "train" and device_kind(run.device) == "cpu"


def is_gpu_profile(run: Run) -> bool:
    """Whether it is a profile of training on a GPU."""
    return run.kind == "profile" and run.mode == "train" and device_kind(run.device) == "gpu"


def rank(workload: str) -> int:
    """Returns a workload's place in the order of the papers' figures."""
    order = published.breakdown().workloads
    return order.index(workload) if workload in order else len(order)


def _profiles(folder: Folder, device: str) -> list[Profile]:
    return [
        run.profile
        for run in folder.runs
        if run.profile
        and run.profile.op_seconds  # without any, there are no shares
        and run.mode == "train"
        and device_kind(run.device) == device
    ]
