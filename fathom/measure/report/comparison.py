"""Compares characterizations: what differs, and which differences exceed the noise."""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import drift, programs, selection
from fathom.measure.report.intervals import CONFIDENCE, Difference, Noise, difference, holm
from fathom.measure.runs.folder import Folder
from fathom.system.words import counted

LABELS = string.ascii_uppercase  # of the folders; the first one is the base
_WITHIN = "within the noise"
CANNOT_TELL = "cannot tell"  # the noise hides what matters
UNDECIDED = (_WITHIN, CANNOT_TELL)  # verdicts that tell no difference
_SMALLEST_SHARE = 1.0  # percent; op types below it on both sides are not compared
_CASE = ["workload", "mode", "on"]
_Case: TypeAlias = tuple[str, ...]  # workload, mode and device; or workload and "profile"
_Profile: TypeAlias = tuple[pd.DataFrame, pd.DataFrame]  # runs and ops of one workload
_Side = TypeVar("_Side", pd.DataFrame, _Profile)
_SESSIONS = 1.0  # variance of times between folders of a program over that between runs of a folder
_TOO_LARGE = 20.0  # percent: where no smaller difference would show, none of interest is excluded


@dataclass(frozen=True)
class Comparison:
    """The comparison of folders B, C, ... with A, with the reasons for what cannot be compared.

    Attributes:
        ratios: one row per workload, mode, device (``cpu`` or ``gpu``) and folder: the geometric
            means of the runs' median step times (of a batch of the stated cost if batches vary in
            length), their ratio ``over A``, ``from`` and ``to``, the limits of its 95 % interval
            between runs; ``machine (%)``, how much slower the machine itself was at times; the
            number of ``runs`` of A and of the folder, and of those that other processes disturbed;
            ``programs`` of A and of the folder, where they differ in any row; ``p`` of a larger
            ratio than the machine's, with Holm's correction over all rows; ``verdict``; ``would
            show (%)``: a smaller difference would have none. With a single run on either side there
            is no interval, p value or verdict.
        shares: one row per workload, op type and folder: its share of the time in ops in percent,
            the mean over equal profiles, and the difference, with the same columns.
        refused: one sentence per workload and mode whose runs or profiles are not compared.
    """

    ratios: pd.DataFrame
    shares: pd.DataFrame
    refused: tuple[str, ...]


def compare(base: Folder, others: Sequence[Folder]) -> Comparison:
    """Compares the matching runs of folders, with default threads and all cores."""
    ratios, refused = [], []
    shares: list[dict[str, object]] = []
    timings, profiles = _timings(base), _profiles(base)
    for label, folder in zip(LABELS[1:], others, strict=False):
        change = drift.between(base.machine, folder.machine)
        timed, unlike_steps = _alike(label, timings, _timings(folder), _unlike)
        ratios += [_ratio(label, case, *sides, change) for case, sides in timed.items()]
        profiled, unlike_profiles = _alike(label, profiles, _profiles(folder), _unlike_profiles)
        for (workload, _), sides in profiled.items():
            shares += _share_changes(workload, label, *sides)
        refused += [f"A and {label}: {each}" for each in (*unlike_steps, *unlike_profiles)]
    times = _side_by_side(ratios, ["workload", "mode", "device"])
    if len(times) and not times.programs.any():
        times = times.drop(columns="programs")
    return Comparison(
        _time_verdicts(times),
        _share_verdicts(_side_by_side(shares, ["workload", "op type"])),
        tuple(refused),
    )


def _side_by_side(rows: list[dict[str, object]], case: list[str]) -> pd.DataFrame:
    """Groups the rows by case and keeps their order otherwise."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    order = frame.groupby(case, sort=False).ngroup()
    return frame.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def _time_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Adds intervals and verdicts, with the noise of the other rows and between folders."""
    if table.empty:
        return table
    sides = [each for each, _ in table.test]
    found = [
        difference(each, _SESSIONS, Noise.of_most(sides[:i] + sides[i + 1 :]))
        for i, each in enumerate(sides)
    ]
    limits = np.exp([[each.interval().low, each.interval().high] for each in found])
    table = table.assign(**{"from": limits[:, 0], "to": limits[:, 1]})
    verdicts = _with_verdicts(table, found, "slower", "faster")
    verdicts["would show (%)"] = 100 * np.expm1(verdicts["would show (%)"])
    unclear = (verdicts.verdict == _WITHIN) & (verdicts["would show (%)"] > _TOO_LARGE)
    return verdicts.assign(verdict=verdicts.verdict.mask(unclear, CANNOT_TELL))


def _share_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return table
    return _with_verdicts(table, [difference(each) for each, _ in table.test], "larger", "smaller")


def _with_verdicts(
    table: pd.DataFrame, found: Sequence[Difference], above: str, below: str
) -> pd.DataFrame:
    """Adds p values, corrected over the table, verdicts, and what would have been told."""
    margins = [margin for _, margin in table.test]
    pairs = list(zip(found, margins, strict=True))
    p_values = holm(np.array([each.p_value(margin) for each, margin in pairs]))
    tests = int(np.count_nonzero(~np.isnan(p_values)))
    shows = np.array([each.detectable(margin, tests) for each, margin in pairs])
    words = np.where([each.value > 0 for each in found], above, below)
    words = np.where(p_values < 1 - CONFIDENCE, words, _WITHIN)
    table = table.drop(columns="test").assign(p=p_values)
    table["verdict"] = pd.Series(words, dtype=object).where(~np.isnan(p_values), None)
    return table.assign(**{"would show (%)": shows})


