"""What a server needs of a network that writes text token by token.

A ``TokenDecoder`` runs sequences of different lengths in one batch. Where keys and values are kept
is the server's matter: the network sees a ``LayerCache`` for each of its layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf


class LayerCache(Protocol):
    """The keys and values that a layer has computed for the sequences of a batch."""

    def extend(
        self, keys: tf.Tensor, values: tf.Tensor, positions: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Adds those of new tokens.

        Args:
            keys: [batch, heads, tokens, d].
            values: the same.
            positions: int32 [batch], of the first new token of each sequence.

        Returns:
            all keys and values that there are, [batch, heads, length, d], and bool [batch, 1,
            tokens, length]: True where a token may attend to, its own place and those before it.
        """


# Runs new tokens of sequences whose earlier ones are cached. Takes
# - tokens: int32 [batch, time], with a static time: a prompt or a part of one, or the newest token;
# - positions: int32 [batch], of the first of them; 0 for the start of a prompt;
# - last: int32 [batch], the place in the tokens of one in question; those after it are padding;
# - the layers' caches.
# Returns logits, float32 [batch, vocabulary], of what follows the token in question.
Forward = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Sequence[LayerCache]], tf.Tensor]


@dataclass(frozen=True)
class TokenDecoder:
    """A decoder-only network."""

    forward: Forward  # of prompts and of single tokens; to be traced
    layers: int  # with a cache each
    heads: int  # of keys and values
    size: int  # of a key
    dtype: str  # of keys and values
    context: int  # the most tokens of a sequence
    words: int  # different tokens, the numbers from 0
    new_tokens: int  # that inference generates for each prompt
    encode: Callable[[str], np.ndarray]  # returns the tokens of a text, int32 [tokens]
    decode: Callable[[np.ndarray], str]  # returns the text of tokens

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's keys and values in all layers."""
        return 2 * self.layers * self.heads * self.size * tf.as_dtype(self.dtype).size
