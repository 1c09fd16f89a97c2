"""95 % confidence intervals from the steps of one run, which are few and autocorrelated.

Consecutive steps are grouped into at most ten blocks, which are less correlated than steps. The
intervals are for what the same run would have given with other steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

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


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Returns second minus first, for independent steps, with Welch-Satterthwaite freedom."""
    variance = first.variance + second.variance
    parts = first.variance**2 / first.freedom + second.variance**2 / second.freedom
    fewest = np.asarray(np.minimum(first.freedom, second.freedom))  # where nothing varies
    freedom = np.divide(variance**2, parts, out=fewest, where=parts > 0)
    return Estimate(second.value - first.value, variance, freedom)


def shift(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Returns the Hodges-Lehmann confidence interval of the shift from first to second values.

    It assumes no normal distribution: its limits are the k-th smallest and the k-th largest of the
    differences of all pairs of block medians. With up to ten steps, each is a block.

    Args:
        first: one value per step, float64 [steps].
        second: likewise, float64 [any number of steps].

    Returns:
        Lower and upper limit; NaN if either side has too few steps.
    """
    if min(len(first), len(second)) < FEWEST_STEPS:
        return np.nan, np.nan
    a, b = _block_medians(first), _block_medians(second)
    differences = np.sort(np.subtract.outer(b, a), axis=None)
    k = _outermost_pair(len(a), len(b))
    return float(differences[k - 1]), float(differences[-k])


def _outermost_pair(first: int, second: int) -> int:
    """Returns k of the Hodges-Lehmann interval by the Mann-Whitney test's normal approximation.

    For 5 to 10 blocks per side it is never narrower than the exact distribution allows.
    """
    pairs = first * second
    deviation = np.sqrt(pairs * (first + second + 1) / 12)
    return int(pairs / 2 + 0.5 - scipy.stats.norm.ppf(_UPPER_TAIL) * deviation)


def _block_medians(values: np.ndarray) -> np.ndarray:
    return np.array([np.median(values[block]) for block in _blocks(len(values))])


def _blocks(steps: int) -> list[np.ndarray]:
    """Returns the step numbers of each block, int64; sizes differ by at most one."""
    return np.array_split(np.arange(steps), min(steps, _MOST_BLOCKS))
