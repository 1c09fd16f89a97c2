"""Rounding to fixed-point numbers: Q(x) = clip(round(x 2^f)) / 2^f, exactly, in float32.

Multiplying by a power of two, rounding to a whole number and the limits are exact in float32. So
Q(x) is exact for every float32 x and every format. A float32 has 24 significant bits: of a format
with more, only the numbers with at most 24 significant bits occur.
"""

import math

import numpy as np
import tensorflow as tf

from fathom.core.training.randomness import uniform


def limits(bits: int) -> tuple[float, float]:
    """Returns the least and the greatest k of a format; beyond 25 bits, the greatest float32."""
    top = 2 ** (bits - 1) - 1
    greatest = np.float32(top)
    if float(greatest) > top:
        greatest = np.nextafter(greatest, np.float32(0))
    return -(2.0 ** (bits - 1)), float(greatest)


def scale_for(largest: float, bits: int, headroom: int) -> float:
    """Returns the scale 2^f of the finest format that holds a tensor.

    Args:
        largest: the largest magnitude in the tensor.
        bits: of the format.
        headroom: bits by which later values may be larger.

    Returns:
        a power of two that float32 holds; for an empty range, that of numbers below 1.
    """
    exponent = math.frexp(largest)[1] + headroom if largest > 0 else 0
    if np.rint(largest * 2.0 ** (headroom + bits - 1 - exponent)) > limits(bits)[1]:
        exponent += 1  # it is below 2^exponent, and rounds up to it
    return float(2.0 ** int(np.clip(bits - 1 - exponent, -120, 120)))


def round_to(
    x: tf.Tensor, scale: tf.Tensor, bits: int, overflow: str, seed: tf.Tensor | None
) -> tf.Tensor:
    """Returns Q(x), float32 of the shape of x; NaN stays NaN.

    Args:
        x: float32 of any shape.
        scale: float32 scalar, 2^f.
        bits: of the format.
        overflow: ``saturate`` at the limits, or ``wrap`` as in two's complement.
        seed: None to round to nearest, ties to even; or int64 [2] to round stochastically, up with
            a probability equal to the remainder (Gupta et al. 2015, section 3.1), in steps of
            2^-24.
    """
    scaled = x * scale
    if seed is None:
        whole = tf.round(scaled)
    else:
        below = tf.floor(scaled)
        drawn = uniform(tf.shape(scaled), seed)
        whole = below + tf.cast(drawn < scaled - below, tf.float32)
    if overflow == "wrap":
        count = 2.0**bits
        remainder = tf.math.floormod(whole, count)
        whole = tf.where(remainder >= count / 2, remainder - count, remainder)
    else:
        least, greatest = limits(bits)
        whole = tf.clip_by_value(whole, least, greatest)
    return whole / scale


def counts(x: tf.Tensor, rounded: tf.Tensor, scale: tf.Tensor, bits: int) -> tf.Tensor:
    """Returns int64 [4]: values, those not zero, those beyond the limits, those rounded to zero."""
    least, greatest = limits(bits)
    whole = tf.round(x * scale)
    beyond = tf.math.count_nonzero((whole > greatest) | (whole < least))
    before, after = tf.math.count_nonzero(x), tf.math.count_nonzero(rounded)
    return tf.stack([tf.size(x, tf.int64), before, beyond, tf.maximum(before - after, 0)])
