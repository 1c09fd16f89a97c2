"""Random numbers determined by a seed alone, the same with and without XLA.

TensorFlow's kernels and XLA generate the same bits (Philox), but convert them to different
floating-point numbers. So compiled steps use these functions, not ``tf.random.stateless_uniform``.
XLA reads only the low 32 bits of a seed's two integers.
"""

import math
from typing import TypeAlias

import tensorflow as tf

from fathom.system import private

Shape: TypeAlias = tf.Tensor | tf.TensorShape | list[int]


def bits(shape: Shape, seed: tf.Tensor) -> tf.Tensor:
    """Returns random bits.

    Args:
        shape: of the result.
        seed: int64 [2]; the same seed gives the same bits, with XLA if both are below 2^32.

    Returns:
        uint32, uniform over all 2^32 values.
    """
    return tf.random.stateless_uniform(shape, seed, None, None, tf.uint32)


def uniform(shape: Shape, seed: tf.Tensor, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Returns uniform random numbers in [0, 1).

    Args:
        shape: of the result.
        seed: int64 [2]; the same seed gives the same numbers.
        dtype: float32, of 24 random bits, or float64, of 32.
    """
    drawn = bits(shape, seed)
    if dtype == tf.float64:
        return tf.cast(drawn, dtype) * 2**-32
    # A float32 holds 24 bits: using all 32 would sometimes round up to 1.
    return tf.cast(tf.bitwise.right_shift(drawn, tf.constant(8, tf.uint32)), tf.float32) * 2**-24


def normal(shape: Shape, seed: tf.Tensor) -> tf.Tensor:
    """Returns numbers of the normal distribution N(0, 1).

    They are those of TensorFlow's kernel, one op in a profile. XLA's formula differs from it: where
    XLA compiles, the kernel's is therefore written out.

    Args:
        shape: of the result.
        seed: int64 [2]; the same seed gives the same numbers.

    Returns:
        float32; with XLA and without, the numbers differ only by rounding.
    """
    if not private.traces_for_xla():
        return tf.random.stateless_normal(shape, seed)
    size = tf.reduce_prod(shape)
    drawn = tf.bitwise.bitwise_and(
        bits([(size + 1) // 2, 2], seed), tf.constant(2**23 - 1, tf.uint32)
    )
    radius, angle = tf.unstack(tf.cast(drawn, tf.float32) * 2**-23, axis=1)
    radius = tf.sqrt(-2 * tf.math.log(tf.maximum(radius, 1e-7)))  # Box and Muller 1958
    pairs = tf.stack([tf.sin(2 * math.pi * angle), tf.cos(2 * math.pi * angle)], 1)
    return tf.reshape(tf.reshape(radius[:, None] * pairs, [-1])[:size], shape)
