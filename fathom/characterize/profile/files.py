"""The files of ``fathom profile --out``: the profile as JSON and CSV, and the trace itself."""

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fathom.characterize.profile import chrome, tables
from fathom.errors import FathomError
from fathom.results.profile import PHASES, Profile
from fathom.system.files import atomic_write

TRACE = "trace.xplane.pb"
_TENSORBOARD = Path("plugins", "profile", "fathom")  # where TensorBoard looks for traces


def write(profile: Profile, place: Callable[[str, str], tuple[str, str]], out: Path) -> None:
    """Writes profile.json, ops.csv, layers.csv and trace.json.gz beside the trace.

    Args:
        profile: what was measured.
        place: returns layer and phase of the op of a name and type.
        out: the folder, with the trace in it.

    Raises:
        FathomError: a file cannot be written.
    """
    profile.write(out / "profile.json")
    _write_csv(
        out / "ops.csv",
        ("type", "class", "kernels", "seconds_a_step", "share", "cumulative_share", "count"),
        (
            (
                *(row.type, row.op_class, " ".join(row.kernels), row.seconds),
                *(row.share, row.cumulative_share, row.count),
            )
            for row in tables.op_rows(profile)
        ),
    )
    _write_csv(
        out / "layers.csv",
        ("layer", *(f"{phase}_seconds_a_step" for phase in PHASES), "share"),
        (
            (row.layer, *(row.seconds[phase] for phase in PHASES), row.share)
            for row in tables.layer_rows(profile)
        ),
    )
    chrome.write(out / TRACE, place, out / "trace.json.gz")
    _show_to_tensorboard(out)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _show_to_tensorboard(out: Path) -> None:
    """Puts a link to the trace where ``tensorboard --logdir`` looks for it."""
    link = out / _TENSORBOARD / TRACE
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path(*[".."] * len(_TENSORBOARD.parts), TRACE))
    except OSError as error:
        raise FathomError(f"cannot write {link}: {error.strerror}") from error
