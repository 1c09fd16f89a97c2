"""Where a step's time goes by op type: Figures 1 and 2 and section V.A of the Fathom paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from fathom.characterize.profile import ops
from fathom.characterize.report.analyses.table import Table
from fathom.results.profile import Profile

DRIFT_LEVEL = 0.01  # significance below which a drift is taken for one
DRIFT_SIZE = 0.05  # change over the profiled steps above which a drift matters
_FEWEST_FOR_DRIFT = 6  # steps: five in perfect order have p = 2 / 5! = 0.017


def seconds_by_type(profile: Profile) -> dict[str, np.ndarray]:
    """Returns the self time of each of the paper's op types, the heaviest first.

    Returns:
        float64 [steps] a type, in seconds. A type that is not in the table of ``ops`` is there
        under its own name.
    """
    seconds: dict[str, np.ndarray] = {}
    for op in profile.ops:
        op_type = ops.paper_type(op.type)
        seconds[op_type] = seconds.get(op_type, 0) + np.asarray(op.seconds, np.float64)
    return dict(sorted(seconds.items(), key=lambda item: (-item[1].sum(), item[0])))


def shares(profile: Profile) -> dict[str, float]:
    """Returns each op type's share of the time in ops, from 0 to 1, the largest first."""
    seconds = {op_type: each.sum() for op_type, each in seconds_by_type(profile).items()}
    total = sum(seconds.values())
    return {op_type: float(each / total) for op_type, each in seconds.items()} if total else {}


@dataclass(frozen=True)
class OpSeries:
    """The time of one op type over the profiled steps.

    Attributes:
        workload: the workload's name.
        op_type: the paper's name of the type.
        seconds: its self time in each step, float64 [steps].
    """

    workload: str
    op_type: str
    seconds: np.ndarray

    @property
    def mean(self) -> float:
        """Mean time a step, in seconds."""
        return float(self.seconds.mean())

    @property
    def variation(self) -> float:
        """Coefficient of variation: standard deviation over mean."""
        return float(self.seconds.std(ddof=1) / self.mean) if len(self.seconds) > 1 else np.nan

    @property
    def drift(self) -> float:
        """Change from the first to the last step over the median: the slope of Theil and Sen."""
        if len(self.seconds) < 2:
            return np.nan
        slope = scipy.stats.theilslopes(self.seconds).slope
        return float(slope * (len(self.seconds) - 1) / np.median(self.seconds))

    @property
    def p_value(self) -> float:
        """Two-sided significance of the drift: the rank test of Mann and Kendall."""
        if len(self.seconds) < 2:
            return np.nan
        return float(scipy.stats.kendalltau(np.arange(len(self.seconds)), self.seconds).pvalue)

    @property
    def drifts(self) -> bool | None:
        """Whether the time changes, significantly and by more than 5 %; None: too few steps."""
        if len(self.seconds) < _FEWEST_FOR_DRIFT:
            return None
        return self.p_value < DRIFT_LEVEL and abs(self.drift) > DRIFT_SIZE


