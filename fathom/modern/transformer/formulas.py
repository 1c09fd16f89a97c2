"""Dropout, and the cross-entropy with smoothed labels."""

from collections.abc import Callable

import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.randomness import bits

_LEAST = 1e-37  # of a probability, whose logarithm is finite


def dropped(x: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """Returns a tensor of any shape with values set to zero, and the others divided by 1 - rate.

    It draws 16 random bits a value, half of what ``fathom.core.layers.Dropout`` draws.

    Args:
        x: the tensor.
        rate: probability that a value is set to zero, rounded to a multiple of 2^-16.
        seed: int64 [2].
    """
    shape = replicas.whole_shape(tf.shape(x))
    count = tf.reduce_prod(shape)
    drawn = tf.reshape(tf.bitcast(bits([(count + 1) // 2], seed), tf.uint16), [-1])
    least = min(round(rate * 2**16), 2**16 - 1)
    kept = tf.reshape(drawn[:count], shape) >= tf.constant(least, tf.uint16)
    return tf.where(replicas.part(kept), x * (1 / (1 - rate)), tf.zeros([], x.dtype))


def smoothed_cross_entropy(
    states: tf.Tensor, matrix: tf.Tensor, words: tf.Tensor, smoothing: float
) -> tf.Tensor:
    """Returns the cross-entropy of softmax(states matrix') and smoothed labels (section 5.4).

    Only the softmax passes over the logits, the step's largest tensor by far: the rest of formula
    and gradient are products of the states with the matrix's rows.

    Args:
        states: the decoder's outputs, [n, width].
        matrix: float32 [vocabulary, width].
        words: the true ones, int32 [n].
        smoothing: probability that is spread over the whole vocabulary, evenly.

    Returns:
        in nats, float32 [n].
    """
    wide = tf.cast(states, tf.float32)
    true = tf.gather(matrix, words)
    expected = (1 - smoothing) * true + smoothing * tf.reduce_mean(matrix, 0)
    score = tf.stop_gradient(tf.reduce_sum(wide * true, 1))
    normalizers = _normalizers(states, tf.cast(matrix, states.dtype), words, score)
    return normalizers - tf.reduce_sum(wide * expected, 1)


@tf.custom_gradient
def _normalizers(
    states: tf.Tensor, matrix: tf.Tensor, words: tf.Tensor, score: tf.Tensor
) -> tuple[tf.Tensor, Callable]:
    """Returns log(sum(exp(states matrix'))), float32 [n], given the true words' logits."""
    logits = tf.matmul(states, matrix, transpose_b=True)
    if logits.dtype == tf.float16:  # has no probabilities below 6e-8
        logits = tf.cast(logits, tf.float32)
    probabilities = tf.nn.softmax(logits)
    probability = tf.cast(tf.gather(probabilities, words, batch_dims=1), tf.float32)
    found = tf.cast(probabilities, states.dtype)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        scale = tf.cast(upstream, states.dtype)[:, None]
        of_states = tf.matmul(found, matrix) * scale
        return of_states, tf.matmul(found, states * scale, transpose_a=True), None, None

    return score - tf.math.log(tf.maximum(probability, _LEAST)), gradient
