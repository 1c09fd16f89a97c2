"""A decoder: a stack of blocks, for whole sequences and for one token after another."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Dropout
from fathom.model.decoder import LayerCache
from fathom.shared.attention import Cache
from fathom.shared.language.weights import Published


@dataclass(frozen=True)
class Parts:
    """Layers that Keras saves and loads with the layer that holds it."""

    def get_config(self) -> dict[str, object]:
        """Returns the layers by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the same of the layers that were saved."""
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(part) for name, part in config.items()})


@dataclass(frozen=True)
class Block(Parts):
    """x + attention(norm(x)), then x + feed-forward(norm(x)), both with dropout before the sum."""

    norm1: keras.layers.Layer
    attention: keras.layers.Layer
    dropout1: Dropout
    sum1: keras.layers.Add
    norm2: keras.layers.Layer
    feed_forward: Callable[[tf.Tensor], tf.Tensor]
    dropout2: Dropout
    sum2: keras.layers.Add

    def __call__(
        self,
        x: tf.Tensor,
        cache: Cache | LayerCache | None = None,
        position: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Cache]:
        """Returns the next [batch, time, width], and keys and values.

        Args:
            x: [batch, time, width].
            cache: keys and values of earlier tokens, with room for those of ``x``; None: there are
                no earlier tokens.
            position: int32: of the first token of ``x`` in the cache, as ``attention.extend``;
                None: there is none.

        Returns:
            the result, and keys and values: those of ``x``, or the cache with them.
        """
        y, keys, values = self.attention(self.norm1(x), cache=cache, position=position)
        x = self.sum1([x, self.dropout1(y)])
        y = self.dropout2(self.feed_forward(self.norm2(x)))
        return self.sum2([x, y]), (keys, values)


@keras.saving.register_keras_serializable("fathom.shared.language.decoder")
@dataclass(frozen=True)
class Decoder(Parts):
    """Embedding, blocks, and the logits of the next token."""

    kept: ClassVar[tuple[str, str]] = ("keys", "values")  # what a block's cache has, by name

    embedding: keras.layers.Layer
    blocks: Sequence[Callable[..., tuple[tf.Tensor, Cache]]]
    norm: keras.layers.Layer
    logits: keras.layers.Layer

    def embed(self, tokens: tf.Tensor, position: tf.Tensor | int) -> tf.Tensor:
        """Returns [batch, time, width] for tokens int32 [batch, time], the first at a position."""
        return self.embedding(tokens)

    def __call__(
        self,
        tokens: tf.Tensor,
        caches: Sequence[Cache | LayerCache] | None = None,
        position: tf.Tensor | int = 0,
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns what tokens are predicted from, and the blocks' keys and values.

        Args:
            tokens: int32 [batch, time], symbolic or not.
            caches: of earlier tokens, with room for these; None: there are none.
            position: of the first of the tokens, int32 scalar; [batch] with a ``LayerCache``.

        Returns:
            [batch, time, width], for ``logits``; and keys and values of the tokens, or the caches
            with them, for each block.
        """
        x = self.embed(tokens, position)
        kept = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, caches[i] if caches else None, position if caches else None)
            kept.append(cache)
        return self.norm(x), kept

    def published(self) -> list[Published]:
        """Returns what its weights are in the files of Hugging Face's model; by default none."""
        return []

    def with_room(self, caches: Sequence[Cache], tokens: int) -> list[Cache]:
        """Returns the caches of a prompt with room for further tokens."""
        after = ((0, 0), (0, 0), (0, tokens), (0, 0))
        pad = keras.ops.pad
        return [(pad(keys, after), pad(values, after)) for keys, values in caches]

    def decode_token(
        self, tokens: tf.Tensor, caches: list[Cache], position: tf.Tensor
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns the logits after tokens [batch] at a position, and the caches with them."""
        x, caches = self(tokens[:, None], caches, position)
        return self.logits(x)[:, 0], caches
