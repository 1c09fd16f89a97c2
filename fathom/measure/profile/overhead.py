"""Measures what the profiler costs: the time that it adds to a step, and to an op."""

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from fathom.measure.profile import xplane

_MOST_PAIRS = 50
_ENOUGH_S = 1.0  # after which there are no more pairs than asked for
_TRIPS, _OPS = 100, 10  # of the probe's loop, and in its body
_PROBES = 15


def in_turn(
    traced: Callable[[int], object], untraced: Callable[[int], object], fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Times steps with and without the profiler in turn: with, without, without, with, ...

    Args:
        traced: runs a step on the batch of this number; never executed without the profiler, as
            its executor would then stop tracing cheap ops (``xplane.profiling``).
        untraced: the same step with another executor, compiled and called in the same way.
        fewest: number of pairs; short steps have more, up to 50 in a second.

    Returns:
        seconds of each step with and without the profiler, float64 [pairs] each.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    end = time.perf_counter() + _ENOUGH_S
    for pair in range(max(fewest, _MOST_PAIRS)):
        if pair >= fewest and time.perf_counter() > end:
            break
        for with_profiler in (True, False) if pair % 2 == 0 else (False, True):
            if with_profiler:
                with xplane.profiling():
                    seconds[True].append(_seconds(traced, pair))
            else:
                seconds[False].append(_seconds(untraced, pair))
    return np.array(seconds[True]), np.array(seconds[False])


def seconds_per_op() -> float:
    """Returns the cost of tracing one execution of an op, in seconds.

    It is measured on a loop of cheap ops, where it is large: the fastest call with the profiler
    takes this longer than the fastest without, over the number of ops in the trace.
    """
    traced, untraced = _probe(), _probe()
    with xplane.profiling():
        traced()
    untraced()
    ops = len(xplane.trace(traced, 1).ops_by_step()[0])
    with_profiler, without = in_turn(lambda _: traced(), lambda _: untraced(), _PROBES)
    return max(0.0, float(with_profiler.min() - without.min()) / ops)


def _probe() -> Callable[[], object]:
    """Returns a compiled loop of cheap ops with names of common length."""

    def body(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.name_scope("a_layer/of_a_network/in_its_forward_pass"):
            for _ in range(_OPS):
                x = tf.math.divide_no_nan(x, 2.0)  # a chain that is not optimised away
        return i + 1, x

    @tf.function(autograph=False)
    def probe() -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < _TRIPS, body, (0, tf.constant(2.0)))[1]

    function = probe.get_concrete_function()
    return lambda: function().numpy()


def _seconds(step: Callable[[int], object], number: int) -> float:
    start = time.perf_counter()
    step(number)
    return time.perf_counter() - start