@dataclass(frozen=True)
class Stationarity:
    """Figure 1: the heaviest op types of each workload over the profiled steps."""

    series: tuple[OpSeries, ...]

    def table(self) -> Table:
        """Returns one row an op type."""
        return Table.of(
            {
                "workload": series.workload,
                "op type": series.op_type,
                "steps": len(series.seconds),
                "mean (s)": series.mean,
                "variation": series.variation,
                "drift": series.drift,
                "p value": series.p_value,
                "drifts": series.drifts,
            }
            for series in self.series
        )

    def steps_table(self) -> Table:
        """Returns one row an op type and step: what the figure is drawn from."""
        return Table.of(
            {
                "workload": series.workload,
                "op type": series.op_type,
                "step": step,
                "time (s)": seconds,
            }
            for series in self.series
            for step, seconds in enumerate(series.seconds.tolist())
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        variation = np.median([series.variation for series in self.series])
        return (
            f"Half of the {len(self.series)} heaviest op types have a coefficient of variation "
            f"of {variation:.1%} or less from step to step; {self._drifts()}."
        )

    def _drifts(self) -> str:
        drifting = [f"{s.workload}'s {s.op_type}" for s in self.series if s.drifts]
        untold = sorted({s.workload for s in self.series if s.drifts is None})
        verb = "drift" if len(drifting) > 1 else "drifts"
        said = (
            f"{', '.join(drifting) or 'none'} {verb} over the profiled steps (by more than "
            f"{DRIFT_SIZE:.0%}, p < {DRIFT_LEVEL})"
        )
        few = f"less than {_FEWEST_FOR_DRIFT} steps do not tell of a drift: {', '.join(untold)}"
        known = len(untold) < len({s.workload for s in self.series})
        return "; ".join([said] * known + [few] * bool(untold))


def stationarity(profiles: Iterable[Profile], heaviest: int = 5) -> Stationarity:
    """Follows the heaviest op types of each profile over its steps."""
    return Stationarity(
        tuple(
            OpSeries(profile.workload, op_type, seconds)
            for profile in profiles
            for op_type, seconds in list(seconds_by_type(profile).items())[:heaviest]
            if seconds.any()
        )
    )


@dataclass(frozen=True)
class Curve:
    """Op types by share, the largest first, and their cumulative share.

    Attributes:
        workload: the workload's name.
        op_types: the paper's names of the types.
        shares: share of the time in ops, float64 [types], from 0 to 1.
    """

    workload: str
    op_types: tuple[str, ...]
    shares: np.ndarray

    @property
    def cumulative(self) -> np.ndarray:
        """Share of this and all heavier types, float64 [types]."""
        return np.cumsum(self.shares)

    def types_to(self, share: float) -> int:
        """Returns how many of the heaviest types reach a share of the time."""
        return int(np.searchsorted(self.cumulative, share - 1e-12)) + 1


@dataclass(frozen=True)
class Dominance:
    """Figure 2: a handful of op types makes up most of the time."""

    curves: tuple[Curve, ...]

    def table(self) -> Table:
        """Returns one row a workload."""
        return Table.of(
            {
                "workload": curve.workload,
                "op types": len(curve.op_types),
                "types to 90 %": curve.types_to(0.9),
                "types to 99 %": curve.types_to(0.99),
                "heaviest": curve.op_types[0],
                "its share": float(curve.shares[0]),
            }
            for curve in self.curves
        )

    def ranks_table(self) -> Table:
        """Returns one row a workload and rank: what the figure is drawn from."""
        return Table.of(
            {
                "workload": curve.workload,
                "rank": rank + 1,
                "op type": op_type,
                "share": float(curve.shares[rank]),
                "cumulative share": float(curve.cumulative[rank]),
            }
            for curve in self.curves
            for rank, op_type in enumerate(curve.op_types)
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        counts = [curve.types_to(0.9) for curve in self.curves]
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        return f"{span} op types make up 90 % of the time in ops."


def dominance(profiles: Iterable[Profile]) -> Dominance:
    """Sorts the op types of each profile by share."""
    shares_of = ((profile.workload, shares(profile)) for profile in profiles)
    return Dominance(
        tuple(
            Curve(workload, tuple(by_type), np.array(list(by_type.values())))
            for workload, by_type in shares_of
            if by_type
        )
    )


@dataclass(frozen=True)
class FrameworkOverhead:
    """Section V.A: the time of a step in which no op runs, and what the profiler costs.

    Attributes:
        workloads: names.
        share: share of the profiled steps' time outside ops, from 0 to 1, float64 [workloads].
        overhead: median step time with the profiler over that without, less 1; NaN where the
            time without is missing; float64 [workloads].
        threads: of the pool inside an op.
        steps: how many steps were profiled.
    """

    workloads: tuple[str, ...]
    share: np.ndarray
    overhead: np.ndarray
    threads: tuple[int, ...]
    steps: tuple[int, ...]

    def table(self) -> Table:
        """Returns one row a workload."""
        columns = (self.workloads, self.threads, self.steps)
        numbers = (self.share.tolist(), self.overhead.tolist())
        return Table(
            ("workload", "threads", "steps", "share outside ops", "profiler's overhead"),
            tuple(zip(*columns, *numbers, strict=True)),
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        under = sum(share < 0.02 for share in self.share)
        return (
            f"{under} of {len(self.workloads)} workloads spend under 2 % of a step outside ops; "
            f"the most is {self.share.max():.1%}, in {self.workloads[int(self.share.argmax())]}."
        )


def outside(profiles: Sequence[Profile]) -> FrameworkOverhead:
    """Compares the time outside ops with that of the whole step."""
    return FrameworkOverhead(
        workloads=tuple(profile.workload for profile in profiles),
        share=np.array([profile.outside_share for profile in profiles]),
        overhead=np.array(
            [p.overhead if len(p.unprofiled_step_seconds) else np.nan for p in profiles]
        ),
        threads=tuple(profile.threads for profile in profiles),
        steps=tuple(profile.steps for profile in profiles),
    )
