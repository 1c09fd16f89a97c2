import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.core.data.pipeline import DataLoader, Sampler, shuffled
from fathom.errors import FathomError


def take(batches, count):
    """Returns batches as lists of their first tensors' elements."""
    return [batch[0].numpy().tolist() for batch in itertools.islice(batches, count)]


def examples(indices, seeds):
    return indices, seeds


def with_noise(indices, seeds):
    noise = tf.map_fn(
        lambda seed: tf.random.stateless_uniform((), seed), seeds, fn_output_signature=tf.float32
    )
    return (tf.cast(indices, tf.float32) + noise,)


def refuses_example_five(indices, seeds):
    with tf.control_dependencies(
        [tf.debugging.assert_none_equal(indices, tf.constant(5, tf.int64))]
    ):
        return (tf.identity(indices),)


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(1, 40),
    data=st.data(),
    seed=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(0, 1000),
)
def test_each_epoch_is_a_permutation_without_repetition(size, data, seed, epoch):
    order = Sampler(size, data.draw(st.integers(1, size)), seed)
    first = epoch * order.steps_per_epoch
    drawn = []
    for step in range(first, first + order.steps_per_epoch):
        drawn += order.indices(tf.constant(step, tf.int64)).numpy().tolist()
    assert len(set(drawn)) == len(drawn) == order.steps_per_epoch * order.batch_size
    assert set(drawn) <= set(range(size))


def test_each_epoch_has_its_own_order():
    epochs = take(DataLoader(Sampler(50, 50, seed=1), examples), 3)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(50))


def test_the_examples_left_over_differ_from_epoch_to_epoch():
    seen = set().union(*take(DataLoader(Sampler(10, 7, seed=1), examples), 10))
    assert seen == set(range(10))


@functools.cache
def permutations_of(size, seed, n_epochs):
    """Returns the whole permutation of each epoch: int64 [epochs, size]."""
    places = tf.range(size, dtype=tf.int64)
    epochs = tf.data.Dataset.range(n_epochs).map(lambda e: shuffled(places, size, seed, e))
    return np.array(list(epochs.as_numpy_iterator()))


@pytest.mark.parametrize("size", [1, 2, 3, 64, 70_000])
def test_every_epoch_of_a_set_of_any_size_is_a_permutation(size):
    for permutation in permutations_of(size, seed=5, n_epochs=3):
        np.testing.assert_array_equal(np.sort(permutation), np.arange(size))


