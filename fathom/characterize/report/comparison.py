"""Compares characterizations: what differs, and which differences exceed the noise."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.intervals import CONFIDENCE, holm, welch

LABELS = string.ascii_uppercase  # of the folders; the first one is the base
_SMALLEST_SHARE = 0.01  # op types below it on both sides are not compared
_CASE = ["workload", "mode", "on"]


@dataclass(frozen=True)
class Comparison:
    """The comparison of folders B, C, ... with A, with the reasons for what cannot be compared.

    Attributes:
        ratios: one row per workload, mode, device (``cpu`` or ``gpu``) and folder: the geometric
            means of the runs' median step times, their ratio ``over A``, ``from`` and ``to``, the
            limits of its 95 % interval between runs; the number of ``runs`` of A and of the folder,
            and of those that other processes disturbed; ``p``, with Holm's correction over all
            rows; ``verdict``. With a single run on either side there is no interval, p value or
            verdict.
        shares: one row per workload, op type and folder: its share of the time in ops in percent
            and the difference, without a verdict, because each is from one profile.
        refused: one sentence per workload and mode whose runs or profiles are not compared.
    """

    ratios: pd.DataFrame
    shares: pd.DataFrame
    refused: tuple[str, ...]


def compare(base: Folder, others: Sequence[Folder]) -> Comparison:
    """Compares the matching runs of folders, with default threads and all cores."""
    ratios, shares, refused = [], [], []
    steps_of_base, profiles_of_base = _counted(base), _profiles(base)
    for label, folder in zip(LABELS[1:], others, strict=False):
        rows, unlike_steps = _compare_steps(label, steps_of_base, _counted(folder))
        changes, unlike_profiles = _compare_profiles(label, profiles_of_base, _profiles(folder))
        ratios += rows
        shares += changes
        refused += [f"A and {label}: {each}" for each in (*unlike_steps, *unlike_profiles)]
    return Comparison(
        _with_verdicts(_side_by_side(ratios, ["workload", "mode", "device"])),
        _side_by_side(shares, ["workload", "op type"]),
        tuple(refused),
    )


def _side_by_side(rows: list[dict[str, Any]], case: list[str]) -> pd.DataFrame:
    """Groups the rows by case and keeps their order otherwise."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    order = frame.groupby(case, sort=False).ngroup()
    return frame.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def _with_verdicts(ratios: pd.DataFrame) -> pd.DataFrame:
    if ratios.empty:
        return ratios
    p_values = holm(ratios.p.to_numpy())
    verdicts = list(map(_verdict, ratios["over A"], p_values))
    return ratios.assign(p=p_values, verdict=pd.Series(verdicts, dtype=object))


def _verdict(ratio: float, p_value: float) -> str | None:
    """Returns whether a ratio differs from 1, in words; None if the noise is unknown."""
    if np.isnan(p_value):
        return None
    if p_value >= 1 - CONFIDENCE:
        return "within the noise"
    return "slower" if ratio > 1 else "faster"


def _counted(folder: Folder) -> dict[tuple[str, ...], pd.DataFrame]:
    """Returns the counted steps of the timings and their settings by workload, mode and device.

    The runs of the set ``modes`` come before the repeats.
    """
    sets = [selection.timings(folder, purpose) for purpose in ("modes", "repeats")]
    runs = pd.concat(sets).drop_duplicates("run")[["run", "on", "settings", "disturbed"]]
    steps = folder.steps()
    counted = runs.merge(steps[steps.counted.astype(bool)], on="run")
    return dict(list(counted.groupby(_CASE, sort=False)))


