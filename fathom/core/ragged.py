"""Products of ragged groups of rows, each with a matrix of its own, and the way to other replicas.

The sizes of the groups are data: as in a mixture of experts, whose router decides. Of R rows with K
values and matrices [K, N], a product has R K N multiply-accumulates, however the rows are grouped.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from fathom.core.training import replicas
from fathom.system import private

_BLOCK = 64  # most rows of a product under XLA


def product(rows: tf.Tensor, sizes: tf.Tensor, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns each group's product with its matrix, [rows, N].

    XLA knows no sizes that are data: where it compiles, each group is multiplied in blocks of rows,
    the last of which is filled up with zeros, by a loop that ends with the group.

    Args:
        rows: [rows, K], those of the first group first; rows after the last group have zeros.
        sizes: int32 [groups], whose sum is at most the number of rows.
        matrices: one for each group, [K, N].
    """
    form = _Blocks if private.traces_for_xla() else _Parts

    # The description of a step knows each as one operation, by its name.
    def RaggedMatMul(rows: tf.Tensor, *matrices: tf.Tensor) -> tf.Tensor:  # noqa: N802
        return form(sizes, rows).products(rows, matrices, transposed=False)

    def RaggedMatMulInputGrad(upstream: tf.Tensor, *matrices: tf.Tensor) -> tf.Tensor:  # noqa: N802
        return form(sizes, upstream).products(upstream, matrices, transposed=True)

    def RaggedMatMulGrad(rows: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:  # noqa: N802
        return form(sizes, rows).gradients(rows, upstream)

    @tf.custom_gradient
    def multiplied(
        rows: tf.Tensor, *matrices: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            of_rows = _called(RaggedMatMulInputGrad, upstream, *matrices)
            return of_rows, *_called(RaggedMatMulGrad, rows, upstream)

        return _called(RaggedMatMul, rows, *matrices), gradient

    return multiplied(rows, *matrices)


def _called(function: Callable[..., tf.Tensor], *tensors: tf.Tensor) -> tf.Tensor:
    """Returns what a function returns; in a graph it is one operation, a call by its name."""
    if tf.executing_eagerly():
        return function(*tensors)
    return tf.function(function, autograph=False)(*tensors)


class _Parts:
    """Groups that are tensors, of sizes int32 [groups] that are known when the step runs."""

    def __init__(self, sizes: tf.Tensor, rows: tf.Tensor) -> None:
        self._groups = sizes.shape[0]
        self._rest = tf.shape(rows)[0] - tf.reduce_sum(sizes)
        self._sizes = tf.concat([sizes, [self._rest]], 0)

    def _parts(self, rows: tf.Tensor) -> list[tf.Tensor]:
        return tf.split(rows, self._sizes, num=self._groups + 1)[:-1]

    def products(
        self, rows: tf.Tensor, matrices: Sequence[tf.Tensor], transposed: bool
    ) -> tf.Tensor:
        """Returns the groups' products with matrices, or these transposed: [rows, N]."""
        found = [
            tf.matmul(part, matrix, transpose_b=transposed)
            for part, matrix in zip(self._parts(rows), matrices, strict=True)
        ]
        found.append(tf.zeros([self._rest, found[0].shape[1]], rows.dtype))
        return tf.ensure_shape(tf.concat(found, 0), [rows.shape[0], None])

    def gradients(self, rows: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:
        """Returns the gradients of the matrices, [K, N] each."""
        pairs = zip(self._parts(rows), self._parts(upstream), strict=True)
        return [tf.matmul(part, above, transpose_a=True) for part, above in pairs]


class _Blocks:
    """Groups that begin with blocks of equal size, as in MegaBlocks (Gale et al. 2022)."""

    def __init__(self, sizes: tf.Tensor, rows: tf.Tensor) -> None:
        groups, count = sizes.shape[0], rows.shape[0]
        self._size = max(1, min(_BLOCK, count // groups)) if count is not None else _BLOCK
        self._count = (tf.shape(rows)[0] if count is None else count) // self._size + groups
        blocks = -(-sizes // self._size)
        last_rows, self._ends = tf.cumsum(sizes), tf.cumsum(blocks)
        first_rows, begins = last_rows - sizes, self._ends - blocks
        # The place of each row in the blocks, and the row of each place.
        numbers = tf.range(tf.shape(rows)[0])
        group = _interval(numbers, last_rows)
        self._grouped = (numbers < last_rows[-1])[:, None]
        place = tf.gather(begins, group) * self._size + numbers - tf.gather(first_rows, group)
        self._places = tf.where(self._grouped[:, 0], place, 0)
        block = tf.range(self._count)
        self._groups = group = _interval(block, self._ends)
        first = tf.gather(first_rows, group) + (block - tf.gather(begins, group)) * self._size
        row = first[:, None] + tf.range(self._size)
        self._filled = (row < tf.gather(last_rows, group)[:, None])[:, :, None]
        self._rows = tf.where(self._filled[:, :, 0], row, 0)

    def _blocks(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns [blocks, size, columns]."""
        return tf.where(self._filled, tf.gather(rows, self._rows), tf.zeros([], rows.dtype))

    def products(
        self, rows: tf.Tensor, matrices: Sequence[tf.Tensor], transposed: bool
    ) -> tf.Tensor:
        """Returns the groups' products with matrices, or these transposed: [rows, N]."""
        # One loop for all groups: one for each takes XLA minutes to compile.
        blocks, stacked = self._blocks(rows), tf.stack(matrices)
        columns = matrices[0].shape[0 if transposed else 1]
        found = tf.TensorArray(rows.dtype, self._count, element_shape=[self._size, columns])

        def multiply(i: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            matrix = tf.gather(stacked, self._groups[i])
            return i + 1, found.write(i, tf.matmul(blocks[i], matrix, transpose_b=transposed))

        _, found = tf.while_loop(lambda i, _: i < self._ends[-1], multiply, (0, found))
        places = tf.gather(tf.reshape(found.stack(), [-1, columns]), self._places)
        return tf.where(self._grouped, places, tf.zeros([], rows.dtype))

    def gradients(self, rows: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:
        """Returns the gradients of the matrices, [K, N] each."""
        blocks, above = self._blocks(rows), self._blocks(upstream)

        def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            product = tf.matmul(blocks[i], above[i], transpose_a=True)
            return i + 1, tf.tensor_scatter_nd_add(
                total, self._groups[i][None, None], product[None]
            )

        zeros = tf.zeros([self._ends.shape[0], rows.shape[1], upstream.shape[1]], rows.dtype)
        _, total = tf.while_loop(lambda i, _: i < self._ends[-1], add, (0, zeros))
        return tf.unstack(total)


def _interval(numbers: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns which of consecutive intervals each number is in; the last, if it is in none."""
    before = tf.cast(numbers[:, None] >= ends, tf.int32)
    return tf.minimum(tf.reduce_sum(before, 1), ends.shape[0] - 1)


def permuted(x: tf.Tensor, order: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns rows [rows, N] in an order, int32 [rows]; the gradient gathers by its inverse."""

    @tf.custom_gradient
    def permuted(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(x, order), lambda upstream: tf.gather(upstream, places)

    return permuted(x)


class Exchange:
    """The way of groups of rows to the replicas that compute them, and back.

    Each replica computes as many groups, in their order.

    Args:
        rows: [rows, width], as of ``product``; those after the last group stay here.
        sizes: int32 [groups].

    Attributes:
        rows: [rows of all replicas for the groups of this one, width], in the groups' order.
        sizes: int32 [groups]: rows of each, none but of this replica's.
    """

    def __init__(self, rows: tf.Tensor, sizes: tf.Tensor) -> None:
        groups, self._count, self._kept = sizes.shape[0], tf.reduce_sum(sizes), tf.shape(rows)[0]
        counts = tf.reshape(sizes, [replicas.count(), -1])
        found, self._counts = replicas.exchange(rows[: self._count], counts)
        own = tf.reduce_sum(self._counts, 0)
        before = replicas.number() * own.shape[0]
        self.sizes = tf.pad(own, [[before, groups - before - own.shape[0]]])
        # They come by their replica, and of each by their group.
        of_rows = tf.repeat(
            tf.tile(tf.range(own.shape[0]), [replicas.count()]), tf.reshape(self._counts, [-1])
        )
        order = tf.argsort(of_rows, stable=True)
        self._order = order, tf.math.invert_permutation(order)
        self.rows = permuted(found, *self._order)

    def back(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns rows where those that were sent came from, [rows, N]; the others are zero."""
        order, places = self._order
        found, _ = replicas.exchange(permuted(rows, places, order), self._counts)
        return tf.pad(found, [[0, self._kept - self._count], [0, 0]])
