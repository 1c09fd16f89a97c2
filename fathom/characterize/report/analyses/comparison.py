"""Two characterizations side by side: which differences are larger than the noise."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from fathom.characterize.report.analyses.intervals import CONFIDENCE, difference, jackknife, shift
from fathom.characterize.report.analyses.operations import seconds_by_type
from fathom.characterize.report.analyses.runs import device_kind
from fathom.characterize.report.analyses.table import Table
from fathom.results.characterization import Run
from fathom.results.profile import Profile
from fathom.results.steps import counted_steps

_SMALLEST_SHARE = 0.01  # op types below it on both sides are not compared


@dataclass(frozen=True)
class Ratio:
    """The step time of one workload and mode in the second folder over that in the first.

    Attributes:
        workload, mode, device: what ran; the device is ``cpu`` or ``gpu``.
        first, second: median step times in seconds; of several runs, their geometric mean.
        low, high: 95 % confidence interval of the ratio, which lies in it; NaN with too few steps.
        basis: what the interval is made from: several runs a side, or the calls of one. Steps that
            run in one call are measured together.
    """

    workload: str
    mode: str
    device: str
    first: float
    second: float
    low: float
    high: float
    basis: str

    @property
    def ratio(self) -> float:
        """Second over first: below 1 the second is faster."""
        return self.second / self.first

    @property
    def verdict(self) -> str:
        """Whether the difference is larger than the noise."""
        return _verdict(self.low, self.high, 1.0, ("faster", "slower"))


@dataclass(frozen=True)
class ShareChange:
    """How much more of the time in ops an op type takes in the second folder.

    Attributes:
        workload, op_type: whose share.
        first, second: shares from 0 to 1.
        low, high: 95 % confidence interval of the difference, over the profiled steps; NaN with
            too few.
    """

    workload: str
    op_type: str
    first: float
    second: float
    low: float
    high: float

    @property
    def change(self) -> float:
        """Second less first."""
        return self.second - self.first

    @property
    def verdict(self) -> str:
        """Whether the difference is larger than the noise from step to step."""
        return _verdict(self.low, self.high, 0.0, ("less", "more"))


@dataclass(frozen=True)
class Comparison:
    """What of two folders can be compared, and what cannot and why.

    Attributes:
        ratios: of step times.
        shares: of op types in profiles.
        refused: a sentence for each workload and mode whose runs or profiles are not compared.
    """

    ratios: tuple[Ratio, ...]
    shares: tuple[ShareChange, ...]
    refused: tuple[str, ...]

    def table(self) -> Table:
        """Returns one row a workload, mode and device."""
        return Table.of(
            {
                "workload": each.workload,
                "mode": each.mode,
                "device": each.device,
                "A (ms)": 1e3 * each.first,
                "B (ms)": 1e3 * each.second,
                "B/A": each.ratio,
                "from": each.low,
                "to": each.high,
                "noise from": each.basis,
                "B is": each.verdict,
            }
            for each in self.ratios
        )

    def shares_table(self) -> Table:
        """Returns one row a workload and op type."""
        return Table.of(
            {
                "workload": each.workload,
                "op type": each.op_type,
                "A (%)": 100 * each.first,
                "B (%)": 100 * each.second,
                "B - A": 100 * each.change,
                "from": 100 * each.low,
                "to": 100 * each.high,
                "B has": each.verdict,
            }
            for each in self.shares
        )


def compare(
    first: tuple[Iterable[Run], Iterable[Profile]], second: tuple[Iterable[Run], Iterable[Profile]]
) -> Comparison:
    """Compares the timing runs and the profiles of two folders, like with like.

    Args:
        first: timing runs with default threads and cores, and one profile a workload.
        second: the same of the other folder.
    """
    (runs_a, profiles_a), (runs_b, profiles_b) = first, second
    ratios, refused = [], []
    of_a, of_b = _by_case(runs_a), _by_case(runs_b)
    for case in of_a:
        if case in of_b:
            unlike = _unlike(of_a[case][0], of_b[case][0])
            if unlike:
                refused.append(f"{' '.join(case)}: {unlike}")
            else:
                ratios.append(_ratio(case, of_a[case], of_b[case]))
    for case in [*of_a, *of_b]:
        if (case in of_a) != (case in of_b):
            refused.append(f"{' '.join(case)}: only in {'A' if case in of_a else 'B'}")
    shares, refused_profiles = _compare_profiles(profiles_a, profiles_b)
    return Comparison(tuple(ratios), tuple(shares), (*refused, *refused_profiles))


def _compare_profiles(
    first: Iterable[Profile], second: Iterable[Profile]
) -> tuple[list[ShareChange], list[str]]:
    of_a, of_b = ({profile.workload: profile for profile in side} for side in (first, second))
    changes, refused = [], []
    for workload in dict.fromkeys([*of_a, *of_b]):
        unlike = _unlike_profiles(of_a.get(workload), of_b.get(workload))
        if unlike:
            refused.append(f"{workload} profile: {unlike}")
        else:
            changes += _share_changes(of_a[workload], of_b[workload])
    return changes, refused


def _unlike_profiles(first: Profile | None, second: Profile | None) -> str:
    """Returns why the shares of two profiles cannot be compared; None: there is no profile."""
    if first is None or second is None:
        return f"only in {'B' if first is None else 'A'}"
    empty = [name for name, each in (("A", first), ("B", second)) if not each.op_seconds]
    if empty:
        return f"ops took no time in {' and '.join(empty)}"
    a, b = ((each.batch_size, each.threads) for each in (first, second))
    if a != b:
        return f"batch {a[0]} on {a[1]} threads against batch {b[0]} on {b[1]}"
    return ""


def _by_case(runs: Iterable[Run]) -> dict[tuple[str, str, str], list[Run]]:
    cases: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if len(_counted(run)):
            cases.setdefault((run.workload, run.mode, device_kind(run.device)), []).append(run)
    return cases


def _unlike(first: Run, second: Run) -> str:
    """Returns in what two runs differ so that their step times mean different things."""
    a, b = first.result, second.result
    settings_a, settings_b = (
        result.hyperparameters.to_plain() | {"data": result.data.name} for result in (a, b)
    )
    return ", ".join(
        f"{name} {settings_a.get(name)} against {settings_b.get(name)}"
        for name in dict.fromkeys([*settings_a, *settings_b])
        if settings_a.get(name) != settings_b.get(name)
    )


def _ratio(case: tuple[str, str, str], first: Sequence[Run], second: Sequence[Run]) -> Ratio:
    """Compares runs where both sides have several, else the first run of each side."""
    if len(first) > 1 and len(second) > 1:
        return _ratio_of_runs(case, first, second)
    return _ratio_of_calls(case, first[0], second[0])


def _ratio_of_runs(
    case: tuple[str, str, str], first: Sequence[Run], second: Sequence[Run]
) -> Ratio:
    """Compares the geometric means of the runs' medians, by Welch's test of their logarithms."""
    logs_a, logs_b = (np.log([np.median(_counted(r)) for r in side]) for side in (first, second))
    test = scipy.stats.ttest_ind(logs_b, logs_a, equal_var=False)
    limits = test.confidence_interval(CONFIDENCE)
    centres = (float(np.exp(logs.mean())) for logs in (logs_a, logs_b))
    interval = float(np.exp(limits.low)), float(np.exp(limits.high))
    return Ratio(*case, *centres, *interval, f"{len(first)} and {len(second)} runs")


def _ratio_of_calls(case: tuple[str, str, str], first: Run, second: Run) -> Ratio:
    """Compares the medians of two runs, by Mann and Whitney's interval of the calls' logarithms."""
    calls_a, calls_b = (_call_seconds(run) for run in (first, second))
    median_a, median_b = (float(np.median(_counted(run))) for run in (first, second))
    low, high = np.exp(shift(np.log(calls_a), np.log(calls_b)))
    # The median of many steps is not quite that of their batches: the ratio may be just outside.
    low, high = np.minimum(low, median_b / median_a), np.maximum(high, median_b / median_a)
    basis = f"{len(calls_a)} and {len(calls_b)} calls of one run"
    return Ratio(*case, median_a, median_b, float(low), float(high), basis)


def _share_changes(first: Profile, second: Profile) -> list[ShareChange]:
    a, b = seconds_by_type(first), seconds_by_type(second)
    op_types = list(dict.fromkeys([*a, *b]))
    before, after = (
        jackknife(
            np.array([seconds.get(op_type, np.zeros(profile.steps)) for op_type in op_types]),
            lambda sums: sums / sums.sum(axis=0),
        )
        for seconds, profile in ((a, first), (b, second))
    )
    limits = difference(before, after).interval()
    rows = np.column_stack([before.value, after.value, limits]).tolist()
    return [
        ShareChange(first.workload, op_type, *row)
        for op_type, row in zip(op_types, rows, strict=True)
        if max(row[:2]) >= _SMALLEST_SHARE
    ]


def _counted(run: Run) -> np.ndarray:
    """Returns the times of the steps that statistics are of, float64 [steps], in seconds."""
    return run.result.steps.counted


def _call_seconds(run: Run) -> np.ndarray:
    """Returns the time of a step in each call, float64 [calls], in seconds.

    Of steps that run in one call each has the same time, the mean: together they are one
    measurement.
    """
    steps = run.result.steps
    calls = np.array(steps.call)[counted_steps(steps.warmup, steps.first_of_shape)]
    return _counted(run)[np.unique(calls, return_index=True)[1]]


def _verdict(low: float, high: float, equal: float, words: tuple[str, str]) -> str:
    if np.isnan(low):
        return "unknown: too few steps"
    if high < equal:
        return words[0]
    return words[1] if low > equal else "within the noise"
