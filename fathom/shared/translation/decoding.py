"""Greedy decoding and beam search."""

import abc
from collections.abc import Callable

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions
from fathom.core.training.compilation import Nest
from fathom.shared.translation.symbols import EOS, GO, PAD

# Maps the last words, int32 [n], and the state to the next word's logits, float32 [n, vocabulary],
# and the next state.
Step = Callable[[tf.Tensor, Nest], tuple[tf.Tensor, Nest]]

# Maps the lengths of hypotheses, float32, to the divisors of their log probabilities.
Penalty = Callable[[tf.Tensor], tf.Tensor]


class FreeDecoder(Layer):
    """A decoder that may be fed its own words.

    Args:
        beam_size: hypotheses per sentence; 1: greedy.

    Attributes:
        steps_taken: int32 scalar: steps of the last free decoding.
    """

    def __init__(self, beam_size: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._beam_size = beam_size
        self.steps_taken = tf.Variable(0, trainable=False, name="steps_taken")

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

    def penalty(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns what the beam search divides the log probabilities by: the lengths."""
        return per_word(lengths)

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
            words, steps = beam_search(step, state, longest, self._beam_size, self.penalty)
        self.steps_taken.assign(steps)
        return words


def per_word(lengths: tf.Tensor) -> tf.Tensor:
    """Returns the lengths as penalties."""
    return tf.maximum(lengths, 1)


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


def beam_search(
    step: Step, state: Nest, longest: int, size: int, penalty: Penalty = per_word
) -> tuple[tf.Tensor, tf.Tensor]:
    """Keeps the ``size`` most probable hypotheses of each sentence (Sutskever et al. 2014, 3.2).

    Returns the remaining hypothesis with the highest log probability over its penalty.

    Args:
        step: one step of the decoder.
        state: the decoder's initial state, tensors [batch * size, ...], ``size`` equal rows each.
        longest: the largest number of words.
        size: hypotheses per sentence.
        penalty: of lengths.

    Returns:
        int32 [batch, longest], the words, ``<eos>`` and padding; and the number of steps taken.
    """
    batch = tf.shape(tf.nest.flatten(state)[0])[0] // size
    first = tf.range(batch)[:, None] * size  # row of each sentence's first hypothesis
    scores = tf.tile([[0.0] + [-1e9] * (size - 1)], [batch, 1])  # initially all are equal: keep one
    decoded = tf.fill([batch * size, longest], PAD)

    def more(time: tf.Tensor, words: tf.Tensor, *_: Nest) -> tf.Tensor:
        return (time < longest) & tf.reduce_any((words != EOS) & (words != PAD))

    def extend(
        time: tf.Tensor, words: tf.Tensor, scores: tf.Tensor, state: Nest, decoded: tf.Tensor
    ) -> tuple:
        ended = (words == EOS) | (words == PAD)
        logits, state = step(words, state)
        vocabulary = logits.shape[1]
        only_padding = tf.where(tf.range(vocabulary) == PAD, 0.0, -1e9)
        gained = tf.where(ended[:, None], only_padding, tf.nn.log_softmax(logits))
        totals = scores[:, :, None] + tf.reshape(gained, [batch, size, vocabulary])
        scores, chosen = tf.math.top_k(tf.reshape(totals, [batch, size * vocabulary]), size)
        words = tf.reshape(chosen % vocabulary, [-1])
        parents = tf.reshape(first + chosen // vocabulary, [-1])
        state, decoded = tf.nest.map_structure(lambda t: tf.gather(t, parents), (state, decoded))
        return time + 1, words, scores, state, _put(decoded, words, time)

    steps, _, scores, _, decoded = tf.while_loop(
        more,
        extend,
        (0, tf.fill([batch * size], GO), scores, state, decoded),
        maximum_iterations=longest,
    )
    decoded = tf.reshape(decoded, [batch, size, longest])
    lengths = tf.reduce_sum(tf.cast(decoded != PAD, tf.float32), 2)
    best = tf.argmax(scores / penalty(lengths), 1, tf.int32)
    return tf.gather(decoded, best, batch_dims=1), steps


def _put(decoded: tf.Tensor, words: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Writes words [n] at a step of [n, longest], which is still padding there."""
    return decoded + words[:, None] * tf.cast(tf.range(decoded.shape[1]) == time, tf.int32)
