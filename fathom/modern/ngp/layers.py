"""The multiresolution hash encoding: section 3 of Mueller et al. 2022."""

import functools
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

    Each level has a table of its own (figure 3), so that levels can be computed at once. A level
    whose corners do not fit into its table shares entries by a hash, whose collisions are not
    resolved. The gradients are sparse.

    Args:
        resolutions: cells along each axis, by level.
        entries: of a level's table at most; a power of two.
        features: of an entry.
        seeds: of the initial values, by level; uniform within 1e-4 (section 4).
    """

    def __init__(
        self, resolutions: list[int], entries: int, features: int, seeds: list[int], **options: Any
    ) -> None:
        super().__init__(autocast=False, **options)  # positions need float32
        self._resolutions, self._entries = resolutions, entries
        self._features, self._seeds = features, seeds

    def build(self, shape: tuple[int, ...]) -> None:
        """Creates the tables for positions [batch, axes], of one to three axes."""
        self.tables = []
        for level, (cells, seed) in enumerate(zip(self._resolutions, self._seeds, strict=True)):
            entries = min((cells + 1) ** shape[-1], self._entries)
            table = self.add_weight(
                shape=(entries, self._features),
                initializer=keras.initializers.RandomUniform(-1e-4, 1e-4, seed),
                autocast=False,  # else the whole table is converted in each step
                name=f"table{level}",
            )
            self.tables.append(table)

    def call(self, positions: tf.Tensor) -> tf.Tensor:
        """Encodes float32 [batch, axes], each in [0, 1]; returns [batch, levels * features]."""
        encoded = []
        for cells, table in zip(self._resolutions, self.tables, strict=True):
            entries, weights = self.corners(positions, cells)
            found = tf.gather(table.value, entries)  # [corners, batch, features]
            encoded.append(tf.reduce_sum(found * weights[..., None], 0))
        return tf.cast(tf.concat(encoded, 1), self.compute_dtype)

    def corners(self, positions: tf.Tensor, cells: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the entries of the corners around positions in a level, and their weights.

        Args:
            positions: float32 [batch, axes].
            cells: of the level, along each axis.

        Returns:
            int32 and float32, both [corners, batch].
        """
        scaled = tf.unstack(positions * float(cells), axis=1)
        steps = np.array([*itertools.product((0, 1), repeat=len(scaled))], np.float32).T
        places, weights = [], 1.0
        for x, step in zip(scaled, steps[..., None], strict=True):
            place = tf.minimum(tf.floor(x), cells - 1) + step  # 1 is in the last cell
            places.append(tf.cast(place, tf.int32))
            weights *= 1 - tf.abs(x - place)
        if (cells + 1) ** len(places) <= self._entries:
            return sum(place * (cells + 1) ** axis for axis, place in enumerate(places)), weights
        products = (place * prime for place, prime in zip(places, _PRIMES, strict=False))
        hashed = functools.reduce(tf.bitwise.bitwise_xor, products)  # modulo 2^32
        return tf.bitwise.bitwise_and(hashed, self._entries - 1), weights
