"""Random noise for the temporal encoding (section 4.1 of the paper)."""

import math

import tensorflow as tf


def with_empty_memories(
    story: tf.Tensor, lengths: tf.Tensor, share: float, seed: tf.Tensor
) -> tf.Tensor:
    """Inserts empty memories at random between the sentences of each story.

    Their number is drawn from 0 to ``share`` of the story's sentences, rounded up. Older sentences
    move back; those that no longer fit into the memory are dropped.

    Args:
        story: int32 [batch, memory, words], the newest sentence first, then null words.
        lengths: int32 [batch], sentences of each story.
        share: maximum, of the sentences.
        seed: int64 [2]; the same seed gives the same noise.

    Returns:
        int32 [batch, memory, words].
    """
    batch, memory, words = story.shape
    most = math.ceil(share * memory)
    if most == 0:
        return story
    draws = tf.random.stateless_uniform([batch, 1 + most], seed)
    sentences = tf.cast(lengths, tf.float32)[:, None]
    count = tf.floor(draws[:, :1] * (tf.math.ceil(share * sentences) + 1))
    before = tf.floor(draws[:, 1:] * (sentences + 1))  # the sentence that follows each
    before = tf.where(tf.range(most, dtype=tf.float32) < count, before, float(memory))
    in_front = before[:, None, :] <= tf.range(memory, dtype=tf.float32)[None, :, None]
    places = tf.range(memory) + tf.reduce_sum(tf.cast(in_front, tf.int32), -1)
    first = tf.range(batch)[:, None] * (memory + most)
    moved = tf.scatter_nd(
        tf.reshape(first + places, [-1, 1]),
        tf.reshape(story, [-1, words]),
        [batch * (memory + most), words],
    )
    return tf.reshape(moved, [batch, memory + most, words])[:, :memory]
