"""Embeddings, positions and the softmax (Vaswani et al. 2017, sections 3.4 and 3.5)."""

import math

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions
from fathom.shared.translation.symbols import GO, PAD


class Embedding(Layer):
    """One matrix for both embeddings and the softmax (section 3.4), and the positions (3.5).

    Args:
        vocabulary: rows of the matrix.
        width: its columns.
        seed: of the initial values, N(0, 1 / width).
    """

    def __init__(
        self, vocabulary: int, width: int, seed: int, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._vocabulary, self._width, self._seed = vocabulary, width, seed

    def build(self, shape: tuple | None = None) -> None:
        """Creates the matrix."""
        self.matrix = self.add_weight(
            shape=(self._vocabulary, self._width),
            initializer=keras.initializers.RandomNormal(0, self._width**-0.5, self._seed),
            name="matrix",
            autocast=False,  # positions are added to it in float32
        )

    def call(self, x: tf.Tensor, position: tf.Tensor | int = 0) -> tf.Tensor:
        """Returns words int32 [batch, time], the first of them at a position: [..., width]."""
        width = self.matrix.shape[1]
        words = tf.gather(self.matrix.value, x) * math.sqrt(width)
        places = sinusoids(tf.range(x.shape[1] or tf.shape(x)[1]) + position, width)
        return tf.cast(words + places, self.compute_dtype)

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the logits of all words for outputs [n, width]: float32 [n, vocabulary]."""
        products = tf.matmul(x, tf.cast(self.matrix.value, x.dtype), transpose_b=True)
        return tf.cast(products, tf.float32)

    def logits_to_say(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``logits`` by which neither padding nor ``<go>`` is ever chosen."""
        never = np.isin(np.arange(self._vocabulary), (PAD, GO))
        return self.logits(x) + tf.constant(np.where(never, -1e9, 0), tf.float32)


def sinusoids(positions: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the encoding of positions int32 [time]: float32 [time, width] (section 3.5)."""
    rates = 10_000.0 ** -(np.arange(0, width, 2) / width)
    angles = tf.cast(positions, tf.float32)[:, None] * tf.constant(rates, tf.float32)
    both = tf.stack([tf.sin(angles), tf.cos(angles)], 2)
    return tf.reshape(both, [-1, 2 * len(rates)])[:, :width]


class MostProbable(Layer):
    """The most probable word after each given one."""

    def __init__(self, embedding: Embedding, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        # Not tracked by Keras: its weights are not this layer's.
        object.__setattr__(self, "_embedding", embedding)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns int32 [batch, target] for the decoder's outputs [batch, target, width]."""
        logits = self._embedding.logits_to_say(tf.reshape(x, [-1, x.shape[2]]))
        return tf.reshape(tf.argmax(logits, 1, tf.int32), tf.shape(x)[:2])