@pytest.mark.parametrize("size", [100, 70_000])
@pytest.mark.parametrize("later", [2**8, 2**16, 2**32])
def test_an_order_does_not_come_again_when_the_low_bits_of_the_epoch_do(size, later):
    first, second = (
        Sampler(size, 100, seed=0).indices(step) for step in (0, later * (size // 100))
    )
    assert (first != second).numpy().any()


@pytest.mark.parametrize("size", [100, 70_000])
def test_seeds_with_the_same_low_bits_have_orders_of_their_own(size):
    orders = [Sampler(size, 100, seed).indices(0).numpy() for seed in (0, 2**8, 2**16, 2**30)]
    for one, other in itertools.combinations(orders, 2):
        assert (one != other).any()


def test_a_thousand_epochs_have_a_thousand_orders():
    orders = permutations_of(500, seed=1, n_epochs=1000)
    assert len({order.tobytes() for order in orders}) == 1000


@pytest.mark.slow
def test_over_many_epochs_each_example_is_as_often_at_each_place():
    n, epochs = 64, 1500
    orders = permutations_of(n, seed=1, n_epochs=epochs)
    counts = [np.bincount(place, minlength=n) for place in orders.T]
    chi_squared = np.sum((np.array(counts) - epochs / n) ** 2) / (epochs / n)
    assert chi_squared / (n - 1) ** 2 == pytest.approx(1, abs=0.1)  # its deviation is 0.02


def test_neighbours_of_the_data_set_are_no_more_often_neighbours_in_an_order():
    n, epochs = 500, 1000
    orders = permutations_of(n, seed=1, n_epochs=epochs)
    for distance in (1, 2, 16):
        apart = orders[:, distance:] - orders[:, :-distance]
        expected = epochs * (n - distance) ** 2 / (n * (n - 1))
        found = np.count_nonzero(apart == distance)
        assert found == pytest.approx(expected, abs=5 * np.sqrt(expected))


def test_without_shuffling_examples_come_in_turn():
    batches = take(DataLoader(Sampler(5, 2, seed=1, shuffle=False), examples), 4)
    assert batches == [[0, 1], [2, 3], [4, 0], [1, 2]]


@pytest.mark.parametrize("first_step", [1, 4, 13])
def test_a_batch_does_not_depend_on_where_the_stream_started(first_step):
    order = Sampler(20, 4, seed=7)
    whole = take(DataLoader(order, with_noise), first_step + 3)
    resumed = take(DataLoader(order, with_noise, first_step), 3)
    assert resumed == whole[first_step:]


def test_a_batch_does_not_depend_on_the_number_of_workers():
    order = Sampler(20, 4, seed=7)
    one, three = (take(DataLoader(order, with_noise, workers=n), 12) for n in (1, 3))
    assert one == three


def test_no_seed_of_an_example_is_used_twice():
    batches = itertools.islice(DataLoader(Sampler(6, 3, seed=7), examples), 10)
    seeds = [tuple(seed) for _, seeds in batches for seed in seeds.numpy().tolist()]
    assert len(set(seeds)) == len(seeds) == 30


def test_a_batch_larger_than_the_data_is_an_error():
    with pytest.raises(FathomError, match="batch size 6 is larger than the data: 5 examples"):
        Sampler(5, 6, seed=0)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_of_nothing_is_an_error(batch_size):
    with pytest.raises(FathomError, match=f"batch size {batch_size} is not a positive number"):
        Sampler(5, batch_size, seed=0)


def test_an_empty_set_is_an_error():
    with pytest.raises(FathomError, match="the data set is empty"):
        Sampler(0, 1, seed=0)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_failing_batch_is_recovered_and_those_after_it_stay_the_same(workers):
    order = Sampler(12, 3, seed=2)
    sound = take(DataLoader(order, examples), 12)

    def recover(indices, seeds):
        return (-indices,)

    mended = take(DataLoader(order, refuses_example_five, 0, workers, recover), 12)
    assert mended == [
        [-index for index in batch] if 5 in batch else batch  # what recover makes of it
        for batch in sound
    ]
    assert sum(5 in batch for batch in sound) == 3


def test_a_resumed_stream_recovers_the_same_batches():
    order = Sampler(12, 3, seed=2)

    def recover(indices, seeds):
        return (-seeds[:, 1],)

    whole = take(DataLoader(order, refuses_example_five, recover=recover), 12)
    resumed = take(DataLoader(order, refuses_example_five, first_step=5, recover=recover), 7)
    assert resumed == whole[5:]


def test_a_failing_batch_is_an_error_of_one_line_where_nothing_recovers():
    batches = DataLoader(Sampler(12, 3, seed=2, shuffle=False), refuses_example_five)
    assert take(batches, 1) == [[0, 1, 2]]
    with pytest.raises(FathomError, match="batch 1 cannot be loaded: ") as caught:
        next(batches)
    assert "\n" not in str(caught.value)


def test_the_first_batch_of_a_block_that_fails_is_named():
    batches = DataLoader(Sampler(12, 1, 2, shuffle=False), refuses_example_five, steps_per_call=2)
    assert take(batches, 2) == [[[0], [1]], [[2], [3]]]
    with pytest.raises(FathomError, match="batch 4 cannot be loaded: "):
        next(batches)


def test_what_recovery_raises_is_passed_on():
    def recover(indices, seeds):
        raise FathomError("example 5 is broken")

    batches = DataLoader(
        Sampler(12, 6, seed=2, shuffle=False), refuses_example_five, recover=recover
    )
    with pytest.raises(FathomError, match="example 5 is broken"):
        next(batches)
