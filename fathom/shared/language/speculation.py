"""Speculative decoding: a draft proposes tokens, and the network checks them all at once.

Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding". The draft is the
network's first blocks with its last normalisation and output matrix, so that it has no weights and
no cache of its own (Zhang et al. 2023, "Draft & Verify: Lossless Large Language Model Acceleration
via Self-Speculative Decoding").
"""

import dataclasses

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions
from fathom.shared.attention import Cache
from fathom.shared.language.decoder import Decoder


class Speculation(Layer):
    """Decodes the most probable tokens, several with each pass of the network.

    Sequences advance together, by the tokens that are right in all of them.

    Args:
        network: its layers are not this layer's own.
        prompt: tokens of the prompt.
        new: tokens after it, of which the prefill gives the first.
        blocks: of the network, that draft.
        drafted: tokens before each check.

    Attributes:
        passes: int64 scalar: passes of the whole network in the last call.
    """

    def __init__(
        self,
        network: Decoder,
        prompt: int,
        new: int,
        blocks: int,
        drafted: int,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(autocast=False, **options)
        self._network, self._prompt, self._new = network, prompt, new
        self._blocks, self._drafted = blocks, drafted
        self._first = dataclasses.replace(network, blocks=network.blocks[:blocks])
        self.passes = tf.Variable(0, dtype=tf.int64, trainable=False, name="passes")

    @property
    def tokens_per_pass(self) -> float | None:
        """New tokens of a sequence for each pass of the network; None before the first call."""
        return (self._new - 1) / int(self.passes) if int(self.passes) else None

    def call(self, first: tf.Tensor, *caches: tf.Tensor) -> tf.Tensor:
        """Returns the new tokens, int32 [batch, new].

        Args:
            first: int32 [batch], the first of them.
            caches: keys and values of each block in turn, [batch, heads, prompt + new - 1 +
                drafted, size].
        """
        places = tf.range(self._new + self._drafted)

        def check(
            i: tf.Tensor, last: tf.Tensor, caches: list[Cache], tokens: tf.Tensor, passes: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, list[Cache], tf.Tensor, tf.Tensor]:
            position = self._prompt - 1 + i
            given, caches = self._draft(last, caches, position)
            x, caches = self._network(given, caches, position)
            right = _most_probable(self._network.logits(x))  # after each of the given
            agreed = tf.reduce_all(given[:, 1:] == right[:, :-1], 0)
            count = 1 + tf.reduce_sum(tf.math.cumprod(tf.cast(agreed, tf.int32)))
            found = tf.gather(right, tf.clip_by_value(places - i, 0, self._drafted), axis=1)
            tokens = tf.where(places >= i, found, tokens)  # the next check corrects the rest
            return i + count, tf.gather(right, count - 1, axis=1), caches, tokens, passes + 1

        pairs = list(zip(caches[::2], caches[1::2], strict=True))
        tokens = tf.where(places == 0, first[:, None], 0)
        *_, tokens, passes = tf.while_loop(
            lambda i, *_: i < self._new,
            check,
            (1, first, pairs, tokens, 0),
            maximum_iterations=self._new - 1,
        )
        self.passes.assign(tf.cast(passes, tf.int64))
        return tokens[:, : self._new]

    def _draft(
        self, last: tf.Tensor, caches: list[Cache], position: tf.Tensor
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns the last token with those that the draft adds, and the caches with them."""
        tokens, mine = [last], caches[: self._blocks]
        for i in range(self._drafted):
            logits, mine = self._first.decode_token(tokens[-1], mine, position + i)
            tokens.append(_most_probable(logits))
        return tf.stack(tokens, 1), [*mine, *caches[self._blocks :]]


def _most_probable(logits: tf.Tensor) -> tf.Tensor:
    return tf.argmax(tf.cast(logits, tf.float32), -1, tf.int32)
