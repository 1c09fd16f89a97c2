import math

import numpy as np
import pytest
import scipy.stats

from fathom.measure.report.pairs import Ratio, ratio, verdict


def until_narrow(logs, width):
    """Returns the ratio when measuring ends, from the logarithms of the pairs' ratios."""
    for pairs in range(6, len(logs) + 1, 2):
        found = ratio([1.0] * pairs, np.exp(logs[:pairs]))
        if found.is_narrow(width):
            return found
    raise AssertionError("never narrow")


def from_limits(low, high, pairs=8):
    return Ratio(math.sqrt(low * high), low, high, pairs)


def test_the_interval_holds_what_wilcoxons_test_does_not_reject():
    logs = np.random.default_rng(0).normal(0.05, 0.1, 12)
    found = ratio([2.0] * 12, 2 * np.exp(logs))
    limits = np.log([found.low, found.high])

    def p_value(centre):
        return scipy.stats.wilcoxon(logs - centre, method="exact").pvalue

    inside = [limits[0] + 1e-9, limits[1] - 1e-9]
    outside = [limits[0] - 1e-9, limits[1] + 1e-9]
    assert min(map(p_value, inside)) > 2 / 2**6 >= max(map(p_value, outside))
    means = [(x + y) / 2 for i, x in enumerate(logs) for y in logs[: i + 1]]
    assert found.value == pytest.approx(np.exp(np.median(means)))


def test_the_interval_of_six_pairs_goes_from_the_least_to_the_largest():
    ratios = [1.0, 1.1, 1.2, 0.9, 1.3, 1.05]
    found = ratio([1.0] * 6, ratios)
    assert (found.low, found.high) == pytest.approx((0.9, 1.3))


def test_stopping_when_the_interval_is_narrow_keeps_its_coverage():
    generator = np.random.default_rng(0)
    found = [until_narrow(generator.normal(0, 0.015, 200), 0.02) for _ in range(1000)]
    assert max(each.width for each in found) <= 0.02
    assert np.mean([each.excludes(1) for each in found]) <= 0.05


def test_disturbed_runs_hardly_take_more_pairs():
    generator = np.random.default_rng(0)

    def logs():
        disturbed = (generator.random(200) < 0.1) * generator.exponential(np.log(1.3), 200)
        return generator.normal(0, 0.01, 200) + disturbed

    found = [until_narrow(logs() - logs(), 0.02) for _ in range(100)]
    assert np.median([each.pairs for each in found]) <= 30
    assert np.mean([each.excludes(1) for each in found]) <= 0.05


def test_a_disturbed_pair_hardly_matters():
    ratios = [0.951, 0.948, 0.950, 0.952, 0.949, 0.950, 0.947, 0.953, 0.951]
    found = ratio([1.0] * 20, [*ratios, 1.9, *ratios, 0.95])
    assert found.value == pytest.approx(0.95, abs=0.002)
    assert 0.94 < found.low < found.high < 0.96


def test_measuring_ends_after_a_complete_order_of_six_pairs_or_more():
    ends = [n for n in range(1, 10) if ratio([1.0] * n, [1.1] * n).is_narrow(0.02)]
    assert ends == [6, 8]
    noisy = ratio([1.0] * 6, [1.0, 1.2] * 3)
    assert not noisy.is_narrow(0.02)


def test_the_pairs_still_needed_are_estimated_from_the_width():
    generator = np.random.default_rng(0)
    found = ratio([1.0] * 20, np.exp(generator.normal(0, 0.03, 20)))
    needed = found.pairs_needed(0.02)
    assert needed > 20
    assert needed % 2 == 0
    again = ratio([1.0] * needed, np.exp(generator.normal(0, 0.03, needed)))
    assert again.width == pytest.approx(0.02, rel=0.4)
    assert found.pairs_needed(1.0) == 6


@pytest.mark.parametrize(("pairs", "words"), [(1, "1 pair"), (5, "5 pairs")])
def test_few_pairs_give_a_ratio_without_interval(pairs, words):
    found = ratio([1.0] * pairs, [1.1] * pairs)
    assert found.value == pytest.approx(1.1)
    assert math.isnan(found.low)
    assert not found.excludes(1)
    assert found.pairs_needed(0.02) == 6
    assert verdict(found, 0.02) == f"no verdict from {words}: it takes 6 or more"


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
