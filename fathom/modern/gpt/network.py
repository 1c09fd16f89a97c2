"""The network: a stack of blocks, for whole sequences and for one token after another."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Dropout, Random
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.layers import (
    STDDEV,
    Attention,
    Embedding,
    LayerNormalization,
    Logits,
    Perceptron,
)
from fathom.shared.attention import Cache


@dataclass(frozen=True)
class _Parts:
    """Layers that Keras saves and loads with the layer that holds it."""

    def get_config(self) -> dict[str, object]:
        """Returns the layers by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the same of the layers that were saved."""
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(part) for name, part in config.items()})


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Block(_Parts):
    """x + attention(norm(x)), then x + perceptron(norm(x)) (Radford et al. 2019, section 2.3)."""

    norm1: LayerNormalization
    attention: Attention
    dropout1: Dropout
    sum1: keras.layers.Add
    norm2: LayerNormalization
    perceptron: Perceptron
    dropout2: Dropout
    sum2: keras.layers.Add

    @classmethod
    def of(
        cls, number: int, hyperparameters: GPTHyperparameters, new_random: Callable[[], Random]
    ) -> Self:
        """Returns a new block.

        Args:
            number: of the block, from 1.
            hyperparameters: the network's size.
            new_random: returns the random numbers of each layer.
        """
        name, width, time = f"block{number}", hyperparameters.width, hyperparameters.context
        residual = STDDEV / math.sqrt(2 * hyperparameters.layers)
        return cls(
            LayerNormalization(width, name=f"{name}_norm1"),
            Attention(
                width,
                hyperparameters.heads,
                time,
                hyperparameters.dropout,
                residual,
                new_random(),
                name=f"{name}_attention",
            ),
            Dropout(hyperparameters.dropout, new_random().new_noise(), name=f"{name}_dropout1"),
            keras.layers.Add(name=f"{name}_sum1"),
            LayerNormalization(width, name=f"{name}_norm2"),
            Perceptron(width, time, residual, new_random(), name=f"{name}_mlp"),
            Dropout(hyperparameters.dropout, new_random().new_noise(), name=f"{name}_dropout2"),
            keras.layers.Add(name=f"{name}_sum2"),
        )

    def __call__(
        self, x: tf.Tensor, cache: Cache | None = None, position: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Cache]:
        """Returns the next [batch, time, width], and keys and values as ``Attention`` does."""
        y, keys, values = self.attention(self.norm1(x), cache=cache, position=position)
        x = self.sum1([x, self.dropout1(y)])
        y = self.dropout2(self.perceptron(self.norm2(x)))
        return self.sum2([x, y]), (keys, values)


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Network(_Parts):
    """Embedding, blocks, and the logits of the next token."""

    embedding: Embedding
    dropout: Dropout
    blocks: list[Block]
    norm: LayerNormalization
    logits: Logits

    @classmethod
    def of(
        cls, hyperparameters: GPTHyperparameters, words: int, new_random: Callable[[], Random]
    ) -> Self:
        """Returns a new network.

        Args:
            hyperparameters: its size.
            words: rows of the embedding.
            new_random: returns the random numbers of each layer.
        """
        time, width = hyperparameters.context, hyperparameters.width
        embedding = Embedding(words, time, width, new_random(), name="embedding")
        return cls(
            embedding,
            Dropout(hyperparameters.dropout, new_random().new_noise(), name="embedding_dropout"),
            [
                Block.of(number, hyperparameters, new_random)
                for number in range(1, hyperparameters.layers + 1)
            ],
            LayerNormalization(width, name="norm"),
            Logits(embedding, time, name="logits"),
        )

    def __call__(
        self, tokens: tf.Tensor, caches: list[Cache] | None = None, position: tf.Tensor | int = 0
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns what tokens are predicted from, and the blocks' keys and values.

        Args:
            tokens: int32 [batch, time], symbolic or not.
            caches: of earlier tokens, with room for these; None: there are none.
            position: int32 scalar, of the first of the tokens.

        Returns:
            [batch, time, width], for ``logits``; and keys and values of the tokens, or the caches
            with them, for each block.
        """
        x = self.dropout(self.embedding(tokens, position=position))
        kept = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, caches[i] if caches else None, position if caches else None)
            kept.append(cache)
        return self.norm(x), kept

    def decode_token(
        self, tokens: tf.Tensor, caches: list[Cache], position: tf.Tensor
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns the logits after tokens [batch] at a position, and the caches with them."""
        x, caches = self(tokens[:, None], caches, position)
        return self.logits(x)[:, 0], caches


def macs_of(layer: keras.layers.Layer, hyperparameters: GPTHyperparameters, phase: str) -> int:
    """Returns a layer's multiply-accumulates for a prompt and the tokens after it.

    Those of the phases that run; all places of the cache are attended to, filled or not.
    """
    prompt = hyperparameters.prompt_tokens if phase != "decode" else 0
    decoded = hyperparameters.new_tokens - 1 if phase != "prefill" else 0
    if isinstance(layer, Attention):
        places = hyperparameters.prompt_tokens + hyperparameters.new_tokens - 1
        return layer.macs_of(prompt, prompt) + layer.macs_of(decoded, places)
    if isinstance(layer, Perceptron):
        return layer.macs_of(prompt + decoded)
    return layer.macs_of(bool(prompt) + decoded) if isinstance(layer, Logits) else 0
