"""The decoder that Llama is, and Mixtral but for the feed-forward layers of its blocks."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import keras
import tensorflow as tf

from fathom.core.layers import Dropout
from fathom.shared.language import decoder
from fathom.shared.language.decoder import Decoder
from fathom.shared.language.hyperparameters import RotaryHyperparameters
from fathom.shared.language.layers import STDDEV
from fathom.shared.language.model import LanguageModel
from fathom.shared.language.rotary import (
    EPSILON,
    Attention,
    Embedding,
    Logits,
    RMSNorm,
    Sizes,
    SwiGLU,
)
from fathom.shared.language.weights import Published


class FeedForward(Protocol):
    """A layer, or several, that compute each token alone."""

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] of the same."""

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in Hugging Face's files, in the block of a prefix."""


@keras.saving.register_keras_serializable("fathom.shared.language.rotary_decoder")
@dataclass(frozen=True)
class Block(decoder.Block):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) (Touvron et al. 2023)."""

    norm1: RMSNorm
    attention: Attention
    norm2: RMSNorm
    feed_forward: FeedForward

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in Hugging Face's files."""
        q, k, v, o = (f"{prefix}.self_attn.{name}_proj.weight" for name in "qkvo")
        return [
            Published(self.norm1.scale, (f"{prefix}.input_layernorm.weight",)),
            Published(self.attention.kernel, (q, k, v), transposed=True),
            Published(self.attention.projection, (o,), transposed=True),
            Published(self.norm2.scale, (f"{prefix}.post_attention_layernorm.weight",)),
            *self.feed_forward.published(prefix),
        ]


@keras.saving.register_keras_serializable("fathom.shared.language.rotary_decoder")
@dataclass(frozen=True)
class RotaryDecoder(Decoder):
    """Rotary positions are part of the attention, and the output matrix is its own."""

    embedding: Embedding
    blocks: list[Block]
    norm: RMSNorm
    logits: Logits

    def published(self) -> list[Published]:
        """Returns what its weights are in Hugging Face's files."""
        weights = [
            Published(self.embedding.table, ("model.embed_tokens.weight",)),
            Published(self.norm.scale, ("model.norm.weight",)),
            Published(self.logits.kernel, ("lm_head.weight",), transposed=True),
        ]
        for i, block in enumerate(self.blocks):
            weights += block.published(f"model.layers.{i}")
        return weights


class RotaryModel(LanguageModel):
    """A language model that is a ``RotaryDecoder``.

    Attributes:
        model_type: Hugging Face's name of it.
    """

    model_type: ClassVar[str]
    hyperparameters: RotaryHyperparameters
    decoder: RotaryDecoder

    def build_feed_forward(self, name: str, sizes: Sizes) -> FeedForward:
        """Returns the feed-forward layer of a block of some name: by default SwiGLU."""
        return SwiGLU(sizes, self.new_random(), name=f"{name}_feed_forward")

    def _block(self, number: int) -> Block:
        hyperparameters, new, name = self.hyperparameters, self.new_random, f"block{number}"
        sizes = Sizes(
            hyperparameters.width,
            hyperparameters.heads,
            hyperparameters.kv_heads,
            hyperparameters.hidden_units,
            hyperparameters.context,
            hyperparameters.rope_base,
            STDDEV / math.sqrt(2 * hyperparameters.layers),
        )
        attention = Attention(sizes, new(), name=f"{name}_attention")
        feed_forward = self.build_feed_forward(name, sizes)
        dropouts = [
            Dropout(hyperparameters.dropout, new().new_noise(), name=f"{name}_dropout{i}")
            for i in (1, 2)
        ]
        return Block(
            RMSNorm(sizes.width, name=f"{name}_norm1"),
            attention,
            dropouts[0],
            keras.layers.Add(name=f"{name}_sum1"),
            RMSNorm(sizes.width, name=f"{name}_norm2"),
            feed_forward,
            dropouts[1],
            keras.layers.Add(name=f"{name}_sum2"),
        )

    def build_decoder(self, words: int) -> RotaryDecoder:
        """Returns the network.

        Args:
            words: rows of the embedding.
        """
        hyperparameters, new = self.hyperparameters, self.new_random
        width = hyperparameters.width
        return RotaryDecoder(
            Embedding(words, width, new(), name="embedding"),
            [self._block(number) for number in range(1, hyperparameters.layers + 1)],
            RMSNorm(width, name="norm"),
            Logits(words, width, hyperparameters.context, new(), name="logits"),
        )

    def published_settings(self) -> dict[str, object]:
        """Returns what Hugging Face's configuration says of a network that is this one."""
        return {
            "model_type": self.model_type,
            "num_hidden_layers": self.hyperparameters.layers,
            "num_attention_heads": self.hyperparameters.heads,
            "num_key_value_heads": self.hyperparameters.kv_heads,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "rms_norm_eps": EPSILON,
            "rope_theta": self.hyperparameters.rope_base,
            "rope_type": "default",  # Llama 3.1 lengthens the waves
            "rope_scaling": None,
        }