def _compare_steps(
    label: str,
    first: Mapping[tuple[str, ...], pd.DataFrame],
    second: Mapping[tuple[str, ...], pd.DataFrame],
) -> tuple[list[dict[str, Any]], list[str]]:
    ratios, refused = [], []
    for case in dict.fromkeys([*first, *second]):
        if case not in first or case not in second:
            continue
        a, b = first[case], second[case]
        unlike = _unlike(a.settings.iloc[0], b.settings.iloc[0])
        if unlike:
            refused.append(f"{' '.join(case)}: {unlike}")
        else:
            ratios.append(_ratio(label, case, a, b))
    for case in [*first, *second]:
        if (case in first) != (case in second):
            refused.append(f"{' '.join(case)}: only in {'A' if case in first else label}")
    return ratios, refused


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Returns the differences in settings that make step times incomparable."""
    return ", ".join(
        f"{name} {first.get(name)} against {second.get(name)}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    )


def _ratio(
    label: str, case: tuple[str, ...], first: pd.DataFrame, second: pd.DataFrame
) -> dict[str, Any]:
    """Compares the runs' medians: the steps of a run do not show the noise between runs."""
    a, b = (np.log(side.groupby("run").seconds.median().to_numpy()) for side in (first, second))
    low, high, p_value = welch(a, b)
    return {
        **dict(zip(("workload", "mode", "device"), case, strict=True)),
        "folder": label,
        "A (ms)": 1e3 * np.exp(a.mean()),
        "its (ms)": 1e3 * np.exp(b.mean()),
        "over A": np.exp(b.mean() - a.mean()),
        "from": np.exp(low),
        "to": np.exp(high),
        "runs": f"{_runs(first)} and {_runs(second)}",
        "p": p_value,
    }


def _runs(steps: pd.DataFrame) -> str:
    """Returns the number of runs, and of those that other processes disturbed."""
    disturbed = steps.groupby("run").disturbed.any()
    marked = f" ({disturbed.sum()} disturbed)" if disturbed.any() else ""
    return f"{len(disturbed)}{marked}"


@dataclass(frozen=True)
class _Profiles:
    """One profile per workload of a folder.

    Attributes:
        runs: by workload.
        ops: of all profiles of the folder.
    """

    runs: pd.DataFrame
    ops: pd.DataFrame

    def shares(self, workload: str) -> pd.Series:
        """Returns each op type's share of the time in ops, in decreasing order."""
        ops = self.ops[self.ops.run == self.runs.run[workload]]
        seconds = ops.groupby("type").seconds.sum().sort_values(ascending=False, kind="stable")
        return seconds / seconds.sum()


def _profiles(folder: Folder) -> _Profiles:
    """Returns one profile a workload, also where its ops took no time: it is refused by name."""
    runs = folder.runs_frame()
    empty = runs[selection.is_profile(runs) & (runs.op_s == 0)]
    chosen = pd.concat([selection.profiles(folder), empty]).drop_duplicates("workload")
    return _Profiles(chosen.set_index("workload"), folder.ops())


def _compare_profiles(
    label: str, first: _Profiles, second: _Profiles
) -> tuple[list[dict[str, Any]], list[str]]:
    changes, refused = [], []
    for workload in dict.fromkeys([*first.runs.index, *second.runs.index]):
        sides = [
            each.runs.loc[workload] if workload in each.runs.index else None
            for each in (first, second)
        ]
        unlike = _unlike_profiles(label, *sides)
        if unlike:
            refused.append(f"{workload} profile: {unlike}")
        else:
            both = (each.shares(workload) for each in (first, second))
            changes += _share_changes(label, workload, *both)
    return changes, refused


def _unlike_profiles(label: str, first: pd.Series | None, second: pd.Series | None) -> str:
    """Returns why the shares of two profiles cannot be compared; None: there is no profile."""
    if first is None or second is None:
        return f"only in {label if first is None else 'A'}"
    empty = [name for name, each in (("A", first), (label, second)) if not each.op_s]
    if empty:
        return f"ops took no time in {' and '.join(empty)}"
    a, b = ((each.batch_size, each.threads) for each in (first, second))
    if a != b:
        return f"batch {a[0]} on {a[1]} threads against batch {b[0]} on {b[1]}"
    return ""


def _share_changes(
    label: str, workload: str, first: pd.Series, second: pd.Series
) -> list[dict[str, Any]]:
    op_types = dict.fromkeys([*first.index, *second.index])
    return [
        {
            "workload": workload,
            "op type": op_type,
            "folder": label,
            "A (%)": 100 * a,
            "its (%)": 100 * b,
            "less A": 100 * (b - a),
        }
        for op_type, a, b in (
            (name, first.get(name, 0.0), second.get(name, 0.0)) for name in op_types
        )
        if max(a, b) >= _SMALLEST_SHARE
    ]
