import numpy as np
import pytest
import scipy.stats

from fathom.characterize.report.clustering import cosine_distance
from fathom.characterize.report.intervals import difference, jackknife, shift

PAIRS = 1000


def independent(generator, *shape):
    return np.exp(generator.normal(0, 0.2, shape))


def like_their_neighbours(generator, *shape):
    noise = generator.normal(0, 0.2, shape)
    for step in range(1, shape[-1]):
        noise[..., step] += 0.5 * noise[..., step - 1]
    return np.exp(noise)


def shares(sums):
    """The first of two op types' share in each pair."""
    first, second = sums.reshape(2, PAIRS, -1)
    return first / (first + second)


def distances_to_the_first(sums):
    """Each pair's cosine distance to a profile of the first op type alone."""
    pairs = sums.reshape(2, PAIRS, -1)
    return 1 - pairs[0] / np.linalg.norm(pairs, axis=0)


def means(sums):
    """Of sums of values and of ones."""
    return sums[:-1] / sums[-1]


def estimated_means(values):
    return jackknife(np.vstack([values, np.ones(np.shape(values)[-1])]), means)


def false_verdicts_on_shares(steps, seconds=independent):
    generator = np.random.default_rng(steps)
    sides = [jackknife(seconds(generator, 2 * PAIRS, steps), shares) for _ in range(2)]
    low, high = difference(*sides).interval().T
    return np.mean((low > 0) | (high < 0))


def false_verdicts_on_step_times(steps, seconds=independent):
    generator = np.random.default_rng(steps)
    pairs = np.log(seconds(generator, PAIRS, 2, steps))
    low, high = np.transpose([shift(*pair) for pair in pairs])
    return np.mean((low > 0) | (high < 0))


@pytest.mark.parametrize("steps", [5, 8, 20])
def test_about_one_equal_share_in_twenty_is_told_apart(steps):
    assert 0.02 < false_verdicts_on_shares(steps) < 0.08


@pytest.mark.parametrize("steps", [5, 8, 20])
def test_about_one_equal_step_time_in_twenty_is_told_apart(steps):
    assert 0.02 < false_verdicts_on_step_times(steps) < 0.08


def test_steps_like_their_neighbours_do_not_make_intervals_too_narrow():
    assert false_verdicts_on_shares(100, like_their_neighbours) < 0.1
    assert false_verdicts_on_step_times(100, like_their_neighbours) < 0.1


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


def test_the_interval_of_a_difference_of_means_is_welchs():
    generator = np.random.default_rng(0)
    first, second = generator.normal(1, 0.1, 6), generator.normal(2, 0.5, 9)
    limits = difference(estimated_means(first), estimated_means(second)).interval()[0]
    welch = scipy.stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    np.testing.assert_allclose(limits, [welch.low, welch.high])


def test_where_nothing_varies_the_interval_is_a_point():
    estimate = estimated_means(np.ones((1, 8)))
    np.testing.assert_array_equal(difference(estimate, estimate).interval(), [[0, 0]])


@pytest.mark.parametrize("sizes", [(5, 5), (5, 10), (6, 9), (8, 8), (10, 10)])
def test_a_shift_is_certain_only_where_the_exact_test_is(sizes):
    generator = np.random.default_rng(0)
    for _ in range(100):
        first, second = generator.normal(0, 1, sizes[0]), generator.normal(1.2, 1, sizes[1])
        low, high = shift(first, second)
        exact = scipy.stats.mannwhitneyu(first, second, method="exact")
        assert exact.pvalue < 0.05 or low < 0 < high


def test_with_up_to_ten_steps_the_difference_of_medians_lies_in_the_interval_of_the_shift():
    generator = np.random.default_rng(0)
    for _ in range(PAIRS):
        first, second = (generator.exponential(size=n) for n in generator.integers(5, 11, size=2))
        low, high = shift(first, second)
        assert low <= np.median(second) - np.median(first) <= high


def test_below_five_steps_nothing_is_known():
    assert np.isnan(shift(np.arange(4.0), np.arange(9.0))).all()
    few, enough = estimated_means(np.arange(4.0)), estimated_means(np.arange(5.0))
    assert few.value == 1.5
    assert np.isnan(few.interval()).all()
    assert np.isnan(difference(few, enough).interval()).all()
    assert not np.isnan(enough.interval()).any()
