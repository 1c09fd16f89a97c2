"""The network of Mamba: blocks of a normalization and a mixer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Dropout, Random
from fathom.modern.mamba.hyperparameters import MambaHyperparameters
from fathom.modern.mamba.layers import EXPANSION, Mixer
from fathom.shared.attention import Cache
from fathom.shared.language.decoder import Decoder, Parts
from fathom.shared.language.layers import TiedLogits
from fathom.shared.language.rotary import Embedding, RMSNorm
from fathom.shared.language.weights import Published


@keras.saving.register_keras_serializable("fathom.modern.mamba.network")
@dataclass(frozen=True)
class Block(Parts):
    """x + mixer(norm(x)), with dropout before the sum."""

    norm: RMSNorm
    mixer: Mixer
    dropout: Dropout
    sum: keras.layers.Add

    def __call__(
        self, x: tf.Tensor, cache: Cache | None = None, position: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Cache]:
        """Returns the next [batch, time, width], and the cache after these tokens.

        Args:
            x: [batch, time, width].
            cache: of the tokens before, as ``Mixer.call``.
            position: of the first token; the block has no use for it.
        """
        y, states, inputs = self.mixer(self.norm(x), cache=cache)
        return self.sum([x, self.dropout(y)]), (states, inputs)


@keras.saving.register_keras_serializable("fathom.modern.mamba.network")
@dataclass(frozen=True)
class Network(Decoder):
    """Mamba: what it keeps of the tokens before has the same size after any number of them."""

    kept: ClassVar[tuple[str, str]] = ("states", "inputs")

    embedding: Embedding
    blocks: list[Block]
    norm: RMSNorm

    @classmethod
    def of(
        cls,
        hyperparameters: MambaHyperparameters,
        words: int,
        chunks: int,
        new_random: Callable[[], Random],
    ) -> Self:
        """Returns a new network.

        Args:
            hyperparameters: its size.
            words: rows of the embedding.
            chunks: of a sequence that are scanned side by side.
            new_random: returns the random numbers of each layer.
        """
        width, layers, time = hyperparameters.width, hyperparameters.layers, hyperparameters.context
        embedding = Embedding(words, width, new_random(), name="embedding")
        limit = (EXPANSION * width * layers) ** -0.5
        blocks = []
        for name in (f"block{number}" for number in range(1, layers + 1)):
            mixer = Mixer(width, time, limit, chunks, new_random(), name=f"{name}_mixer")
            noise = new_random().new_noise()
            dropout = Dropout(hyperparameters.dropout, noise, name=f"{name}_dropout")
            norm = RMSNorm(width, name=f"{name}_norm")
            blocks.append(Block(norm, mixer, dropout, keras.layers.Add(name=f"{name}_sum")))
        logits = TiedLogits(embedding, time, name="logits")
        return cls(embedding, blocks, RMSNorm(width, name="norm"), logits)

    def with_room(self, caches: Sequence[Cache], tokens: int) -> list[Cache]:
        """Returns the caches: further tokens take no room."""
        return list(caches)

    def published(self) -> list[Published]:
        """Returns what its weights are in the files of ``MambaForCausalLM``."""
        weights = [
            Published(self.embedding.table, ("backbone.embeddings.weight",)),
            Published(self.norm.scale, ("backbone.norm_f.weight",)),
        ]
        for i, block in enumerate(self.blocks):
            prefix = f"backbone.layers.{i}"
            weights.append(Published(block.norm.scale, (f"{prefix}.norm.weight",)))
            weights += block.mixer.published(f"{prefix}.mixer")
        return weights
