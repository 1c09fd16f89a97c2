"""95 % confidence intervals and tests between processes.

Processes of the same program differ by more than their steps show, so that only several processes
have an interval or give a verdict. All functions give NaN for a single one, except ``of_median``:
its interval is of one process alone, for what it would have given with other steps.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.stats

CONFIDENCE = 0.95
_MOST_BLOCKS = 10


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; the limits are NaN if they are unknown."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @property
    def known(self) -> bool:
        """Whether the limits are known."""
        return not np.isnan(self.low)

    def clipped(self, least: float, most: float) -> "Interval":
        """Returns the interval without what is below ``least`` or above ``most``."""
        low, high = np.clip([self.low, self.high], least, most)
        return Interval(self.value, float(low), float(high))

    def columns(self, name: str, prefix: str = "") -> dict[str, float]:
        """Returns it as columns of a table: the value, and the limits ``from`` and ``to``."""
        return {name: self.value, f"{prefix}from": self.low, f"{prefix}to": self.high}

    def excludes(self, value: float) -> bool:
        """Returns whether a value is outside; False if the limits are unknown."""
        return self.known and not self.low <= value <= self.high

    def text(self, form: str) -> str:
        """Returns it as text; ``form`` is a format such as ``.2f``."""
        limits = f" ({self.low:{form}} to {self.high:{form}})" if self.known else ""
        return f"{self.value:{form}}{limits}"


def mean(values: np.ndarray) -> Interval:
    """Returns the mean of values, one per process, float64 [processes], with Student's interval."""
    return combine([values[np.newaxis]], lambda means: means[0])[0]


def listed(rows: pd.DataFrame, form: str) -> str:
    """Returns rows of a value and its limits as text, each after its name; none without a value."""
    known = rows[rows.iloc[:, 0].notna()].astype(float)
    return ", ".join(f"{name} {Interval(*each).text(form)}" for name, *each in known.itertuples())


def combine(
    sides: Sequence[np.ndarray], statistic: Callable[..., np.ndarray | float]
) -> list[Interval]:
    """Estimates smooth statistics of means over the processes of one or several programs.

    One process is left out at a time (jackknife); the sides are independent, and the degrees of
    freedom are Welch's. For a mean this is Student's interval, for a difference Welch's.

    Args:
        sides: for each program, one column per process, float64 [values, processes].
        statistic: of each side's means, float64 [values], in order; a number or float64 [n].

    Returns:
        one interval per number.
    """
    means = [side.mean(axis=1) for side in sides]
    values = np.atleast_1d(statistic(*means)).astype(float)
    freedoms = [side.shape[1] - 1 for side in sides]
    if min(freedoms) < 1:
        return [Interval(float(value)) for value in values]
    variances = []
    for i, (side, freedom) in enumerate(zip(sides, freedoms, strict=True)):
        without = (means[i][:, np.newaxis] * (freedom + 1) - side) / freedom
        others = np.array(
            [np.atleast_1d(statistic(*means[:i], each, *means[i + 1 :])) for each in without.T]
        )
        variances.append(others.var(axis=0) * freedom)
    total = np.sum(variances, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [v**2 / n for v, n in zip(variances, freedoms, strict=True)]
        freedom = np.where(total > 0, total**2 / np.sum(parts, axis=0), 1.0)
    half_widths = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(total)
    return [
        Interval(float(value), float(value - half), float(value + half))
        for value, half in zip(values, half_widths, strict=True)
    ]


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> Interval:
    """Returns the ratio of geometric means and Welch's interval for their logarithms.

    Args:
        numerator: one value per process, float64 [processes].
        denominator: likewise, float64 [any number of processes].

    Returns:
        the interval; all NaN if any value is 0.
    """
    if (numerator <= 0).any() or (denominator <= 0).any():
        return Interval(np.nan, np.nan, np.nan)
    sides = [np.log(each)[np.newaxis] for each in (numerator, denominator)]
    (logs,) = combine(sides, lambda a, b: a[0] - b[0])
    return Interval(*(float(np.exp(x)) for x in (logs.value, logs.low, logs.high)))


def p_value(values: np.ndarray) -> float:
    """Returns the p value of Student's test for a mean of 0; float64 [processes], none missing."""
    if len(values) < 2 or np.isnan(values).any():
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where nothing varies
        return float(np.nan_to_num(scipy.stats.ttest_1samp(values, 0).pvalue, nan=1.0))


@dataclass(frozen=True)
class Difference:
    """The difference of the means of two programs' processes, and its noise."""

    value: float  # of the second less the first
    error: float  # its standard error; NaN for a single process on either side
    freedom: float  # degrees of freedom of that error

    def interval(self) -> Interval:
        """Returns its 95 % interval by Student's t."""
        half = self.error * scipy.stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)
        return Interval(self.value, float(self.value - half), float(self.value + half))

    def p_value(self, margin: float = 0.0) -> float:
        """Returns the p value of a difference of at most a margin, which has another reason."""
        if np.isnan(self.error):
            return np.nan
        away = np.array([abs(self.value) - margin, abs(self.value) + margin])
        if self.error == 0:
            return float(away[0] <= 0)
        return float(scipy.stats.t.sf(away / self.error, self.freedom).sum())

    def detectable(self, margin: float, tests: int) -> float:
        """Returns the least difference, above 0, for which ``p_value`` would be significant.

        Args:
            margin: as in ``p_value``.
            tests: number of tests among which it would be the only significant one (Holm).
        """
        if np.isnan(self.error) or self.error == 0:
            return np.nan if np.isnan(self.error) else margin
        level = (1 - CONFIDENCE) / tests
        most = margin + 2 * self.error * scipy.stats.t.isf(level / 2, self.freedom)
        other = functools.partial(Difference, error=self.error, freedom=self.freedom)
        return float(scipy.optimize.brentq(lambda d: other(d).p_value(margin) - level, 0.0, most))


