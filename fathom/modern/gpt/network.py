"""The network: a stack of blocks, for whole sequences and for one token after another."""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from fathom.layers import Dropout, PRNGKey
from fathom.modern.gpt.generation import Choice, Decoding
from fathom.modern.gpt.hyperparameters import GPTHyperparameters
from fathom.modern.gpt.layers import (
    STDDEV,
    Attention,
    Cache,
    Embedding,
    LayerNormalization,
    Logits,
    Perceptron,
)


class Block:
    """x + attention(norm(x)), then x + perceptron(norm(x)) (Radford et al. 2019, section 2.3).

    Args:
        number: of the block, from 1.
        chosen: the network's size.
        new_seed: returns a seed for each variable.
        new_noise: returns the PRNG key of each dropout.
    """

    def __init__(
        self,
        number: int,
        chosen: GPTHyperparameters,
        new_seed: Callable[[], int],
        new_noise: Callable[[], PRNGKey],
    ) -> None:
        name, width, time = f"block{number}", chosen.width, chosen.context
        residual = STDDEV / math.sqrt(2 * chosen.layers)
        self.norm1 = LayerNormalization(width, name=f"{name}_norm1")
        self.attention = Attention(
            width,
            chosen.heads,
            time,
            chosen.dropout,
            residual,
            new_seed,
            new_noise(),
            name=f"{name}_attention",
        )
        self.dropout1 = Dropout(chosen.dropout, new_noise(), name=f"{name}_dropout1")
        self.norm2 = LayerNormalization(width, name=f"{name}_norm2")
        self.perceptron = Perceptron(width, time, residual, new_seed, name=f"{name}_mlp")
        self.dropout2 = Dropout(chosen.dropout, new_noise(), name=f"{name}_dropout2")

    def __call__(
        self, x: tf.Tensor, cache: Cache | None = None, position: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Cache]:
        """Returns the next [batch, time, width], and keys and values as ``Attention`` does."""
        y, keys, values = self.attention(self.norm1(x), cache=cache, position=position)
        x = x + self.dropout1(y)
        return x + self.dropout2(self.perceptron(self.norm2(x))), (keys, values)


class Network:
    """Embedding, blocks, and the logits of the next token.

    Args:
        chosen: its size.
        words: rows of the embedding.
        new_seed: returns a seed for each variable.
        new_noise: returns the PRNG key of each dropout.
    """

    def __init__(
        self,
        chosen: GPTHyperparameters,
        words: int,
        new_seed: Callable[[], int],
        new_noise: Callable[[], PRNGKey],
    ) -> None:
        self._chosen = chosen
        self.embedding = Embedding(words, chosen.context, chosen.width, new_seed, name="embedding")
        self.dropout = Dropout(chosen.dropout, new_noise(), name="embedding_dropout")
        self.blocks = [
            Block(number, chosen, new_seed, new_noise) for number in range(1, chosen.layers + 1)
        ]
        self.norm = LayerNormalization(chosen.width, name="norm")
        table = self.embedding.table
        self.logits = Logits(lambda: table, chosen.context, name="logits")

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

    def phases(self, prompts: keras.KerasTensor, noise: PRNGKey) -> tuple[keras.Model, Decoding]:
        """Builds what reads prompts, and what decodes the tokens after them.

        The first returns the first token after each prompt, int32 [batch], and the blocks' keys and
        values with room for the new tokens; the second takes these.

        Args:
            prompts: int32 [batch, prompt].
            noise: PRNG key of the choice of tokens.
        """
        chosen = self._chosen
        choice = Choice(chosen.temperature, chosen.top_k, noise, name="choice")
        x, caches = self(prompts)
        first = choice(self.logits(x[:, -1:])[:, 0], position=chosen.prompt_tokens)
        room = ((0, 0), (0, 0), (0, chosen.new_tokens - 1), (0, 0))
        padded = [keras.ops.pad(each, room) for each in keras.tree.flatten(caches)]
        decoding = Decoding(
            self.decode_token, choice, chosen.prompt_tokens, chosen.new_tokens, name="decode"
        )
        return keras.Model(prompts, [first, *padded], name="prefill"), decoding

    def decode_token(
        self, tokens: tf.Tensor, caches: list[Cache], position: tf.Tensor
    ) -> tuple[tf.Tensor, list[Cache]]:
        """Returns the logits after tokens [batch] at a position, and the caches with them."""
        x, caches = self(tokens[:, None], caches, position)
        return self.logits(x)[:, 0], caches

    def macs_of(self, layer: keras.layers.Layer) -> int:
        """Returns a layer's multiply-accumulates for a prompt and the tokens after it.

        Those of the phases that run; all places of the cache are attended to, filled or not.
        """
        chosen = self._chosen
        prompt = chosen.prompt_tokens if chosen.phase != "decode" else 0
        decoded = chosen.new_tokens - 1 if chosen.phase != "prefill" else 0
        if isinstance(layer, Attention):
            places = chosen.prompt_tokens + chosen.new_tokens - 1
            return layer.macs_of(prompt, prompt) + layer.macs_of(decoded, places)
        if isinstance(layer, Perceptron):
            return layer.macs_of(prompt + decoded)
        return layer.macs_of(bool(prompt) + decoded) if isinstance(layer, Logits) else 0
