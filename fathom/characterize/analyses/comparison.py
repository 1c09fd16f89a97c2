"""Two characterizations side by side: which differences are larger than the noise."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from fathom.characterize.analyses.operations import seconds_by_type
from fathom.characterize.analyses.resampling import (
    CONFIDENCE,
    FEWEST_STEPS,
    interval,
    resampled_steps,
)
from fathom.characterize.analyses.runs import device_kind
from fathom.characterize.analyses.table import Table
from fathom.characterize.folder import Run
from fathom.characterize.profiles import Profile
from fathom.steps import counted_steps

_SMALLEST_SHARE = 0.01  # op types below it on both sides are not compared


@dataclass(frozen=True)
class Ratio:
    """The step time of one workload and mode in the second folder over that in the first.

    Attributes:
        workload, mode, device: what ran; the device is ``cpu`` or ``gpu``.
        first, second: median step times in seconds.
        low, high: 95 % confidence interval of the ratio; NaN with too few steps.
        basis: what the interval is made from.
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
        refused: a sentence for each workload and mode whose runs are unlike.
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
    shares = []
    by_workload = {profile.workload: profile for profile in profiles_b}
    for profile in profiles_a:
        other = by_workload.get(profile.workload)
        if other is None or not (profile.op_seconds and other.op_seconds):
            continue
        if (profile.batch_size, profile.threads) != (other.batch_size, other.threads):
            refused.append(
                f"{profile.workload} profile: batch {profile.batch_size} on {profile.threads} "
                f"threads against batch {other.batch_size} on {other.threads}"
            )
        else:
            shares += _share_changes(profile, other)
    return Comparison(tuple(ratios), tuple(shares), tuple(refused))


def _by_case(runs: Iterable[Run]) -> dict[tuple[str, str, str], list[Run]]:
    cases: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if len(_counted(run)):
            cases.setdefault((run.workload, run.mode, device_kind(run.device)), []).append(run)
    return cases


def _unlike(first: Run, second: Run) -> str:
    """Returns in what two runs differ so that their step times mean different things."""
    a, b = first.result, second.result
    settings_a: Mapping = a["hyperparameters"] | {"data": a["data"]["name"]}
    settings_b: Mapping = b["hyperparameters"] | {"data": b["data"]["name"]}
    return ", ".join(
        f"{name} {settings_a.get(name)} against {settings_b.get(name)}"
        for name in dict.fromkeys([*settings_a, *settings_b])
        if settings_a.get(name) != settings_b.get(name)
    )


def _ratio(case: tuple[str, str, str], first: Sequence[Run], second: Sequence[Run]) -> Ratio:
    medians_a = np.array([np.median(_counted(run)) for run in first])
    medians_b = np.array([np.median(_counted(run)) for run in second])
    if len(first) > 1 and len(second) > 1:
        low, high = _between_runs(np.log(medians_a), np.log(medians_b))
        basis = f"{len(first)} and {len(second)} runs"
    else:
        steps_a, steps_b = _counted(first[0]), _counted(second[0])
        low, high = _between_steps(steps_a, steps_b)
        basis = f"{len(steps_a)} and {len(steps_b)} steps of one run"
    centre_a, centre_b = float(_centre(medians_a)), float(_centre(medians_b))
    return Ratio(*case, centre_a, centre_b, low, high, basis)


def _between_runs(logs_a: np.ndarray, logs_b: np.ndarray) -> tuple[float, float]:
    """Returns Welch's interval of the ratio of geometric means."""
    test = scipy.stats.ttest_ind(logs_b, logs_a, equal_var=False)
    limits = test.confidence_interval(CONFIDENCE)
    return float(np.exp(limits.low)), float(np.exp(limits.high))


def _between_steps(steps_a: np.ndarray, steps_b: np.ndarray) -> tuple[float, float]:
    """Returns the interval of the ratio of medians, by resampling steps."""
    if min(len(steps_a), len(steps_b)) < FEWEST_STEPS:
        return np.nan, np.nan
    generator = np.random.default_rng(0)
    medians = [np.median(s[resampled_steps(len(s), generator)], axis=1) for s in (steps_a, steps_b)]
    return interval(medians[1] / medians[0])


def _share_changes(first: Profile, second: Profile) -> list[ShareChange]:
    a, b = seconds_by_type(first), seconds_by_type(second)
    generator = np.random.default_rng(0)
    drawn = [resampled_steps(profile.steps, generator) for profile in (first, second)]
    changes = []
    for op_type in dict.fromkeys([*a, *b]):
        shares, resampled = [], []
        for seconds, each in zip((a, b), drawn, strict=True):
            total = sum(seconds.values())
            mine = seconds.get(op_type, np.zeros_like(total))
            shares.append(float(mine.sum() / total.sum()))
            resampled.append(mine[each].sum(axis=1) / total[each].sum(axis=1))
        if max(shares) >= _SMALLEST_SHARE:
            enough = min(first.steps, second.steps) >= FEWEST_STEPS
            limits = interval(resampled[1] - resampled[0]) if enough else (np.nan, np.nan)
            changes.append(ShareChange(first.workload, op_type, *shares, *limits))
    return changes


def _counted(run: Run) -> np.ndarray:
    steps = run.result["steps"]
    first_of_shape = steps.get("first_of_shape", [False] * len(steps["seconds"]))
    return np.array(steps["seconds"])[counted_steps(steps["warmup"], first_of_shape)]


def _centre(medians: np.ndarray) -> np.floating:
    """Returns the geometric mean: the ratio of two is the ratio that the interval is of."""
    return np.exp(np.log(medians).mean())


def _verdict(low: float, high: float, equal: float, words: tuple[str, str]) -> str:
    if np.isnan(low):
        return "unknown: too few steps"
    if high < equal:
        return words[0]
    return words[1] if low > equal else "within the noise"
