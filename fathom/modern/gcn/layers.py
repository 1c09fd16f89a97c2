"""The layers of the graph convolutional network: products with constant sparse matrices."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf
from typing_extensions import Self

from fathom.core.layers import Layer, PRNGKey, drop
from fathom.system import private

_LONGEST = 16  # values of a piece: best on three instruction sets (docs/performance.md)


@keras.saving.register_keras_serializable("fathom.modern.gcn.layers")
class SparseMatrix:
    """A constant sparse matrix as the kernels take it: memory in proportion to its non-zeros.

    Args:
        matrix: float32 [rows, columns].
    """

    def __init__(self, matrix: scipy.sparse.csr_array) -> None:
        matrix = matrix.sorted_indices()
        entries = matrix.tocoo()
        self.shape, self.count = matrix.shape, matrix.nnz
        self.values = tf.constant(entries.data)
        self._indices = tf.constant(np.stack([entries.row, entries.col], 1).astype(np.int64))
        self._padded = PaddedRows(matrix)

    def get_config(self) -> dict[str, Any]:
        """Returns the entries as JSON has them."""
        rows, columns = self._indices.numpy().T.tolist()
        entries = {"rows": rows, "columns": columns, "values": self.values.numpy().tolist()}
        return {"shape": list(self.shape), **entries}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the same matrix."""
        places = (config["rows"], config["columns"])
        values = np.array(config["values"], np.float32)
        matrix = scipy.sparse.csr_array((values, places), shape=tuple(config["shape"]))
        return cls(matrix)

    def product(self, dense: tf.Tensor, values: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the product with a matrix.

        Args:
            dense: [columns, n].
            values: the non-zeros, in place of ``self.values``: [count].
        """
        if private.traces_for_xla():  # it has no sparse product
            return self._padded.product(dense, values)
        values = tf.cast(self.values if values is None else values, dense.dtype)
        return tf.sparse.sparse_dense_matmul(
            tf.SparseTensor(self._indices, values, self.shape), dense
        )


class PaddedRows:
    """A sparse matrix for XLA: pieces of its rows, padded to the longest of those half as long.

    XLA makes one loop of gathering, multiplying and adding the values of such pieces, without
    intermediate results in memory (docs/performance.md). Rows of several pieces are products of
    their sums with ones.

    Args:
        matrix: float32 [rows, columns], sorted.
    """

    def __init__(self, matrix: scipy.sparse.csr_array) -> None:
        columns, values = np.append(matrix.indices, 0), np.append(matrix.data, np.float32(0))
        pieces = np.maximum(1, -(-np.diff(matrix.indptr) // _LONGEST))  # of each row
        first = np.append(0, np.cumsum(pieces))
        number = np.arange(first[-1]) - np.repeat(first[:-1], pieces)
        begin = np.repeat(matrix.indptr[:-1], pieces) + number * _LONGEST
        counts = np.minimum(np.repeat(matrix.indptr[1:], pieces) - begin, _LONGEST)
        _, sizes = np.frexp(np.maximum(counts, 1) - 1)  # logarithms, rounded up
        self._parts, order = [], []
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            each = np.arange(max(counts[which].max(), 1))
            places = np.where(each < counts[which, None], begin[which, None] + each, matrix.nnz)
            part = (columns[places].astype(np.int32), places.astype(np.int32), values[places])
            self._parts.append([tf.constant(array) for array in part])
            order.append(which)
        self._order = tf.constant(np.argsort(np.concatenate(order)).astype(np.int32))
        self._rows = None
        if pieces.max() > 1:
            ones = (np.ones(first[-1], np.float32), np.arange(first[-1]), first)
            self._rows = PaddedRows(scipy.sparse.csr_array(ones))

    def product(self, dense: tf.Tensor, values: tf.Tensor | None) -> tf.Tensor:
        """Returns the product, as of ``SparseMatrix``."""
        padded = None if values is None else tf.pad(values, [[0, 1]])
        sums = []
        for columns, places, own in self._parts:
            factors = own if padded is None else tf.gather(padded, places)
            factors = tf.cast(factors, dense.dtype)[:, :, None]
            sums.append(tf.reduce_sum(factors * tf.gather(dense, columns), axis=1))
        found = tf.gather(tf.concat(sums, 0), self._order)
        return self._rows.product(found, None) if self._rows else found


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
        self._features, self._rate, self._noise = features, rate, noise
        self.kernel = self.add_weight(
            shape=(features.shape[1], units), initializer=initializer, name="kernel"
        )
        self.macs = features.count * units // features.shape[0]  # per node

    def call(self, nodes: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns X W, [nodes of the graph, units], whichever nodes are asked for."""
        kernel = tf.convert_to_tensor(self.kernel)
        if not (training and self._rate):
            return self._features.product(kernel)
        values = drop(self._features.values, self._rate, self._noise)
        return self._features.product(kernel, values)


class Propagation(Layer):
    """A' x: each node's sum over itself and its neighbours.

    Args:
        adjacency: A', [nodes, nodes].
        units: columns of x.
    """

    def __init__(self, adjacency: SparseMatrix, units: int, **options: Any) -> None:
        super().__init__(**options)
        self._adjacency = adjacency
        self.macs = adjacency.count * units // adjacency.shape[0]  # per node

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns A' x, [nodes, units]."""
        return self._adjacency.product(x)


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
