"""Memory accesses in their order, which traces of steps and of programs consist of."""

from typing import NamedTuple

import numpy as np

LINE = 64  # bytes of a cache line
LOAD, STORE, MODIFY = 0, 1, 2


class Block(NamedTuple):
    """Accesses in their order.

    Attributes:
        address: uint64 [n], of the first byte.
        kind: uint8 [n]: LOAD, STORE, or MODIFY, which is both.
        place: uint64 [n], what accesses: the number of an operation, or an instruction's address.
        layer: uint16 [n], its layer, by number.
    """

    address: np.ndarray
    kind: np.ndarray
    place: np.ndarray
    layer: np.ndarray
