import math

import numpy as np
import pytest

from fathom.characterize.report.pairs import Ratio, ratio, verdict


def until_narrow(logs, width):
    """Returns the ratio when measuring ends, from the logarithms of the pairs' ratios."""
    for pairs in range(6, len(logs) + 1, 2):
        found = ratio([1.0] * pairs, np.exp(logs[:pairs]))
        if found.is_narrow(width):
            return found
    raise AssertionError("never narrow")


def from_limits(low, high, pairs=8):
    return Ratio(math.sqrt(low * high), low, high, pairs, 0.01)


def test_the_interval_is_students_of_the_logarithms():
    found = ratio([1.0, 2.0, 4.0], [1.1, 2.0, 4.4])
    logs = np.log([1.1, 1.0, 1.1])
    half_width = 5.643 * logs.std(ddof=1) / math.sqrt(3)  # 98.5 % point for 2 degrees of freedom
    assert found.value == pytest.approx(np.exp(logs.mean()))
    assert math.log(found.high / found.value) == pytest.approx(half_width, rel=1e-3)
    assert math.log(found.value / found.low) == pytest.approx(half_width, rel=1e-3)


def test_stopping_when_the_interval_is_narrow_keeps_its_coverage():
    generator = np.random.default_rng(0)
    found = [until_narrow(generator.normal(0, 0.015, 200), 0.02) for _ in range(1000)]
    assert max(each.width for each in found) <= 0.02
    assert np.mean([each.is_different for each in found]) <= 0.055


def test_measuring_ends_after_a_complete_order_of_six_pairs_or_more():
    ends = [n for n in range(1, 10) if ratio([1.0] * n, [1.1] * n).is_narrow(0.02)]
    assert ends == [6, 8]
    noisy = ratio([1.0] * 6, [1.0, 1.2] * 3)
    assert not noisy.is_narrow(0.02)


def test_the_pairs_still_needed_are_estimated_from_their_noise():
    generator = np.random.default_rng(0)
    found = ratio([1.0] * 20, np.exp(generator.normal(0, 0.02, 20)))
    needed = found.pairs_needed(0.02)
    assert needed is not None
    again = ratio([1.0] * needed, np.exp(generator.normal(0, found.deviation, needed)))
    assert again.width == pytest.approx(0.02, rel=0.4)
    assert found.pairs_needed(1.0) == 6
    assert found.pairs_needed(1e-6) is None


def test_one_pair_gives_a_ratio_without_interval():
    found = ratio([1.0], [1.1])
    assert found.value == pytest.approx(1.1)
    assert math.isnan(found.low)
    assert not found.is_different
    assert found.pairs_needed(0.02) is None
    assert (
        verdict(found, 0.02) == "no verdict from one pair: the noise from pair to pair is unknown"
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.94, 0.958, "B is faster: its steps take 5.1 % less time (95 %: 4.2 to 6.0 %), 8 pairs"),
        (1.04, 1.06, "B is slower: its steps take 5.0 % more time (95 %: 4.0 to 6.0 %), 8 pairs"),
        (
            *(0.996, 1.011),
            "no difference beyond 1.1 %: B's steps take from 0.4 % less to 1.1 % more time (95 %), "
            "8 pairs",
        ),
        (
            *(0.95, 1.03),
            "no verdict: B's steps take from 5.0 % less to 3.0 % more time (95 %), 8 pairs",
        ),
    ],
)
def test_a_verdict_follows_from_the_interval(low, high, words):
    assert verdict(from_limits(low, high), 0.02) == words
