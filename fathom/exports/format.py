"""What every format is: words about it, and a function that writes it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fathom.results.description import Description


@dataclass(frozen=True)
class Exported:
    """The files of an export, by name, and what the format cannot express."""

    files: dict[str, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A format of another tool.

    Attributes:
        about: what it is, in a line.
        export: makes the files of a description; raises FathomError if it can express nothing.
    """

    about: str
    export: Callable[[Description], Exported]


def sorted_out(description: Description, *kinds: str) -> tuple[str, ...]:
    """Returns a line for each kind of operation that is not among these, with their number."""
    rows = [row for row in description.operations if row.kind not in kinds]
    counts = {row.kind: sum(other.kind == row.kind for other in rows) for row in rows}
    return tuple(f"{count:,} operations of kind {kind}" for kind, count in counts.items())


def write(exported: Exported, folder: Path) -> None:
    """Writes all files of an export into a folder that exists."""
    for name, text in exported.files.items():
        (folder / name).write_text(text)
