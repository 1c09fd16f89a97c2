import numpy as np
import pytest

from fathom.characterize.report.clustering import cosine_distance
from fathom.characterize.report.intervals import holm, jackknife, of_median, welch

PAIRS = 1000


def independent(generator, *shape):
    return np.exp(generator.normal(0, 0.2, shape))


def distances_to_the_first(sums):
    """Each pair's cosine distance to a profile of the first op type alone."""
    pairs = sums.reshape(2, PAIRS, -1)
    return 1 - pairs[0] / np.linalg.norm(pairs, axis=0)


def means(sums):
    """Of sums of values and of ones."""
    return sums[:-1] / sums[-1]


def estimated_means(values):
    return jackknife(np.vstack([values, np.ones(np.shape(values)[-1])]), means)


@pytest.mark.parametrize("steps", [5, 8, 20])
def test_about_one_distance_in_twenty_is_outside_its_interval(steps):
    generator = np.random.default_rng(steps)
    seconds = independent(generator, 2 * PAIRS, steps)
    low, high = jackknife(seconds, distances_to_the_first).interval().T
    true = cosine_distance(np.array([1, 1]), np.array([1, 0]))
    assert 0.02 < np.mean((low > true) | (high < true)) < 0.08


def test_of_up_to_ten_steps_a_means_variance_is_the_textbooks():
    values = independent(np.random.default_rng(0), 3, 9)
    estimate = estimated_means(values)
    np.testing.assert_allclose(estimate.value, values.mean(axis=1))
    np.testing.assert_allclose(estimate.variance, values.var(axis=1, ddof=1) / 9)
    np.testing.assert_array_equal(estimate.freedom, 8)


def test_of_unequal_blocks_a_means_variance_is_right_on_average():
    values = np.random.default_rng(0).normal(size=(20 * PAIRS, 15))
    assert estimated_means(values).variance.mean() == pytest.approx(1 / 15, rel=0.02)


def test_where_nothing_varies_the_interval_is_a_point():
    np.testing.assert_array_equal(estimated_means(np.ones((1, 8))).interval(), [[1, 1]])
    assert welch(np.ones(2), np.ones(3)) == (0, 0, 1)
    assert welch(np.ones(2), 2 * np.ones(3)) == (1, 1, 0)


def test_of_one_process_a_side_nothing_is_known():
    assert np.isnan(welch(np.ones(1), np.ones(3))).all()


def test_holms_correction_is_the_textbooks():
    p_values = np.array([0.04, np.nan, 0.01, 0.03])
    np.testing.assert_allclose(holm(p_values), [0.06, np.nan, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])


def test_below_five_steps_nothing_is_known():
    few, enough = estimated_means(np.arange(4.0)), estimated_means(np.arange(5.0))
    assert few.value == 1.5
    assert np.isnan(few.interval()).all()
    assert not np.isnan(enough.interval()).any()


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    limits = np.array([of_median(rng.lognormal(0, 0.3, 20)) for _ in range(1000)])
    covered = (limits[:, 0] <= 1) & (limits[:, 1] >= 1)
    assert 0.94 < covered.mean() < 0.99


def test_five_values_tell_no_interval_of_their_median():
    assert np.isnan(of_median(np.arange(5.0))).all()
