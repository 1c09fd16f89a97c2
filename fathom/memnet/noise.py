"""Random noise for the temporal encoding (section 4.1 of the paper)."""

import math

import tensorflow as tf

from fathom.core.layers import Layer, PRNGKey


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
        draws = 1 + most_empty(story.shape[1], self._share)
        return gaps(story, self._share, self._key.uniform(tf.stack([tf.shape(story)[0], draws])))


def most_empty(memory: int, share: float) -> int:
    """Returns the largest number of empty memories, of a story that fills the memory."""
    return math.ceil(share * memory)


def gaps(story: tf.Tensor, share: float, draws: tf.Tensor) -> tf.Tensor:
    """Places empty memories; returns how many of them are newer than each sentence.

    Their number is drawn from 0 to ``share`` of the story's sentences, rounded up; each is put in
    front of a random sentence, or behind the oldest.

    Args:
        story: int32 [batch, memory, words], the newest sentence first, then null words.
        share: maximum, of the sentences.
        draws: random numbers in [0, 1), [batch, 1 + most empty memories].

    Returns:
        int32 [batch, memory], ascending.
    """
    memory = story.shape[1]
    most = most_empty(memory, share)
    is_filled = tf.cast(tf.reduce_any(story > 0, -1), tf.float32)
    sentences = tf.reduce_sum(is_filled, 1, keepdims=True)
    count = tf.floor(draws[:, :1] * (tf.math.ceil(share * sentences) + 1))
    before = tf.floor(draws[:, 1:] * (sentences + 1))  # the sentence that follows each
    before = tf.where(tf.range(most, dtype=tf.float32) < count, before, float(memory))
    in_front = before[:, None, :] <= tf.range(memory, dtype=tf.float32)[:, None]
    return tf.reduce_sum(tf.cast(in_front, tf.int32), -1)
