"""Greedy decoding and beam search."""

import abc
import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions
from fathom.core.training.compilation import Nest
from fathom.shared.translation.symbols import EOS, GO, PAD

# Maps the last words, int32 [n], and the state to the next word's logits, float32 [n, vocabulary],
# and the next state.
Step = Callable[[tf.Tensor, Nest], tuple[tf.Tensor, Nest]]


class FreeDecoder(Layer):
    """A decoder that may be fed its own words.

    Args:
        beam_size: hypotheses per sentence; 1: greedy.
        length_penalty: exponent of the length penalty, as in ``beam_search``; 0: none.
    """

    def __init__(
        self, beam_size: int, length_penalty: float = 0.0, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._beam_size, self._length_penalty = beam_size, length_penalty
        self.steps_taken = tf.Variable(  # in the last call
            0, trainable=False, name="steps_taken", dtype=tf.int64
        )

    @abc.abstractmethod
    def cache_values(self, source: int) -> int:
        """Returns the values kept for a sentence of so many words while it is translated."""

    @abc.abstractmethod
    def alignment(self, *arguments: tf.Tensor) -> tf.Tensor:
        """Returns the attention to source words while given words are read.

        Args:
            arguments: what the encoder returns; and the target words, int32 [batch, target],
                ``<go>`` first.

        Returns:
            float32 [batch, target, source].
        """

    def search(self, step: Step, state: Nest, longest: int) -> tf.Tensor:
        """Returns the words, ``<eos>`` and padding, int32 [batch, longest].

        Args:
            step: one step of the decoder.
            state: the decoder's initial state, tensors [hypotheses, ...].
            longest: the largest number of words.
        """
        if self._beam_size == 1:
            words, steps = greedy(step, state, longest)
        else:
            words, steps = beam_search(step, state, longest, self._beam_size, self._length_penalty)
        self.steps_taken.assign(tf.cast(steps, tf.int64))
        return words


def greedy(step: Step, state: Nest, longest: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes the most probable word in each step, until every sentence has ended.

    Args:
        step: one step of the decoder.
        state: the decoder's initial state, tensors [batch, ...].
        longest: the largest number of words.

    Returns:
        int32 [batch, longest], the words, ``<eos>`` and padding; and the number of steps taken.
    """
    batch = tf.shape(tf.nest.flatten(state)[0])[0]
    decoded = tf.fill([batch, longest], PAD)

    def more(time: tf.Tensor, words: tf.Tensor, *_: Nest) -> tf.Tensor:
        return (time < longest) & tf.reduce_any((words != EOS) & (words != PAD))

    def take(time: tf.Tensor, words: tf.Tensor, state: Nest, decoded: tf.Tensor) -> tuple:
        ended = (words == EOS) | (words == PAD)
        logits, state = step(words, state)
        words = tf.where(ended, PAD, tf.argmax(logits, 1, tf.int32))
        return time + 1, words, state, _put(decoded, words, time)

    steps, _, _, decoded = tf.while_loop(
        more, take, (0, tf.fill([batch], GO), state, decoded), maximum_iterations=longest
    )
    return decoded, steps


class Beam(NamedTuple):
    """The hypotheses of a batch: those that go on, and of each sentence the best that has ended."""

    words: tf.Tensor  # int32 [batch, size, longest]
    scores: tf.Tensor  # float32 [batch, size], log probabilities, the highest first
    ended_words: tf.Tensor  # int32 [batch, longest]
    ended_scores: tf.Tensor  # float32 [batch], log probabilities over length penalties


def beam_search(
    step: Step, state: Nest, longest: int, size: int, length_penalty: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Searches for probable translations by the rule of tensor2tensor's ``beam_search.py``.

    In each step, of the ``2 * size`` most probable extensions of a sentence's hypotheses, those
    with ``<eos>`` have ended and the best ``size`` others go on. Returned is the ended one with the
    highest log probability over its length penalty, ((5 + length) / 6) ** length_penalty (Wu et al.
    2016, equation 14), once none can exceed it; or the most probable one, if none has ended.

    Args:
        step: one step of the decoder.
        state: the decoder's initial state, tensors [batch * size, ...], ``size`` equal rows each.
        longest: the largest number of words.
        size: hypotheses per sentence.
        length_penalty: an exponent; 0: hypotheses are ranked by log probability.

    Returns:
        int32 [batch, longest], the words, ``<eos>`` and padding; and the number of steps taken.
    """
    batch = tf.shape(tf.nest.flatten(state)[0])[0] // size
    beam = Beam(
        tf.fill([batch, size, longest], PAD),
        tf.tile([[0.0] + [-math.inf] * (size - 1)], [batch, 1]),  # all are equal at first: keep one
        tf.fill([batch, longest], PAD),
        tf.fill([batch], -math.inf),
    )

    def penalty(length: tf.Tensor | int) -> tf.Tensor:
        return ((5 + tf.cast(length, tf.float32)) / 6) ** length_penalty

    def more(time: tf.Tensor, words: tf.Tensor, state: Nest, beam: Beam) -> tf.Tensor:
        bound = beam.scores[:, 0] / penalty(longest)  # log probabilities only fall
        return (time < longest) & tf.reduce_any(beam.ended_scores <= bound)

    def extend(time: tf.Tensor, words: tf.Tensor, state: Nest, beam: Beam) -> tuple:
        logits, state = step(words, state)
        words, parents, beam = _extend(beam, tf.nn.log_softmax(logits), time, penalty(time + 1))
        return time + 1, words, tf.nest.map_structure(lambda t: tf.gather(t, parents), state), beam

    steps, _, _, beam = tf.while_loop(
        more, extend, (0, tf.fill([batch * size], GO), state, beam), maximum_iterations=longest
    )
    has_ended = beam.ended_scores[:, None] > -math.inf
    return tf.where(has_ended, beam.ended_words, beam.words[:, 0]), steps


def _extend(
    beam: Beam, gained: tf.Tensor, time: tf.Tensor, penalty: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, Beam]:
    """Extends hypotheses by a word, of log probabilities ``gained`` [batch * size, vocabulary].

    Returns the last words of those that go on and the rows that they extend, int32 [batch * size].
    """
    size, vocabulary = beam.scores.shape[1], gained.shape[1]
    totals = tf.repeat(beam.scores, vocabulary, 1) + tf.reshape(gained, [-1, size * vocabulary])
    totals, chosen = tf.math.top_k(totals, 2 * size)
    parents, last = chosen // vocabulary, chosen % vocabulary
    words = _put(tf.gather(beam.words, parents, batch_dims=1), last, time)
    ends = last == EOS
    ended_words = tf.concat([beam.ended_words[:, None], words], 1)
    penalized = tf.where(ends, totals / penalty, -math.inf)
    ended_scores = tf.concat([beam.ended_scores[:, None], penalized], 1)
    best = tf.argmax(ended_scores, 1, tf.int32)
    scores, kept = tf.math.top_k(tf.where(ends, -math.inf, totals), size)
    parents += tf.range(tf.shape(parents)[0])[:, None] * size
    last, parents, words = (tf.gather(t, kept, batch_dims=1) for t in (last, parents, words))
    ended = tf.gather(ended_words, best, batch_dims=1), tf.reduce_max(ended_scores, 1)
    return tf.reshape(last, [-1]), tf.reshape(parents, [-1]), Beam(words, scores, *ended)


def _put(decoded: tf.Tensor, words: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Writes words [...] at a step of [..., longest], which is still padding there."""
    return decoded + words[..., None] * tf.cast(tf.range(decoded.shape[-1]) == time, tf.int32)
