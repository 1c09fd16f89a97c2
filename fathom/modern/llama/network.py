"""The network of Llama, a decoder."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Dropout, Random
from fathom.model.decoder import LayerCache
from fathom.modern.llama.hyperparameters import LlamaHyperparameters
from fathom.modern.llama.layers import Attention, Embedding, FeedForward, Logits, RMSNorm
from fathom.shared.attention import Cache
from fathom.shared.language.decoder import Decoder, Parts
from fathom.shared.language.layers import STDDEV
from fathom.shared.language.weights import Published


@keras.saving.register_keras_serializable("fathom.modern.llama.network")
@dataclass(frozen=True)
class Block(Parts):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) (Touvron et al. 2023)."""

    norm1: RMSNorm
    attention: Attention
    dropout1: Dropout
    sum1: keras.layers.Add
    norm2: RMSNorm
    feed_forward: FeedForward
    dropout2: Dropout
    sum2: keras.layers.Add

    @classmethod
    def of(
        cls, number: int, hyperparameters: LlamaHyperparameters, new_random: Callable[[], Random]
    ) -> Self:
        """Returns a new block.

        Args:
            number: of the block, from 1.
            hyperparameters: the network's size.
            new_random: returns the random numbers of each layer.
        """
        name, width, time = f"block{number}", hyperparameters.width, hyperparameters.context
        residual = STDDEV / math.sqrt(2 * hyperparameters.layers)
        attention = Attention(
            width,
            hyperparameters.heads,
            hyperparameters.kv_heads,
            time,
            hyperparameters.rope_base,
            residual,
            new_random(),
            name=f"{name}_attention",
        )
        feed_forward = FeedForward(
            width,
            hyperparameters.hidden_units,
            time,
            residual,
            new_random(),
            name=f"{name}_feed_forward",
        )
        dropouts = [
            Dropout(hyperparameters.dropout, new_random().new_noise(), name=f"{name}_dropout{i}")
            for i in (1, 2)
        ]
        return cls(
            RMSNorm(width, name=f"{name}_norm1"),
            attention,
            dropouts[0],
            keras.layers.Add(name=f"{name}_sum1"),
            RMSNorm(width, name=f"{name}_norm2"),
            feed_forward,
            dropouts[1],
            keras.layers.Add(name=f"{name}_sum2"),
        )

    def __call__(
        self,
        x: tf.Tensor,
        cache: Cache | LayerCache | None = None,
        position: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Cache]:
        """Returns the next [batch, time, width], and keys and values; as ``decoder.Block``."""
        y, keys, values = self.attention(self.norm1(x), cache=cache, position=position)
        x = self.sum1([x, self.dropout1(y)])
        y = self.dropout2(self.feed_forward(self.norm2(x)))
        return self.sum2([x, y]), (keys, values)

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in the files of ``LlamaForCausalLM``."""
        attention, feed_forward = self.attention, self.feed_forward

        def matrix(variable: keras.Variable, *names: str) -> Published:
            names = tuple(f"{prefix}.{name}_proj.weight" for name in names)
            return Published(variable, names, transposed=True)

        return [
            Published(self.norm1.scale, (f"{prefix}.input_layernorm.weight",)),
            matrix(attention.kernel, *(f"self_attn.{name}" for name in "qkv")),
            matrix(attention.projection, "self_attn.o"),
            Published(self.norm2.scale, (f"{prefix}.post_attention_layernorm.weight",)),
            matrix(feed_forward.kernel, "mlp.gate", "mlp.up"),
            matrix(feed_forward.projection, "mlp.down"),
        ]


@keras.saving.register_keras_serializable("fathom.modern.llama.network")
@dataclass(frozen=True)
class Network(Decoder):
    """Llama: rotary positions are part of the attention, and the output matrix is its own."""

    embedding: Embedding
    blocks: list[Block]
    norm: RMSNorm
    logits: Logits

    @classmethod
    def of(
        cls, hyperparameters: LlamaHyperparameters, words: int, new_random: Callable[[], Random]
    ) -> Self:
        """Returns a new network.

        Args:
            hyperparameters: its size.
            words: rows of the embedding.
            new_random: returns the random numbers of each layer.
        """
        width, time = hyperparameters.width, hyperparameters.context
        return cls(
            Embedding(words, width, new_random(), name="embedding"),
            [
                Block.of(number, hyperparameters, new_random)
                for number in range(1, hyperparameters.layers + 1)
            ],
            RMSNorm(width, name="norm"),
            Logits(words, width, time, new_random(), name="logits"),
        )

    def published(self) -> list[Published]:
        """Returns what its weights are in the files of ``LlamaForCausalLM``."""
        weights = [
            Published(self.embedding.table, ("model.embed_tokens.weight",)),
            Published(self.norm.scale, ("model.norm.weight",)),
            Published(self.logits.kernel, ("lm_head.weight",), transposed=True),
        ]
        for i, block in enumerate(self.blocks):
            weights += block.published(f"model.layers.{i}")
        return weights
