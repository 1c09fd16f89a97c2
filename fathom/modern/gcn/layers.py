"""The layers of the graph convolutional network: products with constant sparse matrices."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Layer, PRNGKey
from fathom.core.training.randomness import uniform


@keras.saving.register_keras_serializable("fathom.modern.gcn.layers")
class SparseMatrix:
    """A constant sparse matrix as the kernels take it: memory in proportion to its non-zeros.

    Args:
        matrix: float32 [rows, columns].
        compiled: XLA, which has no sparse product, compiles the layers.
    """

    def __init__(self, matrix: scipy.sparse.csr_array, compiled: bool) -> None:
        entries = matrix.sorted_indices().tocoo()
        self.shape, self.count = matrix.shape, matrix.nnz
        self.values = tf.constant(entries.data)
        self._compiled = compiled
        self._indices = tf.constant(np.stack([entries.row, entries.col], 1).astype(np.int64))

    def get_config(self) -> dict[str, Any]:
        """Returns the entries as JSON has them."""
        rows, columns = self._indices.numpy().T.tolist()
        entries = {"rows": rows, "columns": columns, "values": self.values.numpy().tolist()}
        return {"shape": list(self.shape), "compiled": self._compiled, **entries}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the same matrix."""
        places = (config["rows"], config["columns"])
        values = np.array(config["values"], np.float32)
        matrix = scipy.sparse.csr_array((values, places), shape=tuple(config["shape"]))
        return cls(matrix, config["compiled"])

    def product(self, values: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """Returns the product with a matrix.

        Args:
            values: the non-zeros, in place of ``self.values``: [count].
            dense: [columns, n], of the same dtype.
        """
        if not self._compiled:
            matrix = tf.SparseTensor(self._indices, values, self.shape)
            return tf.sparse.sparse_dense_matmul(matrix, dense)
        rows, columns = tf.unstack(self._indices, axis=1)
        return tf.math.unsorted_segment_sum(
            tf.gather(dense, columns) * values[:, None], rows, self.shape[0]
        )


class FeatureProduct(Layer):
    """X W for the sparse features X of all nodes, with dropout of their non-zero values.

    Args:
        features: X, [nodes, features].
        units: columns of W.
        rate: probability that a value is set to zero in training.
        noise: PRNG key of the dropped values.
        initializer: of W.
    """

    def __init__(
        self,
        features: SparseMatrix,
        units: int,
        rate: float,
        noise: PRNGKey,
        initializer: keras.initializers.Initializer,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._features, self._units, self._rate = features, units, rate
        self._noise, self._initializer = noise, initializer
        self.kernel = self.add_weight(
            shape=(features.shape[1], units), initializer=initializer, name="kernel"
        )
        self.macs = features.count * units // features.shape[0]  # per node

    def call(self, nodes: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns X W, [nodes of the graph, units], whichever nodes are asked for."""
        kernel = tf.convert_to_tensor(self.kernel)
        values = self._features.values
        if training and self._rate:
            kept = uniform(tf.shape(values), self._noise.tensor()) >= self._rate
            values = tf.where(kept, values / (1 - self._rate), 0)
        return self._features.product(tf.cast(values, kernel.dtype), kernel)


class Propagation(Layer):
    """A' x: each node's sum over itself and its neighbours.

    Args:
        adjacency: A', [nodes, nodes].
        units: columns of x.
    """

    def __init__(self, adjacency: SparseMatrix, units: int, **options: Any) -> None:
        super().__init__(**options)
        self._adjacency, self._units = adjacency, units
        self.macs = adjacency.count * units // adjacency.shape[0]  # per node

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns A' x, [nodes, units]."""
        return self._adjacency.product(tf.cast(self._adjacency.values, x.dtype), x)


def normalized_adjacency(edges: np.ndarray, nodes: int) -> scipy.sparse.csr_array:
    """Returns A' = D^-1/2 (A + I) D^-1/2 of undirected edges [edges, 2] (section 2)."""
    ones = np.ones(len(edges), np.float32)
    upper = scipy.sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    adjacency = upper + upper.T + scipy.sparse.eye_array(nodes, dtype=np.float32)
    scale = scipy.sparse.diags_array(1 / np.sqrt(adjacency.sum(axis=1)))
    return scipy.sparse.csr_array(scale @ adjacency @ scale)


def normalized_rows(features: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Returns the features with rows that sum to 1; rows of zeros stay so (section 5.2)."""
    sums = features.sum(axis=1)
    scale = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ features)
