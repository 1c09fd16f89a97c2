"""Compares two characterizations: which differences exceed the noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.intervals import CONFIDENCE, difference, jackknife, shift

_SMALLEST_SHARE = 0.01  # op types below it on both sides are not compared
_CASE = ["workload", "mode", "on"]


@dataclass(frozen=True)
class Comparison:
    """The comparison of two folders A and B, with the reasons for what cannot be compared.

    Attributes:
        ratios: one row per workload, mode and device (``cpu`` or ``gpu``): the median step times
            (of several runs, their geometric mean), their ratio ``B/A``, ``from`` and ``to``, the
            limits of its 95 % interval, missing with too few steps; ``noise from``, the basis of
            the interval, several runs per side or the calls of one (steps of one call are measured
            together); ``B is``, the verdict.
        shares: one row per workload and op type: its share of the time in ops in percent, the
            difference, ``from`` and ``to``, the limits of its 95 % interval over the profiled
            steps; ``B has``, the verdict.
        refused: one sentence per workload and mode whose runs or profiles are not compared.
    """

    ratios: pd.DataFrame
    shares: pd.DataFrame
    refused: tuple[str, ...]


def compare(first: Folder, second: Folder) -> Comparison:
    """Compares the matching runs of two folders, with default threads and all cores."""
    ratios, refused = _compare_steps(_counted(first), _counted(second))
    shares, refused_profiles = _compare_profiles(first, second)
    return Comparison(ratios, shares, (*refused, *refused_profiles))


def _counted(folder: Folder) -> dict[tuple[str, ...], pd.DataFrame]:
    """Returns the counted steps of the timings and their settings by workload, mode and device.

    The runs of the set ``modes`` come before the repeats.
    """
    sets = [selection.timings(folder, purpose) for purpose in ("modes", "repeats")]
    runs = pd.concat(sets).drop_duplicates("run")[["run", "on", "settings"]]
    steps = folder.steps()
    counted = runs.merge(steps[steps.counted.astype(bool)], on="run")
    return dict(list(counted.groupby(_CASE, sort=False)))


def _compare_steps(
    first: Mapping[tuple[str, ...], pd.DataFrame], second: Mapping[tuple[str, ...], pd.DataFrame]
) -> tuple[pd.DataFrame, list[str]]:
    ratios, refused = [], []
    for case in dict.fromkeys([*first, *second]):
        if case not in first or case not in second:
            continue
        a, b = first[case], second[case]
        unlike = _unlike(a.settings.iloc[0], b.settings.iloc[0])
        if unlike:
            refused.append(f"{' '.join(case)}: {unlike}")
        else:
            ratios.append(_ratio(case, a, b))
    for case in [*first, *second]:
        if (case in first) != (case in second):
            refused.append(f"{' '.join(case)}: only in {'A' if case in first else 'B'}")
    return pd.DataFrame(ratios), refused


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Returns the differences in settings that make step times incomparable."""
    return ", ".join(
        f"{name} {first.get(name)} against {second.get(name)}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    )


def _ratio(case: tuple[str, ...], first: pd.DataFrame, second: pd.DataFrame) -> dict[str, Any]:
    """Compares runs if both sides have several, otherwise the first run of each side."""
    several = first.run.nunique() > 1 and second.run.nunique() > 1
    a, b, low, high, basis = (_of_runs if several else _of_calls)(first, second)
    return {
        **dict(zip(("workload", "mode", "device"), case, strict=True)),
        "A (ms)": 1e3 * a,
        "B (ms)": 1e3 * b,
        "B/A": b / a,
        "from": low,
        "to": high,
        "noise from": basis,
        "B is": _verdict(low, high, 1.0, ("faster", "slower")),
    }


def _of_runs(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float, float, float, str]:
    """Compares the geometric means of the runs' medians, by Welch's test of their logarithms."""
    a, b = (np.log(side.groupby("run").seconds.median()) for side in (first, second))
    limits = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(CONFIDENCE)
    low, high = float(np.exp(limits.low)), float(np.exp(limits.high))
    return np.exp(a.mean()), np.exp(b.mean()), low, high, f"{len(a)} and {len(b)} runs"


def _of_calls(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float, float, float, str]:
    """Compares the medians of the first runs, by the Hodges-Lehmann interval of the calls' logs.

    Steps of one call all have its mean time: they are one measurement.
    """
    one_each = [side[side.run == side.run.iloc[0]] for side in (first, second)]
    a, b = (side.seconds.median() for side in one_each)
    calls = [side.drop_duplicates("call").seconds.to_numpy() for side in one_each]
    low, high = np.exp(shift(*map(np.log, calls)))
    # The median of many steps differs slightly from that of their blocks: the ratio may be outside.
    low, high = float(np.minimum(low, b / a)), float(np.maximum(high, b / a))
    return a, b, low, high, f"{len(calls[0])} and {len(calls[1])} calls of one run"


def _compare_profiles(first: Folder, second: Folder) -> tuple[pd.DataFrame, list[str]]:
    of_a, of_b = (_profiles(folder).set_index("workload") for folder in (first, second))
    changes, refused = [], []
    for workload in dict.fromkeys([*of_a.index, *of_b.index]):
        sides = [of.loc[workload] if workload in of.index else None for of in (of_a, of_b)]
        unlike = _unlike_profiles(*sides)
        if unlike:
            refused.append(f"{workload} profile: {unlike}")
        else:
            ours = _by_step(first, of_a.run[workload])
            theirs = _by_step(second, of_b.run[workload])
            changes += _share_changes(workload, ours, theirs)
    return pd.DataFrame(changes), refused


def _profiles(folder: Folder) -> pd.DataFrame:
    """Returns one profile per workload, including those without op time, to refuse them by name."""
    runs = folder.runs_frame()
    empty = runs[selection.is_profile(runs) & (runs.op_s == 0)]
    return pd.concat([selection.profiles(folder), empty]).drop_duplicates("workload")


def _unlike_profiles(first: pd.Series | None, second: pd.Series | None) -> str:
    """Returns why the shares of two profiles cannot be compared; None is a missing profile."""
    if first is None or second is None:
        return f"only in {'B' if first is None else 'A'}"
    empty = [name for name, each in (("A", first), ("B", second)) if not each.op_s]
    if empty:
        return f"ops took no time in {' and '.join(empty)}"
    a, b = ((each.batch_size, each.threads) for each in (first, second))
    if a != b:
        return f"batch {a[0]} on {a[1]} threads against batch {b[0]} on {b[1]}"
    return ""


def _by_step(folder: Folder, run: str) -> pd.DataFrame:
    """Returns a profile's time by op type and step, in decreasing order of time."""
    ops = folder.ops()
    table = ops[ops.run == run].pivot_table("seconds", "type", "step", "sum")
    return table.loc[table.sum(axis=1).sort_values(ascending=False, kind="stable").index]


def _share_changes(workload: str, a: pd.DataFrame, b: pd.DataFrame) -> list[dict[str, Any]]:
    op_types = list(dict.fromkeys([*a.index, *b.index]))
    before, after = (
        jackknife(
            seconds.reindex(op_types, fill_value=0.0).to_numpy(), lambda sums: sums / sums.sum(0)
        )
        for seconds in (a, b)
    )
    limits = difference(before, after).interval()
    return [
        {
            "workload": workload,
            "op type": op_type,
            "A (%)": 100 * first,
            "B (%)": 100 * second,
            "B - A": 100 * (second - first),
            "from": 100 * low,
            "to": 100 * high,
            "B has": _verdict(low, high, 0.0, ("less", "more")),
        }
        for op_type, first, second, (low, high) in zip(
            op_types, before.value, after.value, limits, strict=True
        )
        if max(first, second) >= _SMALLEST_SHARE
    ]


def _verdict(low: float, high: float, equal: float, words: Sequence[str]) -> str:
    """Returns whether a difference exceeds the noise, in words."""
    if np.isnan(low):
        return "unknown: too few steps"
    if high < equal:
        return words[0]
    return words[1] if low > equal else "within the noise"
