"""Arrays whose memory TensorFlow can use: converting an array copies it."""

import numpy as np
import tensorflow as tf

_ALIGNMENT = 64  # bytes; TensorFlow ends the process over a tensor that begins elsewhere


def aligned_empty(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> np.ndarray:
    """Returns an array of undefined values, at an address that suits ``shared``."""
    length = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(length + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + length].view(dtype).reshape(shape)


def shared(array: np.ndarray) -> tf.Tensor:
    """Returns a tensor on an array's memory, which must not change from then on.

    Args:
        array: contiguous; one that does not begin at a suitable address is copied.
    """
    if array.ctypes.data % _ALIGNMENT:
        array = aligned_copy(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """Returns a copy of an array, at an address that suits ``shared``."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
