"""The speed of a device: of a matrix product, and of memory."""

import time

import keras
import tensorflow as tf

from fathom.options import precision_traits
from fathom.system.device import CPU, Device

_GEMM_SIZE = 2048
_GEMM_PRODUCTS = 6  # timed; the fastest is used
_TRIAD_VALUES = 2**26  # float32, in each array: 256 MiB, larger than caches
_TRIADS = 8  # timed; the fastest is used


def gemm_rate(device: Device, precision: str) -> float:
    """Returns the best rate of TensorFlow's large matrix product on a device, in FLOP/s."""
    with device.placement():
        shape = [_GEMM_SIZE, _GEMM_SIZE]
        dtype = keras.DTypePolicy(precision_traits(precision).policy).compute_dtype
        a, b = (tf.cast(tf.random.stateless_uniform(shape, [0, i]), dtype) for i in (1, 2))
        product = tf.function(lambda: tf.matmul(a, b))
        times = []
        for _ in range(_GEMM_PRODUCTS):
            start = time.perf_counter()
            product()
            device.synchronize()
            times.append(time.perf_counter() - start)
    return 2 * _GEMM_SIZE**3 / min(times)


def triad_rate() -> float:
    """Returns the best rate of the CPU's memory in STREAM's triad, a = b + s c, in bytes/s.

    As in STREAM (McCalpin 1995), two arrays are read and one is written, and the read of a cache
    line before it is written does not count.
    """
    with CPU.placement():
        b, c = (tf.random.stateless_uniform([_TRIAD_VALUES], [0, i]) for i in (1, 2))
        triad = tf.function(lambda: b + 3.0 * c, jit_compile=True)  # one loop, without a product
        times = []
        for _ in range(_TRIADS):
            start = time.perf_counter()
            triad()
            times.append(time.perf_counter() - start)
    return 3 * _TRIAD_VALUES * tf.float32.size / min(times)
