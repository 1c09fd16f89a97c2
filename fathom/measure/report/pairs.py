"""The ratio of two variants' step times from pairs of runs, and whether it is known well enough.

The two runs of a pair are neighbours in time, so that slow changes of the machine cancel in their
ratio. On a shared machine other processes slow down some runs much more than the others, so the
ratio is estimated by the ranks of the pairs (Hodges and Lehmann 1963, with the interval of
Wilcoxon's signed-rank test): where a tenth of the runs take 30 % longer on average, this takes 15
to 26 pairs, and Student's interval more than 300 (simulated, for an interval 2 % wide); without
such runs both take the same number.

Measuring until the interval is narrow ends too often where the pairs happen to agree. The nominal
confidence, that of the interval from the least to the largest of six pairs, makes up for this.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.measure.report.intervals import Interval
from fathom.system.words import counted

FEWEST_PAIRS = 6  # for an interval: three times A B B A
_NOMINAL = 1 - 2 / 2**FEWEST_PAIRS


@dataclass(frozen=True)
class Ratio(Interval):
    """The time of B's steps over that of A's, from pairs.

    Its value is the median of the pairs' ratios and of their geometric means, two at a time; its
    limits are NaN from fewer than ``FEWEST_PAIRS``.
    """

    pairs: int = 0

    @property
    def width(self) -> float:
        """Width of the interval relative to the ratio; NaN if it is unknown."""
        return (self.high - self.low) / self.value

    def is_narrow(self, width: float) -> bool:
        """Whether measuring may end: the order A B B A is complete and the interval narrow."""
        return self.pairs % 2 == 0 and self.width <= width

    def pairs_needed(self, width: float) -> int:
        """Estimates the pairs in total for an interval of this ``width``; at least the fewest."""
        if self.pairs < FEWEST_PAIRS:
            return FEWEST_PAIRS
        pairs = self.pairs * (self.width / width) ** 2
        return max(FEWEST_PAIRS, 2 * int(np.ceil(pairs / 2)))


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compares the step times of A and B in each pair, in seconds; there is at least one pair."""
    logs = np.log(np.array(second) / np.array(first))
    rows, columns = np.triu_indices(len(logs))
    means = np.sort((logs[rows] + logs[columns]) / 2)
    outside = _outside(len(logs))
    limits = [np.nan] * 2 if outside is None else [means[outside], means[-1 - outside]]
    value, low, high = np.exp([np.median(means), *limits]).tolist()
    return Ratio(value, low, high, len(logs))


def verdict(found: Ratio, width: float) -> str:
    """Returns in words what the pairs show: which variant is faster, none, or no verdict.

    The width is that of the interval that was asked for, relative to the ratio.
    """
    pairs = counted(found.pairs, "pair")
    if found.pairs < FEWEST_PAIRS:
        return f"no verdict from {pairs}: it takes {FEWEST_PAIRS} or more"
    limits = sorted((_percent(found.low), _percent(found.high)), key=abs)
    if found.excludes(1):
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


@functools.cache
def _outside(pairs: int) -> int | None:
    """Returns how many means of two pairs are below the interval, and above; None: too few pairs.

    They are fewer than the quantile of Wilcoxon's signed-rank statistic: the sum of a random subset
    of the ranks 1 to ``pairs``.
    """
    if pairs < FEWEST_PAIRS:
        return None
    chances = np.ones(1)  # of each sum
    for rank in range(1, pairs + 1):
        without = np.pad(chances, (0, rank))
        chances = (without + np.roll(without, rank)) / 2
    tail = (1 - _NOMINAL) / 2
    return int(np.count_nonzero(np.cumsum(chances) <= tail)) - 1
