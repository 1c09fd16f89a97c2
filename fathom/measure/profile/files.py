"""The files of ``fathom profile --out``: the profile as JSON and CSV, and the trace itself."""

from collections.abc import Callable
from pathlib import Path

from fathom.errors import FathomError
from fathom.measure import frames
from fathom.measure.profile import tables
from fathom.results.profile import PHASES, Profile
from fathom.system.files import atomic_write

AGAINST = ("op_types_against.csv", "ops_against.csv", "against.html")  # of ``diff.write``
PROFILE = "profile.json"
TRACE = "trace.xplane.pb"
_TENSORBOARD = Path("plugins", "profile", "fathom")  # where TensorBoard looks for traces


def write(profile: Profile, place: Callable[[str, str], tuple[str, str]], out: Path) -> None:
    """Writes ops.csv, layers.csv, trace.json.gz and, at last, profile.json next to the trace.

    Raises:
        FathomError: a file cannot be written.
    """
    from fathom.measure.profile import chrome  # imports TensorFlow

    for name in AGAINST:  # of the profile that this one replaces
        (out / name).unlink(missing_ok=True)
    ops = frames.profile_ops(profile)
    seconds = {name: f"{name}_seconds_a_step" for name in PHASES} | {"seconds": "seconds_a_step"}
    for name, table in (("ops", tables.op_types(ops)), ("layers", tables.layers(ops))):
        with atomic_write(out / f"{name}.csv") as temporary:
            content = table.drop(columns="workload").rename(columns=seconds)
            content.to_csv(temporary, index=False, lineterminator="\n")
    chrome.write(out / TRACE, place, out / "trace.json.gz")
    _show_to_tensorboard(out)
    profile.write(out / PROFILE)


def _show_to_tensorboard(out: Path) -> None:
    """Links the trace to where ``tensorboard --logdir`` looks for it."""
    link = out / _TENSORBOARD / TRACE
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path(*[".."] * len(_TENSORBOARD.parts), TRACE))
    except OSError as error:
        raise FathomError(f"cannot write {link}: {error.strerror}") from error
