"""95 % confidence intervals and tests between processes.

Processes of the same program differ by more than their steps show, so that only several processes
have an interval or give a verdict. All functions give NaN for a single one, except ``of_median``:
its interval is of one process alone, for what it would have given with other steps.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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

    def excludes(self, value: float) -> bool:
        """Returns whether a value is outside; False if the limits are unknown."""
        return self.known and not self.low <= value <= self.high

    def text(self, form: str) -> str:
        """Returns it as text; ``form`` is a format such as ``.2f``."""
        limits = f" ({self.low:{form}} to {self.high:{form}})" if self.known else ""
        return f"{self.value:{form}}{limits}"


def mean(values: np.ndarray) -> Interval:
    """Returns the mean of values, one per process, float64 [processes], with Student's interval."""
    (interval,) = combine([values[np.newaxis]], lambda means: means[0])
    return interval


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
    if min(side.shape[1] for side in sides) < 2:
        return [Interval(float(value), np.nan, np.nan) for value in values]
    variances, freedoms = [], []
    for i, side in enumerate(sides):
        processes = side.shape[1]
        without = (means[i][:, np.newaxis] * processes - side) / (processes - 1)
        others = np.array(
            [np.atleast_1d(statistic(*means[:i], each, *means[i + 1 :])) for each in without.T]
        )
        spread = ((others - others.mean(axis=0)) ** 2).sum(axis=0)
        variances.append(spread * (processes - 1) / processes)
        freedoms.append(processes - 1)
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


def p_value(sides: Sequence[np.ndarray], margin: float = 0.0) -> float:
    """Returns the p value of Student's test for a mean of 0, or of Welch's for two equal means.

    Args:
        sides: one or two, each with one value per process, float64 [processes].
        margin: of two sides: their means may differ by so much for another reason, so that the test
            is for a difference of at most the margin.
    """
    if min(map(len, sides)) < 2:
        return np.nan
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where nothing varies
        if len(sides) == 1:
            found = scipy.stats.ttest_1samp(sides[0], 0).pvalue
        else:
            difference = abs(sides[1].mean() - sides[0].mean())
            test = scipy.stats.ttest_ind(sides[1], sides[0], equal_var=False)
            error = difference / abs(test.statistic)
            limits = np.array([difference - margin, difference + margin]) / error
            found = scipy.stats.t.sf(limits, test.df).sum()
    return float(np.nan_to_num(found, nan=1.0))


def detectable(sides: Sequence[np.ndarray], margin: float, tests: int) -> float:
    """Returns the least difference of two means for which ``p_value`` would be significant.

    Args:
        sides: two, each with one value per process, float64 [processes].
        margin: as in ``p_value``.
        tests: number of tests among which it would be the only significant one (Holm).

    Returns:
        a positive difference; NaN for a single process on either side.
    """
    if min(map(len, sides)) < 2:
        return np.nan
    parts = np.array([side.var(ddof=1) / len(side) for side in sides])
    if not parts.any():
        return margin
    error, level = parts.sum() ** 0.5, (1 - CONFIDENCE) / tests
    freedom = parts.sum() ** 2 / sum(parts**2 / [len(side) - 1 for side in sides])
    student = scipy.stats.t(freedom)
    return float(
        scipy.optimize.brentq(
            lambda d: student.sf([(d - margin) / error, (d + margin) / error]).sum() - level,
            *(0.0, margin + 2 * error * student.isf(level / 2)),
        )
    )


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
