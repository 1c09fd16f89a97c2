"""The ratio of two variants' step times from pairs of runs, and whether it is known well enough.

The two runs of a pair are neighbours in time, so that slow changes of the machine cancel in their
ratio. Measuring until the interval is narrow ends too often where the pairs happen to agree: an
interval that covers the ratio in 95 % of cases for a fixed number of pairs then covers it in as few
as 92 % (six pairs or more; 88 % with two). The intervals here are those of a nominal 97 %, for at
least six pairs, which covers it in 95 % of simulations (tests/characterize/report/test_pairs.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

FEWEST_PAIRS = 6
_NOMINAL = 0.97
_MOST_PAIRS = 10_000  # in an estimate


@dataclass(frozen=True)
class Ratio:
    """The time of B's steps over that of A's.

    Attributes:
        value: geometric mean of the pairs' ratios.
        low, high: limits of its 95 % interval; NaN from one pair.
        pairs: number of pairs.
        deviation: standard deviation of the pairs' logarithms; NaN from one pair.
    """

    value: float
    low: float
    high: float
    pairs: int
    deviation: float

    @property
    def width(self) -> float:
        """Width of the interval relative to the ratio."""
        return (self.high - self.low) / self.value

    @property
    def is_different(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1 or self.high < 1

    def is_narrow(self, width: float) -> bool:
        """Whether measuring may end: the order A B B A is complete and the interval narrow."""
        whole = self.pairs >= FEWEST_PAIRS and self.pairs % 2 == 0
        return whole and self.width <= width

    def pairs_needed(self, width: float) -> int | None:
        """Estimates the pairs in total for an interval of this width; None: too many, or unknown.

        Args:
            width: of the interval, relative to the ratio.
        """
        numbers = np.arange(FEWEST_PAIRS, _MOST_PAIRS, 2)
        enough = _half_width(self.deviation, numbers) <= math.asinh(width / 2)
        return int(numbers[enough][0]) if enough.any() else None


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compares two variants by Student's interval for the logarithms of the pairs' ratios.

    Args:
        first: A's step time in each pair, in seconds.
        second: B's, likewise; at least one pair.
    """
    logs = np.log(np.array(second) / np.array(first))
    deviation = float(logs.std(ddof=1)) if len(logs) > 1 else math.nan
    half_width = float(_half_width(deviation, np.array(len(logs))))
    low, value, high = np.exp(logs.mean() + np.array([-half_width, 0.0, half_width])).tolist()
    return Ratio(value, low, high, len(logs), deviation)


def verdict(found: Ratio, width: float) -> str:
    """Returns in words what the pairs show: which variant is faster, none, or no verdict.

    Args:
        found: at least one pair.
        width: the relative width of the interval that was asked for.
    """
    if found.pairs < 2:
        return "no verdict from one pair: the noise from pair to pair is unknown"
    pairs = f"{found.pairs} pairs"
    limits = sorted((_percent(found.low), _percent(found.high)), key=abs)
    if found.is_different:
        less = found.value < 1
        return (
            f"B is {'faster' if less else 'slower'}: its steps take "
            f"{abs(_percent(found.value)):.1f} % {'less' if less else 'more'} time "
            f"(95 %: {abs(limits[0]):.1f} to {abs(limits[1]):.1f} %), {pairs}"
        )
    between = f"from {-_percent(found.low):.1f} % less to {_percent(found.high):.1f} % more time"
    found_none = f"no difference beyond {abs(limits[1]):.1f} %"
    start = found_none if found.width <= width else "no verdict"
    return f"{start}: B's steps take {between} (95 %), {pairs}"


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)


def _half_width(deviation: float, pairs: np.ndarray) -> np.ndarray:
    """Returns half the width of the intervals of mean logarithms; NaN from one pair."""
    quantile = scipy.stats.t.ppf((1 + _NOMINAL) / 2, pairs - 1)
    return quantile * deviation / np.sqrt(pairs)
