"""The multiresolution hash encoding: section 3 of Mueller et al. 2022."""

import itertools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom.core.layers import Layer

_PRIMES = np.array([1, 2_654_435_761, 805_459_861], np.uint32).view(np.int32)  # equation 4


def resolutions(levels: int, coarsest: int, finest: int) -> list[int]:
    """Returns N_l = floor(N_min b^l); of several, the last is N_max (equations 2 and 3)."""
    growth = (finest / coarsest) ** (1 / max(1, levels - 1))
    return [int(coarsest * growth**level + 1e-6) for level in range(levels)]  # 512, not 511.99


class HashEncoding(Layer):
    """Features of a position: learned at the corners of grids, and interpolated between them.

    The features of all levels lie one after another in one variable: one look-up reads all. A level
    whose corners do not fit into its table shares entries by a hash, whose collisions are not
    resolved. The gradient is sparse.

    Args:
        resolutions: cells along each axis, by level.
        entries: of a level's table at most; a power of two.
        features: of an entry.
        seed: of the initial values, uniform within 1e-4 (section 4).
    """

    def __init__(
        self, resolutions: list[int], entries: int, features: int, seed: int, **options: Any
    ) -> None:
        super().__init__(autocast=False, **options)  # positions need float32
        self._resolutions, self._entries = resolutions, entries
        self._features, self._seed = features, seed

    def build(self, shape: tuple[int, ...]) -> None:
        """Creates the tables for positions [batch, axes], of one to three axes."""
        corners = [(n + 1) ** shape[-1] for n in self._resolutions]
        self.dense_levels = sum(count <= self._entries for count in corners)
        self.sizes = [min(count, self._entries) for count in corners]
        self.table = self.add_weight(
            shape=(sum(self.sizes), self._features),
            initializer=keras.initializers.RandomUniform(-1e-4, 1e-4, self._seed),
            autocast=False,  # else the whole table is converted in each step
            name="table",
        )

    def call(self, positions: tf.Tensor) -> tf.Tensor:
        """Encodes float32 [batch, axes], each in [0, 1]; returns [batch, levels * features]."""
        rows, weights = self.corners(positions)
        found = tf.gather(self.table.value, rows)  # [corners, levels, batch, features]
        mixed = tf.reduce_sum(found * weights[..., None], 0)
        width = len(self._resolutions) * self._features
        encoded = tf.reshape(tf.transpose(mixed, [1, 0, 2]), [-1, width])
        return tf.cast(encoded, self.compute_dtype)

    def corners(self, positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows of the corners around positions, and their weights.

        Args:
            positions: float32 [batch, axes].

        Returns:
            int32 and float32, both [corners, levels, batch].
        """
        cells = tf.constant(self._resolutions, tf.float32)[:, None]
        scaled = tf.transpose(positions)[:, None] * cells  # [axes, levels, batch]
        low = tf.minimum(tf.floor(scaled), cells - 1)  # 1 is in the last cell
        part, low = scaled - low, tf.cast(low, tf.int32)
        rows, weights = [], []
        for corner in itertools.product((0, 1), repeat=positions.shape[-1]):
            rows.append(self._rows([low[axis] + step for axis, step in enumerate(corner)]))
            factors = [part[i] if step else 1 - part[i] for i, step in enumerate(corner)]
            weights.append(tf.reduce_prod(factors, 0))
        return tf.stack(rows), tf.stack(weights)

    def _rows(self, places: list[tf.Tensor]) -> tf.Tensor:
        """Returns the rows of corners; their places along each axis are int32 [levels, batch]."""
        dense = self.dense_levels
        sides = np.array(self._resolutions[:dense], np.int32)[:, None] + 1
        number = sum(place[:dense] * sides**axis for axis, place in enumerate(places))
        hashed = places[0][dense:]
        for place, prime in zip(places[1:], _PRIMES[1:], strict=False):
            hashed = tf.bitwise.bitwise_xor(hashed, place[dense:] * prime)  # modulo 2^32
        hashed = tf.bitwise.bitwise_and(hashed, self._entries - 1)
        first = np.cumsum([0, *self.sizes[:-1]], dtype=np.int32)[:, None]
        return tf.concat([number, hashed], 0) + first
