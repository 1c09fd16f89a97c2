"""A cache of keys and values in blocks, which sequences of different lengths share.

Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with
PagedAttention": a sequence has a table of blocks, wherever these lie, so that no memory is kept for
lengths that it does not have. Here a step gathers the blocks of its sequences into one tensor.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fathom.model.decoder import TokenDecoder
from fathom.shared.attention import Cache

BLOCK = 16  # tokens, as vLLM's
_SCRAP = 0  # the block that takes what is computed for padding


class BlockPool:
    """All blocks, and which of them are free.

    Attributes:
        blocks: their number.
        free: those that no sequence has.
    """

    def __init__(self, decoder: TokenDecoder, blocks: int) -> None:
        self.blocks = blocks
        self.free = list(range(1, blocks + 1))
        self._heads = decoder.heads
        # A head of a block is a row, so that a gather of rows gives what attention multiplies.
        shape = ((blocks + 1) * decoder.heads, BLOCK, decoder.size)
        self._variables = [
            tuple(tf.Variable(tf.zeros(shape, decoder.dtype), trainable=False) for _ in range(2))
            for _ in range(decoder.layers)
        ]

    def take(self, tokens: int) -> np.ndarray | None:
        """Returns blocks for a sequence of so many tokens; None: too few are free."""
        count = blocks_of(tokens)
        if count > len(self.free):
            return None
        return np.array([self.free.pop() for _ in range(count)], np.int32)

    def give_back(self, table: np.ndarray) -> None:
        """Frees the blocks of a sequence."""
        self.free += table.tolist()

    def gather(self, tables: tf.Tensor) -> list[Cache]:
        """Returns each layer's keys and values, [batch, heads, blocks * BLOCK, d].

        Args:
            tables: int32 [batch, blocks], with a static shape.
        """
        rows = tables[:, None, :] * self._heads + tf.range(self._heads)[:, None]
        batch, blocks = tables.shape
        shape = [batch, self._heads, blocks * BLOCK, -1]
        # Sparse reads: plain ones would copy the whole pool, now or at the next update.
        return [
            tuple(tf.reshape(variable.sparse_read(rows), shape) for variable in pair)
            for pair in self._variables
        ]

    def scatter(
        self, new: Sequence[Cache], tables: tf.Tensor, positions: tf.Tensor, counts: tf.Tensor
    ) -> None:
        """Writes the layers' keys and values of new tokens, [batch, heads, time, d].

        Args:
            new: as ``gather`` returns them.
            tables: int32 [batch, blocks].
            positions: int32 [batch], of the first new token of each sequence.
            counts: int32 [batch]: as many are not padding.
        """
        time = new[0][0].shape[2]
        places = positions[:, None] + tf.range(time)
        last = tables.shape[1] - 1
        blocks = tf.gather(tables, tf.minimum(places // BLOCK, last), batch_dims=1)
        blocks = tf.where(tf.range(time) < counts[:, None], blocks, _SCRAP)
        rows = blocks[:, None] * self._heads + tf.range(self._heads)[:, None]
        offsets = tf.broadcast_to(places[:, None] % BLOCK, rows.shape)
        indices = tf.stack([rows, offsets], -1)
        for variables, tensors in zip(self._variables, new, strict=True):
            for variable, tensor in zip(variables, tensors, strict=True):
                variable.scatter_nd_update(indices, tensor)


class GatheredLayer:
    """A layer's ``LayerCache`` of gathered blocks; it notes what is new.

    Args:
        keys, values: [batch, heads, length, d].

    Attributes:
        new: the keys and values of the new tokens, once the layer has run.
    """

    def __init__(self, keys: tf.Tensor, values: tf.Tensor) -> None:
        self._cached = keys, values
        self.new: Cache | None = None

    def extend(
        self, keys: tf.Tensor, values: tf.Tensor, positions: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the old keys and values with the new ones behind them, and the mask."""
        self.new = keys, values
        batch, _, time, _ = keys.shape
        length = self._cached[0].shape[2]
        old = tf.broadcast_to(tf.range(length) < positions[:, None, None], [batch, time, length])
        order = tf.range(time) <= tf.range(time)[:, None]
        mask = tf.concat([old, tf.broadcast_to(order, [batch, time, time])], 2)
        both = (tf.concat(pair, 2) for pair in zip(self._cached, (keys, values), strict=True))
        return *both, mask[:, None]


def blocks_of(tokens: int) -> int:
    """Returns the number of blocks that hold so many tokens."""
    return -(-tokens // BLOCK)


def padded(tables: Sequence[np.ndarray], rows: int, blocks: int) -> np.ndarray:
    """Returns the first blocks of some sequences, int32 [rows, blocks]."""
    table = np.full((rows, blocks), _SCRAP, np.int32)
    for row, each in zip(table, tables, strict=False):
        row[: len(each)] = each[:blocks]
    return table
