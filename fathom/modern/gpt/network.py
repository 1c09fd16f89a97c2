"""The network of GPT-2, a decoder."""

from dataclasses import dataclass

import keras
import tensorflow as tf

from fathom.core.layers import Dropout
from fathom.modern.gpt.layers import Attention, Embedding, LayerNormalization, Perceptron
from fathom.shared.language import decoder
from fathom.shared.language.decoder import Decoder
from fathom.shared.language.weights import Published


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Block(decoder.Block):
    """x + attention(norm(x)), then x + perceptron(norm(x)) (Radford et al. 2019, section 2.3)."""

    norm1: LayerNormalization
    attention: Attention
    norm2: LayerNormalization
    feed_forward: Perceptron


@keras.saving.register_keras_serializable("fathom.modern.gpt.network")
@dataclass(frozen=True)
class Network(Decoder):
    """GPT-2: tokens have learned positions, and the embedding's dropout."""

    embedding: Embedding
    blocks: list[Block]
    norm: LayerNormalization
    dropout: Dropout

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
