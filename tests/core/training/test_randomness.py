import numpy as np
import pytest
import tensorflow as tf

from fathom.core.layers import Dropout, PRNGKey
from fathom.core.training import randomness

SEED = [2**31 - 1, 2**32 - 1]


def compiled(draw, *arguments):
    """Returns what the function returns where XLA compiles it."""
    return tf.function(draw, jit_compile=True, autograph=False)(*arguments)


def seed(number=0):
    return tf.constant([7, number], tf.int64)


@pytest.mark.parametrize("large", [[2**32, 1], [-1, 2**63 - 1]], ids=str)
def test_bits_are_those_of_philox_for_all_bits_of_the_seed(large):
    large = tf.constant(large, tf.int64)
    expected = tf.random.stateless_uniform([20], large, None, None, tf.uint32, alg="philox")
    np.testing.assert_array_equal(randomness.bits([20], large), expected)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_uniform_numbers_are_the_same_with_xla(dtype):
    def draw(seed):
        return randomness.uniform([1001, 3], seed, dtype)

    seed = tf.constant(SEED, tf.int64)
    np.testing.assert_array_equal(compiled(draw, seed), draw(seed))


@pytest.mark.parametrize("shape", [[1], [1001], [7, 20]], ids=str)
def test_normal_numbers_with_xla_differ_by_rounding_alone(shape):
    def draw(seed):
        return randomness.normal(shape, seed)

    seed = tf.constant(SEED, tf.int64)
    expected = randomness.normal(shape, seed)
    assert expected.shape == tf.TensorShape(shape)
    np.testing.assert_allclose(compiled(draw, seed), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_uniform_numbers_fill_the_range_from_zero_to_below_one_evenly(dtype):
    numbers = randomness.uniform([160_000], seed(), dtype).numpy()
    assert numbers.dtype == dtype.as_numpy_dtype
    assert 0 <= numbers.min() < 1e-3
    assert 0.999 < numbers.max() < 1
    np.testing.assert_allclose(np.histogram(numbers, 16, (0, 1))[0], 10_000, rtol=0.05)


def test_the_largest_bits_give_a_number_below_one(monkeypatch):
    most = tf.constant(2**32 - 1, tf.uint32)
    monkeypatch.setattr(randomness, "bits", lambda shape, seed: tf.fill(shape, most))
    assert randomness.uniform([1], seed()) < 1
    assert randomness.uniform([1], seed(), tf.float64) < 1


@pytest.mark.parametrize("draw", [randomness.bits, randomness.uniform, randomness.normal])
def test_the_seed_alone_decides_what_is_drawn(draw):
    first, same, other = (draw([20], seed(i)).numpy() for i in (0, 0, 256))
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()


def test_dropout_drops_the_same_values_with_xla():
    layer = Dropout(0.3, PRNGKey(1, tf.Variable(5, dtype=tf.int64)))
    ones = tf.ones([30, 40])
    np.testing.assert_array_equal(
        compiled(lambda x: layer(x, training=True), ones), layer(ones, training=True)
    )


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_dropout_in_half_precision_drops_the_values_that_it_drops_in_float32(dtype):
    noise = PRNGKey(1, tf.Variable(5, dtype=tf.int64))
    half, single = Dropout(0.3, noise, dtype=dtype.name), Dropout(0.3, noise)
    dropped = half(tf.ones([30, 40], dtype), training=True)
    assert dropped.dtype == dtype
    expected = single(tf.ones([30, 40]), training=True)
    np.testing.assert_array_equal(dropped.numpy() == 0, expected.numpy() == 0)
