from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from fathom.numbers import fixed

VALUES = np.concatenate(
    [
        np.random.default_rng(0).normal(0, 8, 500),
        np.arange(-40, 40) / 32,  # multiples and ties of the grids below
        [0, 1e-9, -1e-9, 3e38, -3e38, 127.99999],
    ]
).astype(np.float32)


def exact(x, bits, fraction):
    """Q(x) in rational arithmetic, ties to even."""
    whole = round(Fraction(float(x)) * 2**fraction)
    return Fraction(min(max(whole, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1), 2**fraction)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("bits", "fraction"), [(2, 0), (8, 4), (16, 10), (24, 20)])
def test_rounding_is_exact(bits, fraction, compiled):
    rounding = tf.function(fixed.round_to, jit_compile=compiled)
    rounded = rounding(tf.constant(VALUES), tf.constant(2.0**fraction), bits, "saturate", None)
    assert [Fraction(float(y)) for y in rounded] == [exact(x, bits, fraction) for x in VALUES]


def test_formats_of_more_bits_than_float32_give_the_nearest_number_of_24_bits():
    rounded = fixed.round_to(tf.constant(VALUES), tf.constant(2.0**20), 32, "saturate", None)
    inside = np.abs(VALUES) < 2**11
    expected = [float(exact(x, 32, 20)) for x in VALUES[inside]]
    np.testing.assert_array_equal(rounded.numpy()[inside], np.float32(expected))
    assert rounded.numpy().max() == (2**31 - 128) / 2**20  # the greatest float32 below the limit


def test_overflow_can_wrap_as_in_twos_complement():
    x = tf.constant([127.0, 128.0, 129.0, -129.0, 255.6, 300.0])
    wrapped = fixed.round_to(x, tf.constant(1.0), 8, "wrap", None)
    np.testing.assert_array_equal(wrapped, np.array([127, 128, 129, -129, 256, 300]).astype("int8"))


def test_stochastic_rounding_is_unbiased_and_a_function_of_the_seed():
    x = tf.constant([0.3, -1.7, 2.0, 0.01, -0.999], tf.float32)

    def draw(seed):
        wide = tf.repeat(x[None], 20_000, 0)
        seed = tf.constant([seed, 0], tf.int64)
        return fixed.round_to(wide, tf.constant(1.0), 16, "saturate", seed).numpy()

    drawn = draw(1)
    assert np.all((drawn == np.floor(x)) | (drawn == np.ceil(x)))
    np.testing.assert_allclose(drawn.mean(0), x, atol=4 * 0.5 / np.sqrt(20_000))
    np.testing.assert_array_equal(draw(1), drawn)
    assert (draw(2) != drawn).any()


def test_counts_are_of_values_that_saturate_or_become_zero():
    x = tf.constant([0.0, 0.1, -0.1, 0.6, 200.0, -300.0, 5.0])
    scale = tf.constant(1.0)
    rounded = fixed.round_to(x, scale, 8, "saturate", None)
    assert fixed.counts(x, rounded, scale, 8).numpy().tolist() == [7, 6, 2, 2]


@pytest.mark.parametrize("largest", [0.0, 1e-7, 0.9, 1.0, 127.0, 128.0])
def test_the_chosen_scale_is_the_finest_that_holds_the_largest_magnitude(largest):
    scale = fixed.scale_for(largest, 8, headroom=0)
    held = fixed.limits(8)[1] / scale
    assert held > largest * 0.99
    assert largest == 0 or held / 2 <= largest
    assert largest == 0 or fixed.scale_for(largest, 8, headroom=2) == scale / 4


@pytest.mark.parametrize("headroom", [0, 2])
def test_the_chosen_scale_holds_a_magnitude_that_rounds_up_to_a_power_of_two(headroom):
    x = tf.constant([1.9999])
    scale = tf.constant(fixed.scale_for(1.9999, 8, headroom))
    rounded = fixed.round_to(2.0**headroom * x, scale, 8, "wrap", None)
    np.testing.assert_allclose(rounded, 2.0**headroom * x, rtol=1e-3)
