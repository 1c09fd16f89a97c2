import numpy as np
import pytest
import scipy.stats

from fathom.measure.report.clustering import cosine_distance
from fathom.measure.report.intervals import (
    Interval,
    combine,
    difference,
    holm,
    mean,
    of_median,
    p_value,
    ratio,
)

PAIRS = 400


def missed(truth, intervals):
    """The part of the intervals that do not include the true value."""
    return np.mean([each.excludes(truth) for each in intervals])


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(5, 1, 4)
    limits = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = mean(values)
    assert (found.low, found.high) == pytest.approx(tuple(limits))
    assert found.value == pytest.approx(values.mean())


def test_the_interval_of_a_difference_is_welchs():
    generator = np.random.default_rng(0)
    a, b = generator.normal(5, 1, 4), generator.normal(6, 3, 3)
    limits = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    (found,) = combine([a[np.newaxis], b[np.newaxis]], lambda x, y: y[0] - x[0])
    assert (found.low, found.high) == pytest.approx(tuple(limits))


@pytest.mark.parametrize("processes", [3, 5])
def test_about_one_ratio_in_twenty_is_outside_its_interval(processes):
    generator = np.random.default_rng(processes)
    sides = np.exp(generator.normal(0, 0.1, (PAIRS, 2, processes)))
    assert missed(1, [ratio(*each) for each in sides]) < 0.08


@pytest.mark.parametrize("processes", [3, 5])
def test_about_one_distance_in_twenty_is_outside_its_interval(processes):
    generator = np.random.default_rng(processes)
    shares = np.array([0.5, 0.3, 0.2])
    far = np.array([1.0, 0.0, 0.0])
    noisy = shares[:, np.newaxis] * np.exp(generator.normal(0, 0.05, (PAIRS, 3, processes)))
    found = [combine([each], lambda ours: cosine_distance(ours, far))[0] for each in noisy]
    assert 0.01 < missed(cosine_distance(shares, far), found) < 0.09


def test_without_a_margin_the_test_is_welchs():
    sides = [np.array([1.0, 1.1, 1.2]), np.array([1.2, 1.25, 1.4, 1.5])]
    welch = scipy.stats.ttest_ind(*sides, equal_var=False).pvalue
    assert difference(sides).p_value() == pytest.approx(welch)


def test_at_most_one_difference_in_twenty_within_the_margin_is_told():
    generator = np.random.default_rng(0)
    pairs = generator.normal(0, 1, (PAIRS, 2, 3)) + np.array([[0.0], [2.0]])  # as far as the margin
    p_values = np.array([difference(pair).p_value(margin=2.0) for pair in pairs])
    assert 0.01 < (p_values < 0.05).mean() < 0.08
    assert (np.array([difference(pair).p_value() for pair in pairs]) < 0.05).mean() > 0.3
    assert difference([np.ones(2), 2 * np.ones(3)]).p_value(0.5) == 0
    assert difference([np.ones(2), 2 * np.ones(3)]).p_value(1.5) == 1


def test_where_nothing_varies_the_interval_is_a_point():
    assert mean(np.ones(3)) == Interval(1, 1, 1)
    halved = ratio(np.ones(2), 2 * np.ones(3))
    assert (halved.low, halved.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert difference([np.ones(2), np.ones(3)]).p_value() == 1
    assert difference([np.ones(2), 2 * np.ones(3)]).p_value() == 0


def test_of_one_process_nothing_is_known():
    alone = mean(np.array([2.0]))
    assert alone.value == 2
    assert not alone.known
    assert not alone.excludes(3)
    assert not ratio(np.ones(1), np.ones(3)).known
    assert np.isnan(difference([np.ones(1), np.ones(3)]).p_value())
    assert np.isnan(p_value(np.ones(1)))


def test_a_time_of_0_has_no_ratio():
    assert np.isnan(ratio(np.array([0.0, 1.0]), np.ones(2)).value)


def test_an_interval_in_words_has_its_limits_only_if_they_are_known():
    assert Interval(0.5, 0.4, 0.6).text(".2f") == "0.50 (0.40 to 0.60)"
    assert Interval(0.5).text(".2f") == "0.50"


def test_holms_correction_is_the_textbooks():
    p_values = np.array([0.04, np.nan, 0.01, 0.03])
    np.testing.assert_allclose(holm(p_values), [0.06, np.nan, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])


@pytest.mark.slow
def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    limits = np.array([of_median(rng.lognormal(0, 0.3, 20)) for _ in range(1000)])
    covered = (limits[:, 0] <= 1) & (limits[:, 1] >= 1)
    assert 0.94 < covered.mean() < 0.99


def test_five_values_tell_no_interval_of_their_median():
    assert np.isnan(of_median(np.arange(5.0))).all()
