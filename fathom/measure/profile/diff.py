"""Two profiles of one workload side by side: ``fathom profile --against``."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from fathom.errors import FathomError
from fathom.measure import frames
from fathom.measure.profile import files, tables, view
from fathom.measure.report import page
from fathom.results.profile import Profile
from fathom.system.files import atomic_write

_MOST_ROWS = 20  # in the terminal; the files have all
_LONGEST_NAME = 40  # characters of an op in the terminal: its end, which identifies it
_TITLES = {
    **{"seconds": "ms/step", "other_seconds": "other ms", "difference": "less other"},
    **{"ratio": "over other", "count": "calls/step", "other_count": "other calls"},
    **{"share": "share", "other_share": "other share"},
}
_NO_VERDICT = (
    "No verdict: each profile is from one process, and processes of the same program differ. "
    "`python -m fathom compare --interleave` gives one for the step time."
)


def read(folder: Path, workload: str | None = None, traced: bool = True) -> Profile:
    """Reads the profile in a folder of ``fathom profile --out``, of any workload or of this.

    Raises:
        FathomError: the profile cannot be read, it is of another workload, or, where it should be
            ``traced``, the trace is missing.
    """
    profile = Profile.read(folder / files.PROFILE)
    if workload not in (None, profile.workload):
        raise FathomError(f"{folder} is a profile of {profile.workload}, not of {workload}")
    if traced and not (folder / files.TRACE).is_file():
        raise FathomError(f"{folder} has no {files.TRACE}: profile again with --out")
    return profile


def op_types(profile: Profile, other: Profile) -> pd.DataFrame:
    """Compares the op types of two profiles, by the paper's names.

    Returns:
        ``type``; and of each profile ``seconds``, mean self time per step; ``count`` per step;
        ``share`` of the time of all ops, from 0 to 1 (``other_seconds``, ... of the other one).
        ``difference`` of the seconds and their ``ratio`` over the other's, NaN where those are 0.
        In decreasing order of the absolute difference.
    """
    sides = (tables.op_types(frames.profile_ops(each)) for each in (profile, other))
    return _side_by_side(*(side.set_index("type") for side in sides))


def ops(trace: Path, other: Path) -> pd.DataFrame:
    """Compares the ops of two traces, by their names in the graph.

    Returns:
        as ``op_types``, with ``op`` in place of ``type``; ``type`` and ``other_type``, the kernels
        that ran, as TensorFlow's profiler names them, empty where the op did not run.

    Raises:
        FathomError: a trace cannot be read or is not complete.
    """
    first, second = _ops(trace), _ops(other)
    table = _side_by_side(first, second)
    table.insert(1, "type", first.type.reindex(table.op).fillna("").to_numpy())
    table.insert(2, "other_type", second.type.reindex(table.op).fillna("").to_numpy())
    return table


def show(
    profile: Profile, other: Profile, by_type: pd.DataFrame, by_op: pd.DataFrame, screen: Console
) -> None:
    """Prints what differs between two profiles, and the largest differences of types and ops."""
    for line in _differences(profile, other):
        screen.print(f"differs: {line}")
    steps = [each.unprofiled_step_seconds for each in (profile, other)]
    if all(map(len, steps)):  # older files may have none
        first, second = (1e3 * np.median(each) for each in steps)
        screen.print(
            f"median step without the profiler: {first:,.3f} ms, other {second:,.3f} ms "
            f"({first / second:.3f})"
        )
    screen.print(_table("op types, by difference", by_type))
    names = by_op.op.map(
        lambda name: name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
    )
    both = by_op.type.replace("", "-") + ", other " + by_op.other_type.replace("", "-")
    kernels = by_op.type.where(by_op.type == by_op.other_type, both)
    shown = by_op.drop(columns="other_type").assign(op=names, type=kernels)
    screen.print(_table("ops, by difference", shown))
    screen.print(_NO_VERDICT)


def write(
    profile: Profile, other: Profile, by_type: pd.DataFrame, by_op: pd.DataFrame, out: Path
) -> None:
    """Writes both tables as ``op_types_against.csv``, ``ops_against.csv`` and ``against.html``.

    Raises:
        FathomError: a file cannot be written.
    """
    units = {name: f"{name}_a_step" for name in ("seconds", "other_seconds")}
    parts = [page.paragraph(f"differs: {line}") for line in _differences(profile, other)]
    parts.append(page.paragraph(_NO_VERDICT))
    for name, table in (("op_types", by_type), ("ops", by_op)):
        with atomic_write(out / f"{name}_against.csv") as temporary:
            table.rename(columns=units).to_csv(temporary, index=False, lineterminator="\n")
        parts.append(page.table(_in_units(table), f"{name.replace('_', ' ')}, by difference"))
    with atomic_write(out / "against.html") as temporary:
        temporary.write_text(page.page(f"{profile.workload}: two profiles", parts))


def _ops(path: Path) -> pd.DataFrame:
    """Returns kernel types, mean seconds and count per step, and share of each op by name."""
    from fathom.measure.profile import xplane  # imports TensorFlow

    steps = xplane.read(path).ops_by_step()
    events = [(event.name, event.op_type, event.self_s) for step in steps for event in step]
    by_name = pd.DataFrame(events, columns=["op", "type", "seconds"]).groupby("op")
    table = pd.DataFrame(
        {
            "type": by_name.type.agg(lambda types: " ".join(sorted(set(types)))),
            "seconds": by_name.seconds.sum() / len(steps),
            "count": by_name.size() / len(steps),
        }
    )
    return table.assign(share=table.seconds / table.seconds.sum())


def _side_by_side(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Joins the rows of two tables by their index; an op that one of them lacks took no time."""
    numbers = ["seconds", "count", "share"]
    other = second[numbers].add_prefix("other_")
    table = first[numbers].join(other, how="outer").fillna(0.0)
    table["difference"] = table.seconds - table.other_seconds
    table["ratio"] = table.seconds / table.other_seconds.replace(0.0, np.nan)
    table = table[list(_TITLES)].reset_index(names=first.index.name)
    order = table.difference.abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _in_units(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a table with milliseconds, per cent and titles."""
    numbers = {name: 1e3 * table[name] for name in ("seconds", "other_seconds", "difference")}
    shares = {name: 100 * table[name] for name in ("share", "other_share")}
    titles = _TITLES | {name: f"{_TITLES[name]} (%)" for name in shares}
    return table.assign(**numbers, **shares).rename(columns=titles)


def _differences(profile: Profile, other: Profile) -> Iterator[str]:
    """Yields the settings and parts of the environment in which two profiles differ."""
    settings = ("mode", "batch_size", "steps")
    first, second = (
        each.environment.to_plain()
        | each.settings.to_plain()
        | {name: getattr(each, name) for name in settings}
        for each in (profile, other)
    )
    for name in sorted((first.keys() & second.keys()) - {"command"}):
        if first[name] != second[name]:
            yield f"{name}: {first[name]}, other {second[name]}"


def _table(title: str, rows: pd.DataFrame) -> Table:
    """Returns the first rows and the sum of the others."""
    texts = [str(name) for name in rows if name not in _TITLES]
    table = view.new_table(title, [*texts, *_TITLES.values()], _TITLES.values())
    for _, row in rows[:_MOST_ROWS].iterrows():
        table.add_row(*(str(row[name]) for name in texts), *_cells(row))
    rest = rows[_MOST_ROWS:]
    if len(rest):
        sums = rest[list(_TITLES)].sum()
        sums["ratio"] = sums.seconds / sums.other_seconds if sums.other_seconds else np.nan
        table.add_row(f"{len(rest)} others", *[""] * (len(texts) - 1), *_cells(sums))
    return table


def _cells(row: pd.Series) -> Iterator[str]:
    for name in ("seconds", "other_seconds", "difference"):
        yield f"{1e3 * row[name]:{'+' if name == 'difference' else ''},.3f}"
    yield "-" if np.isnan(row["ratio"]) else f"{row['ratio']:.3f}"
    for name in ("count", "other_count"):
        yield f"{row[name]:,.0f}"
    for name in ("share", "other_share"):
        yield f"{row[name]:.1%}"
