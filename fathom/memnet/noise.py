"""Random noise for the temporal encoding (section 4.1 of the paper)."""

import math

import tensorflow as tf

from fathom.layers import Layer, PRNGKey
from fathom.training.randomness import uniform


class RandomNoise(Layer):
    """Draws empty memories between the sentences of each story, in training.

    Only the times of the sentences change: an empty memory is a gap in them. As in the authors'
    code no sentence is lost where the memory is full.

    Args:
        share: maximum number of empty memories per sentence.
        key: of the random numbers.
    """

    def __init__(self, share: float, key: PRNGKey, **options: object) -> None:
        super().__init__(**options)
        self._share, self._key = share, key

    def call(self, story: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the gaps in front of each sentence, int32 [batch, memory]; see ``gaps``."""
        if not training:
            return tf.zeros(tf.shape(story)[:2], tf.int32)
        return gaps(story, self._share, self._key.tensor())


def gaps(story: tf.Tensor, share: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws empty memories; returns how many of them are newer than each sentence.

    Their number is drawn from 0 to ``share`` of the story's sentences, rounded up; each is put in
    front of a random sentence, or behind the oldest.

    Args:
        story: int32 [batch, memory, words], the newest sentence first, then null words.
        share: maximum, of the sentences.
        seed: int64 [2]; the same seed gives the same noise.

    Returns:
        int32 [batch, memory], ascending.
    """
    batch, memory = tf.shape(story)[0], story.shape[1]
    most = math.ceil(share * memory)  # of a story that fills the memory
    is_filled = tf.cast(tf.reduce_any(story > 0, -1), tf.float32)
    sentences = tf.reduce_sum(is_filled, 1, keepdims=True)
    draws = uniform([batch, 1 + most], seed)
    count = tf.floor(draws[:, :1] * (tf.math.ceil(share * sentences) + 1))
    before = tf.floor(draws[:, 1:] * (sentences + 1))  # the sentence that follows each
    before = tf.where(tf.range(most, dtype=tf.float32) < count, before, float(memory))
    in_front = before[:, None, :] <= tf.range(memory, dtype=tf.float32)[:, None]
    return tf.reduce_sum(tf.cast(in_front, tf.int32), -1)
