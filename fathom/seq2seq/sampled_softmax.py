"""Softmax over a sample of a large vocabulary.

Jean et al. 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation", section 3,
with samples by Zipf's law.
"""

import math

import tensorflow as tf

from fathom.core.training.randomness import uniform


def log_uniform_samples(count: int, vocabulary: int, seed: tf.Tensor) -> tf.Tensor:
    """Samples words from P(k) = log((k + 2) / (k + 1)) / log(V + 1).

    Words are numbered by decreasing frequency (Zipf's law); samples may repeat.

    Args:
        count: number of samples.
        vocabulary: V, the number of words.
        seed: int64 [2]; the same seed gives the same words.

    Returns:
        int32 [count], each from 0 to V - 1, sorted.
    """
    drawn = tf.exp(uniform([count], seed, tf.float64) * math.log(vocabulary + 1))
    drawn = tf.cast(drawn, tf.int32) - 1
    return tf.sort(tf.clip_by_value(drawn, 0, vocabulary - 1))


def log_chance(words: tf.Tensor, count: int, vocabulary: int) -> tf.Tensor:
    """Returns the log of each word's probability of being sampled: 1 - (1 - P)^count."""
    k = tf.cast(words, tf.float32)
    probability = tf.math.log1p(1 / (k + 1)) / math.log(vocabulary + 1)
    return tf.math.log(-tf.math.expm1(count * tf.math.log1p(-probability)))


def sampled_cross_entropy(
    states: tf.Tensor,
    words: tf.Tensor,
    weights: tf.Variable,
    biases: tf.Variable,
    count: int,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Returns -log p(word) of a softmax over the word and the sampled words, in nats.

    The log of a word's sampling probability is subtracted from its logit. Duplicates count once,
    and samples equal to the correct word are left out.

    Args:
        states: [n, units], from which the words are predicted.
        words: int32 [n], the correct words.
        weights: float32 [V, units] of the full softmax; its gradient is sparse.
        biases: float32 [V].
        count: number of samples, shared by all n.
        seed: int64 [2], of the samples.

    Returns:
        float32 [n].
    """
    vocabulary = weights.shape[0]
    drawn = log_uniform_samples(count, vocabulary, seed)
    again = tf.concat([[False], drawn[1:] == drawn[:-1]], 0)
    both = tf.concat([words, drawn], 0)
    n = tf.shape(words)[0]
    rows = tf.cast(tf.gather(weights, both), states.dtype)
    offsets = tf.gather(biases, both) - log_chance(both, count, vocabulary)
    right = tf.cast(tf.reduce_sum(states * rows[:n], 1), tf.float32) + offsets[:n]
    others = tf.cast(tf.matmul(states, rows[n:], transpose_b=True), tf.float32) + offsets[n:]
    others = tf.where(again | (words[:, None] == drawn), -1e9, others)
    return tf.reduce_logsumexp(tf.concat([right[:, None], others], 1), 1) - right
