"""Translation word by word, with a cache of keys and values."""

import math
from collections.abc import Sequence

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import LayerOptions
from fathom.modern.transformer.embedding import Embedding
from fathom.modern.transformer.layers import DecoderLayer, Sizes
from fathom.shared.attention import Cache
from fathom.shared.translation.decoding import FreeDecoder

State = tuple[tf.Tensor, Sequence[Cache]]  # position, int32 [n]; each layer's keys and values


class Search(FreeDecoder):
    """Feeds the decoder its own words: beam search, or greedily (section 6.1).

    Args:
        embedding: of the network, with the softmax.
        decoder: its layers.
        sizes: their sizes.
        beam_size: hypotheses per sentence; 1: greedy.
        length_penalty: exponent of the beam search's length penalty.
    """

    def __init__(
        self,
        embedding: Embedding,
        decoder: list[DecoderLayer],
        sizes: Sizes,
        beam_size: int,
        length_penalty: float,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(beam_size, length_penalty, **options)
        self._decoder, self._sizes = list(decoder), Sizes(*sizes)
        # Not tracked by Keras: its weights are not this layer's.
        object.__setattr__(self, "_embedding", embedding)

    @property
    def called_layers(self) -> list[DecoderLayer]:
        """The decoder's layers, which are not in the graph of a network that decodes freely."""
        return list(self._decoder)

    def build(self, *shapes: tuple) -> None:
        """Creates the decoder's weights."""
        for layer in self._decoder:
            if not layer.built:
                layer.build()

    def compute_output_spec(
        self, encoded: keras.KerasTensor, mask: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Returns the shape that ``call`` returns."""
        return keras.KerasTensor((encoded.shape[0], None), "int32")

    def call(self, encoded: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns translations int32 [batch, longest], padded after ``<eos>``.

        Args:
            encoded: the encoder's output, [batch, source, width].
            mask: hides the source's padding, bool [batch, 1, 1, source].
        """
        longest = longest_translation(encoded.shape[1])
        state, source = self.start(encoded, self._beam_size)

        def step(words: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            return self.step(words, state, source, mask)

        return self.search(step, state, longest)

    def alignment(self, encoded: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the attention to the source while given words are read.

        Args:
            encoded: as in ``call``.
            mask: as in ``call``.
            target: int32 [batch, target], ``<go>`` first.

        Returns:
            the mean of all layers' heads, [batch, target, source].
        """
        x, found = self._embedding(target), []
        for layer in self._decoder:
            found.append(layer.alignment(x, encoded, mask))
            x = layer(x, encoded, mask)
        return tf.add_n(found) / len(found)

    def cache_values(self, source: int) -> int:
        """Returns the values kept for a sentence of so many words: keys and values.

        Those of the source, and those of each hypothesis, with room for the longest translation.
        """
        words = source + self._beam_size * longest_translation(source)
        return 2 * len(self._decoder) * self._sizes.width * words

    def start(self, encoded: tf.Tensor, hypotheses: int = 1) -> tuple[State, list[Cache]]:
        """Returns the state before the first word, and each layer's keys and values of the source.

        Args:
            encoded: as in ``call``.
            hypotheses: of each sentence.
        """
        width, heads = self._sizes.width, self._sizes.heads
        longest, count = longest_translation(encoded.shape[1]), tf.shape(encoded)[0] * hypotheses
        empty = tf.zeros([count, heads, longest, width // heads], self.compute_dtype)
        state = tf.zeros([count], tf.int32), [(empty, empty) for _ in self._decoder]
        return state, [layer.source_attention.keys_and_values(encoded) for layer in self._decoder]

    def step(
        self, words: tf.Tensor, state: State, source: Sequence[Cache], mask: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """Takes one step of the search.

        Args:
            words: int32 [hypotheses], the last words, at first ``<go>``.
            state: that of the last step, at first of ``start``.
            source: of ``start``.
            mask: as in ``call``.

        Returns:
            the next words' logits, float32 [hypotheses, vocabulary], and the next state.
        """
        positions, caches = state
        x, kept = self._embedding(words[:, None], position=positions[0]), []
        for layer, cache, of_source in zip(self._decoder, caches, source, strict=True):
            x, cache = layer(x, of_source, mask, cache=cache, position=positions[0])
            kept.append(cache)
        return self._embedding.logits_to_say(x[:, 0]), (positions + 1, kept)

    def macs_of(self, source: int, steps: int) -> int:
        """Returns the multiply-accumulates of the translation of a sentence in so many steps."""
        longest, hypotheses = longest_translation(source), self._beam_size
        layers = sum(
            layer.decoding_macs(source, steps, longest, hypotheses) for layer in self._decoder
        )
        return layers + hypotheses * steps * math.prod(self._embedding.matrix.shape)


def longest_translation(source: int) -> int:
    """Returns the largest number of words in the translation of a source with its padding."""
    return 2 * source