@dataclass(frozen=True)
class Noise:
    """A variance between processes, and its degrees of freedom."""

    variance: float = 0.0
    freedom: float = 1.0

    @staticmethod
    def of_most(programs: Iterable[Sequence[np.ndarray]]) -> "Noise":
        """Returns the median over some programs, which a few disturbed ones hardly change.

        Args:
            programs: the sides of each, float64 [processes]; single processes tell nothing.
        """
        known = [[side for side in sides if len(side) > 1] for sides in programs]
        freedoms = [sum(len(side) - 1 for side in sides) for sides in known if sides]
        if not freedoms:
            return Noise()
        squares = [sum(((s - s.mean()) ** 2).sum() for s in sides) for sides in known if sides]
        return Noise(float(np.median(np.divide(squares, freedoms))), sum(freedoms) / 2)


def difference(
    sides: Sequence[np.ndarray], sessions: float = 0.0, others: Noise | None = None
) -> Difference:
    """Compares the means of two sides, whose degrees of freedom are Welch's.

    Args:
        sides: two, each with one value per process, float64 [processes].
        sessions: variance between the sessions in which the sides were measured, over that between
            the processes of a session. It does not shrink with the number of processes.
        others: the noise of other programs on the same machine, which counts where it is larger:
            two or three processes agree closely by chance.
    """
    value = float(sides[1].mean() - sides[0].mean())
    if min(map(len, sides)) < 2:
        return Difference(value, np.nan, np.nan)
    weights = np.array([1 / len(side) + sessions for side in sides])
    parts = weights * [side.var(ddof=1) for side in sides]
    freedom = 1.0
    if parts.any():
        freedom = parts.sum() ** 2 / sum(parts**2 / [len(side) - 1 for side in sides])
    if others is not None and others.variance * weights.sum() > parts.sum():
        return Difference(value, float((others.variance * weights.sum()) ** 0.5), others.freedom)
    return Difference(value, float(parts.sum() ** 0.5), float(freedom))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Returns p values with Holm's correction for multiple tests.

    Args:
        p_values: one per test, float64 [tests]; NaN for none.
    """
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]  # NaN are last
    adjusted = np.full(len(p_values), np.nan)
    steps_down = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps_down))
    return adjusted


def of_median(values: np.ndarray) -> tuple[float, float]:
    """Returns the order statistics' interval of a median, from blocks of consecutive values.

    Consecutive steps are correlated, so at most ten blocks are formed.

    Args:
        values: of one process, in order, float64 [values].

    Returns:
        Lower and upper limit at 95 % or a little more; NaN with less than six values.
    """
    if len(values) == 0:
        return np.nan, np.nan
    blocks = np.array_split(values, min(len(values), _MOST_BLOCKS))
    limits: Any = scipy.stats.quantile_test(
        [np.median(block) for block in blocks], p=0.5
    ).confidence_interval(CONFIDENCE)
    return float(limits.low), float(limits.high)