def _timings(folder: Folder) -> dict[_Case, pd.DataFrame]:
    """Returns the timings with counted steps by workload, mode and device."""
    runs = selection.processes(folder).dropna(subset="median_s")
    return dict(list(runs.groupby(_CASE, sort=False)))


def _alike(
    label: str,
    first: Mapping[_Case, _Side],
    second: Mapping[_Case, _Side],
    unlike: Callable[[str, _Side, _Side], str],
) -> tuple[dict[_Case, tuple[_Side, _Side]], list[str]]:
    """Returns both sides of the cases that can be compared, and sentences on the others."""
    alike, refused = {}, []
    for case in dict.fromkeys([*first, *second]):
        if case not in first or case not in second:
            refused.append(f"{' '.join(case)}: only in {'A' if case in first else label}")
        elif reason := unlike(label, first[case], second[case]):
            refused.append(f"{' '.join(case)}: {reason}")
        else:
            alike[case] = first[case], second[case]
    return alike, refused


def _unlike(label: str, first: pd.DataFrame, second: pd.DataFrame) -> str:
    """Returns the differences in settings that make step times incomparable."""
    ours, theirs = (side.settings.iloc[0] for side in (first, second))
    sides = {name: (ours.get(name), theirs.get(name)) for name in [*ours, *theirs]}
    return ", ".join(f"{name} {a} against {b}" for name, (a, b) in sides.items() if a != b)


def _ratio(
    label: str, case: _Case, first: pd.DataFrame, second: pd.DataFrame, change: float
) -> dict[str, object]:
    """Compares the runs' medians: the steps of a run do not show the noise between runs."""
    change = max(change, drift.lost(first), drift.lost(second))
    seconds = selection.step_seconds(pd.concat([first, second])).to_numpy()
    a, b = np.split(np.log(seconds), [len(first)])
    return {
        **dict(zip(("workload", "mode", "device"), case, strict=True)),
        "folder": label,
        "A (ms)": 1e3 * np.exp(a.mean()),
        "its (ms)": 1e3 * np.exp(b.mean()),
        "over A": np.exp(b.mean() - a.mean()),
        "from": np.nan,  # until the noise of the other rows is known
        "to": np.nan,
        "machine (%)": 100 * np.expm1(change),
        "runs": _runs(first, second),
        "programs": _programs(first, second),
        "test": ([a, b], change),
    }


def _programs(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """Returns the programs of both sides if they differ, else ""."""
    a, b = (str(programs.joined(programs.of(side))) for side in (first, second))
    return "" if a == b else f"{a} and {b}"


def _runs(first: pd.DataFrame, second: pd.DataFrame) -> str:
    return f"{selection.count(first)} and {selection.count(second)}"


def _profiles(folder: Folder) -> dict[_Case, _Profile]:
    """Returns the profiles of each workload, also where their ops took no time: it is refused."""
    runs, ops = selection.profile_runs(folder), folder.ops()
    chosen = selection.training_profiles(folder)
    empty = runs[(runs.op_s == 0) & ~runs.workload.isin(chosen.workload)]
    groups = pd.concat([chosen, empty]).groupby("workload", sort=False)
    return {(str(name), "profile"): (each, ops[ops.run.isin(each.run)]) for name, each in groups}


def _shares(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns each op type's share of the time in ops by process, in decreasing order."""
    shares = tables.shares_by_process(ops)
    return shares.loc[shares.mean(axis=1).sort_values(ascending=False, kind="stable").index]


def _unlike_profiles(label: str, first: _Profile, second: _Profile) -> str:
    """Returns why the shares of profiles cannot be compared; "": they can."""
    empty = [name for name, (runs, _) in (("A", first), (label, second)) if not runs.op_s.any()]
    if empty:
        return f"ops took no time in {' and '.join(empty)}"
    a, b = ((runs.batch_size.iloc[0], runs.threads.iloc[0]) for runs, _ in (first, second))
    if a != b:
        return f"batch {a[0]} on {counted(a[1], 'thread')} against batch {b[0]} on {b[1]}"
    return ""


def _share_changes(
    workload: str, label: str, first: _Profile, second: _Profile
) -> Iterator[dict[str, object]]:
    """Yields the change of each op type's share, by process."""
    shares = [_shares(ops) for _, ops in (first, second)]
    op_types = list(dict.fromkeys(op_type for side in shares for op_type in side.index))
    sides = [100 * side.reindex(op_types, fill_value=0.0) for side in shares]
    for op_type in op_types:
        a, b = (side.loc[op_type].to_numpy() for side in sides)
        if max(a.mean(), b.mean()) >= _SMALLEST_SHARE:
            yield {
                "workload": workload,
                "op type": op_type,
                "folder": label,
                "A (%)": a.mean(),
                "its (%)": b.mean(),
                **difference([a, b]).interval().columns("less A"),
                "profiles": _runs(first[0], second[0]),
                "test": ([a, b], 0.0),
            }
