"""The network of GPT-2, a decoder."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Dropout, Random
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.layers import Attention, Embedding, LayerNormalization, Perceptron
from fathom.shared.language import decoder
from fathom.shared.language.decoder import Decoder
from fathom.shared.language.layers import STDDEV, TiedLogits
from fathom.shared.language.weights import Published


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Block(decoder.Block):
    """x + attention(norm(x)), then x + perceptron(norm(x)) (Radford et al. 2019, section 2.3)."""

    norm1: LayerNormalization
    attention: Attention
    norm2: LayerNormalization
    feed_forward: Perceptron

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


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Network(Decoder):
    """GPT-2: tokens have learned positions, and the embedding's dropout."""

    embedding: Embedding
    blocks: list[Block]
    norm: LayerNormalization
    dropout: Dropout

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
        dropout = Dropout(
            hyperparameters.dropout, new_random().new_noise(), name="embedding_dropout"
        )
        blocks = [
            Block.of(number, hyperparameters, new_random)
            for number in range(1, hyperparameters.layers + 1)
        ]
        norm = LayerNormalization(width, name="norm")
        return cls(embedding, blocks, norm, TiedLogits(embedding, time, name="logits"), dropout)

    def embed(self, tokens: tf.Tensor, position: tf.Tensor | int) -> tf.Tensor:
        """Returns [batch, time, width] for tokens int32 [batch, time], the first at a position."""
        return self.dropout(self.embedding(tokens, position=position))

    def published(self) -> list[Published]:
        """Returns what its weights are in the files of ``GPT2LMHeadModel``."""
        parts: list[tuple[str, keras.Variable, keras.Variable]] = [
            ("ln_f", self.norm.scale, self.norm.offset)
        ]
        for i, block in enumerate(self.blocks):
            attention, perceptron = block.attention, block.feed_forward
            parts += [
                (f"h.{i}.ln_1", block.norm1.scale, block.norm1.offset),
                (f"h.{i}.attn.c_attn", attention.kernel, attention.bias),
                (f"h.{i}.attn.c_proj", attention.projection, attention.projection_bias),
                (f"h.{i}.ln_2", block.norm2.scale, block.norm2.offset),
                (f"h.{i}.mlp.c_fc", perceptron.kernel, perceptron.bias),
                (f"h.{i}.mlp.c_proj", perceptron.projection, perceptron.projection_bias),
            ]
        names = {"wte.weight": self.embedding.table, "wpe.weight": self.embedding.positions}
        for name, kernel, bias in parts:
            names |= {f"{name}.weight": kernel, f"{name}.bias": bias}
        return [Published(variable, (name,)) for name, variable in names.items()]
