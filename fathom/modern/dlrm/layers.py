"""The layers of the recommendation model: look-ups in tables, and the products of all pairs."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom.core.layers import Layer


class EmbeddingTables(Layer):
    """The rows of several tables of one size, which lie one after another in one variable.

    One look-up reads all tables. Its gradient is sparse: an update touches only the rows that were
    read. Initial values are uniform within 1 / sqrt(rows).
    """

    def __init__(self, tables: int, rows: int, columns: int, seed: int, **options: Any) -> None:
        super().__init__(**options)
        limit = rows**-0.5
        self.tables = self.add_weight(
            shape=(tables * rows, columns),
            initializer=keras.initializers.RandomUniform(-limit, limit, seed=seed),
            name="tables",
        )
        self._first_rows = np.arange(tables) * rows

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        """Looks up rows int32 [batch, tables]; returns [batch, tables, columns]."""
        places = rows + tf.constant(self._first_rows, rows.dtype)
        return tf.cast(tf.gather(self.tables.value, places), self.compute_dtype)


class Interaction(Layer):
    """The dot products of all pairs of vectors (section 2.5)."""

    def build(self, shape: tuple[int, ...]) -> None:
        """Takes the number and length of the vectors: [batch, vectors, columns]."""
        _, vectors, columns = shape
        first, second = np.tril_indices(vectors, -1)
        self._pairs = first * vectors + second
        self.macs = vectors * vectors * columns  # all products, of which less than half are used

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the products of each pair of [batch, vectors, columns]: [batch, pairs]."""
        products = tf.matmul(x, x, transpose_b=True)
        flat = tf.reshape(products, [-1, x.shape[1] * x.shape[1]])
        return tf.gather(flat, self._pairs, axis=1)
