"""The speed of a device: of a matrix product, and of memory."""

import time
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from fathom.options import precision_traits
from fathom.system.device import CPU, Device

_GEMM_SIZE = 2048
_GEMM_PRODUCTS = 6  # timed; the fastest is used
_TRIAD_VALUES = 2**26  # float32, in each array: 256 MiB, larger than caches
_TRIADS = 8  # timed; the fastest is used
_LONGEST_S = 10.0  # of waiting for an undisturbed measurement
_UNDISTURBED = 0.9  # least share of an undisturbed ceiling, as in results/characterization.py


class Ceiling(NamedTuple):
    """The best rate, and how much of the processor its measurement had."""

    rate: float  # in FLOP/s or bytes/s
    cpu_share: float  # CPU time over time by the clock and the threads that compute


def gemm_ceiling(device: Device, precision: str, threads: int = 0) -> Ceiling:
    """Returns the best rate of TensorFlow's large matrix product on a device, in FLOP/s.

    With ``threads``, those that compute, it is measured until undisturbed, at most for ten seconds.
    """
    with device.placement():
        shape = [_GEMM_SIZE, _GEMM_SIZE]
        dtype = keras.DTypePolicy(precision_traits(precision).policy).compute_dtype
        a, b = (tf.cast(tf.random.stateless_uniform(shape, [0, i]), dtype) for i in (1, 2))
        product = tf.function(lambda: tf.matmul(a, b))

        def run() -> None:
            product()
            device.synchronize()

        return _fastest(run, 2 * _GEMM_SIZE**3, _GEMM_PRODUCTS, threads)


def triad_ceiling() -> Ceiling:
    """Returns the best rate of the CPU's memory in STREAM's triad, a = b + s c, in bytes/s.

    As in STREAM (McCalpin 1995), two arrays are read and one is written, and the read of a cache
    line before it is written does not count. Like ``gemm_ceiling`` it is measured until it had the
    processor, of which one thread's worth counts.
    """
    with CPU.placement():
        b, c = (tf.random.stateless_uniform([_TRIAD_VALUES], [0, i]) for i in (1, 2))
        triad = tf.function(lambda: b + 3.0 * c, jit_compile=True)  # one loop, without a product
        return _fastest(triad, 3 * _TRIAD_VALUES * tf.float32.size, _TRIADS, threads=1)


def _fastest(run: Callable[[], object], work: int, least: int, threads: int) -> Ceiling:
    """Returns the fastest of some runs; with threads it runs until that was undisturbed."""
    best, runs, end = Ceiling(0.0, 0.0), 0, time.perf_counter() + _LONGEST_S
    while runs < least or (threads and best.cpu_share < _UNDISTURBED and time.perf_counter() < end):
        used, start = time.process_time(), time.perf_counter()
        run()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - used
        best = max(best, Ceiling(work / seconds, cpu_seconds / seconds / max(threads, 1)))
        runs += 1
    return best
