"""95 % confidence intervals and tests, from several processes or from the steps of one.

Processes of the same program differ by more than their steps show, so that only several processes
per side can show a difference. Intervals from one process are for what it would have given with
other steps. These are autocorrelated, so consecutive steps are grouped into at most ten blocks.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

CONFIDENCE = 0.95
FEWEST_STEPS = 5  # for a meaningful interval
_MOST_BLOCKS = 10
_UPPER_TAIL = (1 + CONFIDENCE) / 2


@dataclass(frozen=True)
class Estimate:
    """Statistics of some steps and their uncertainty.

    Attributes:
        value: the statistics of all steps, float64 [...].
        variance: squared standard errors, float64 [...]; NaN with too few steps.
        freedom: degrees of freedom of the variances, float64 [...]; NaN likewise.
    """

    value: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray

    def interval(self) -> np.ndarray:
        """Returns Student's interval: lower and upper limits, float64 [..., 2]."""
        half_width = scipy.stats.t.ppf(_UPPER_TAIL, self.freedom) * np.sqrt(self.variance)
        return np.stack([self.value - half_width, self.value + half_width], axis=-1)


def jackknife(by_step: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> Estimate:
    """Estimates smooth statistics of sums over steps, leaving out one block of steps at a time.

    Args:
        by_step: the summands, float64 [values, steps].
        statistic: of each column of sums, float64 [values, columns] -> float64 [..., columns].
    """
    steps = by_step.shape[1]
    total = by_step.sum(axis=1, keepdims=True)
    value = statistic(total)[..., 0]
    if steps < FEWEST_STEPS:
        unknown = np.full_like(value, np.nan)
        return Estimate(value, unknown, unknown)
    blocks = _blocks(steps)
    sums = np.stack([by_step[:, block].sum(axis=1) for block in blocks], axis=1)
    without = statistic(total - sums)
    # For n equal blocks the weights are the textbook's (n - 1) / n. If the last blocks are one step
    # smaller, these weights make the variance of a mean exact.
    sizes = np.array([len(block) for block in blocks])
    weights = (steps / sizes - 1) / len(blocks)
    variance = (weights * (without - value[..., np.newaxis]) ** 2).sum(axis=-1)
    return Estimate(value, variance, np.full_like(value, len(blocks) - 1))


def of_median(values: np.ndarray) -> tuple[float, float]:
    """Returns the order statistics' interval of a median, from blocks of consecutive values.

    Args:
        values: of one process, in order, float64 [values].

    Returns:
        Lower and upper limit at 95 % or a little more; NaN with less than six values.
    """
    if len(values) == 0:
        return np.nan, np.nan
    medians = [np.median(values[block]) for block in _blocks(len(values))]
    limits: Any = scipy.stats.quantile_test(medians, p=0.5).confidence_interval(CONFIDENCE)
    return float(limits.low), float(limits.high)


def welch(first: np.ndarray, second: np.ndarray) -> tuple[float, float, float]:
    """Compares the means of two sides by Welch's test.

    Args:
        first: one value per process, float64 [processes].
        second: likewise, float64 [any number of processes].

    Returns:
        Lower and upper limit of second minus first, and the p value for equal means; NaN if either
        side has one process.
    """
    if min(len(first), len(second)) < 2:
        return np.nan, np.nan, np.nan
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where nothing varies
        test = scipy.stats.ttest_ind(second, first, equal_var=False)
        low, high = test.confidence_interval(CONFIDENCE)
    return float(low), float(high), float(np.nan_to_num(test.pvalue, nan=1.0))


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


def _blocks(steps: int) -> list[np.ndarray]:
    """Returns the step numbers of each block, int64; sizes differ by at most one."""
    return np.array_split(np.arange(steps), min(steps, _MOST_BLOCKS))
