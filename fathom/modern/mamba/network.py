"""The network of Mamba: blocks of a normalization and a mixer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from fathom.core.layers import Dropout
from fathom.modern.mamba.layers import Mixer
from fathom.shared.attention import Cache
from fathom.shared.language.decoder import Decoder, Parts
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
