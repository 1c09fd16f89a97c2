"""Which runs of a folder an analysis is made from, and why a workload is missing from it."""

from collections.abc import Callable, Iterable

from fathom.characterize import papers
from fathom.characterize.analyses.runs import device_kind
from fathom.characterize.folder import Folder, Run
from fathom.characterize.profiles import Profile
from fathom.errors import FathomError

_RESULT_SCHEMA = 1  # of docs/results.md
_RESULT_FIELDS = frozenset(
    ("data", "hyperparameters", "environment", "sections", "steps", "throughput", "cost")
)


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


def timing_runs(folder: Folder, purpose: str, mode: str | None = None) -> list[Run]:
    """Returns the timing runs of one set that are done, in the paper's order.

    Args:
        folder: a characterization.
        purpose: the set, one of ``folder.PURPOSES``.
        mode: ``train`` or ``infer``; None for both.

    Raises:
        FathomError: a run's result is damaged or of another schema.
    """
    runs = [run for run in folder.select(purpose) if run.kind == "timing"]
    for run in runs:
        if run.result.get("schema") != _RESULT_SCHEMA or not run.result.keys() >= _RESULT_FIELDS:
            raise FathomError(
                f"{folder.path}/runs/{run.id}.json holds no result of schema {_RESULT_SCHEMA}: "
                "delete it and measure again"
            )
    chosen = [run for run in runs if mode in (None, run.mode)]
    return sorted(chosen, key=lambda run: (rank(run.workload), run.id))


def gaps(folder: Folder, there: Iterable[str], wanted: Callable[[Run], bool]) -> list[str]:
    """Says which of the eight workloads an analysis has not, and why.

    Args:
        folder: a characterization.
        there: the workloads that the analysis has.
        wanted: tells the runs that it is made from.
    """
    there = set(there)
    missing = [name for name in papers.breakdown().workloads if name not in there]
    reasons = {
        run.workload: run.reason for run in folder.failed if run.workload in missing and wanted(run)
    }
    failed = [f"{name}: failed ({reason})" for name, reason in reasons.items()]
    unmeasured = [name for name in missing if name not in reasons]
    return failed + ([f"{', '.join(unmeasured)}: not measured"] if unmeasured else [])


def is_profile(run: Run) -> bool:
    """Whether it is a profile of training on the CPU."""
    return run.kind == "profile" and run.mode == "train" and device_kind(run.device) == "cpu"


def is_gpu_profile(run: Run) -> bool:
    """Whether it is a profile of training on a GPU."""
    return run.kind == "profile" and run.mode == "train" and device_kind(run.device) == "gpu"


def rank(workload: str) -> int:
    """Returns a workload's place in the order of the papers' figures."""
    order = papers.breakdown().workloads
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
