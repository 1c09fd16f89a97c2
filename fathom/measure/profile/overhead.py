"""Measures steps with the profiler and without it in turn, and what it costs to trace an op."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from fathom.measure.profile import xplane
from fathom.results.records import Processor
from fathom.system.environment import cpu_use

NumberedStep: TypeAlias = Callable[[int], object]  # runs on the batch of a number, and waits
Session: TypeAlias = Callable[[Path | None], contextlib.AbstractContextManager[None]]

_BLOCK = 4  # steps with the profiler, or without it, that follow each other
_MOST_ROUNDS = 8  # of the warm-up
_TRIPS, _OPS = 100, 10  # of the probe's loop, and in its body
_PROBES = 16


def in_turn(
    traced: NumberedStep,
    untraced: NumberedStep,
    steps: int,
    processor: Processor,
    session: Session = xplane.profiling,
    folder: Path | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Times steps in short blocks with and without the profiler: with, without, without, with, ...

    Each block begins with a step that does not count, in which the profiler starts up and the
    caches fill.

    Args:
        traced: never executed without the profiler, as its executor would then stop tracing cheap
            ops (``xplane.profiling``).
        untraced: the same step with another executor, called in the same way.
        steps: number of steps that count, of each.
        processor: adds their use of the processor.
        session: of the profiler, such as ``xplane.profiling``.
        folder: for a trace of each block, whose names sort by time; None: they are discarded.

    Returns:
        seconds of each step with and without the profiler, float64 [steps] each.
    """
    seconds = np.empty((2, steps))
    for i, begin in enumerate(range(0, steps, _BLOCK)):
        numbers = range(begin, min(begin + _BLOCK, steps))
        for without in (False, True) if i % 2 == 0 else (True, False):
            trace = folder / f"{begin:09}" if folder else None
            step = untraced if without else traced
            with contextlib.nullcontext() if without else session(trace):
                step(begin - 1)
                for number in numbers:
                    with xplane.marked(number):
                        seconds[int(without), number] = _seconds(step, number, processor)
    return seconds[0], seconds[1]


def warm_up(traced: NumberedStep, untraced: NumberedStep, session: Session) -> None:
    """Runs steps as ``in_turn`` does until they have no more page faults than those before.

    Memory that a step, or the profiler, uses for the first time makes it slower than later ones.
    """
    faults: int | None = None
    for _ in range(_MOST_ROUNDS):
        before, processor = faults, Processor()
        in_turn(traced, untraced, _BLOCK, processor, session)
        faults = processor.minor_faults or 0
        if not faults or (before is not None and faults >= before):
            return


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
    with_profiler, without = in_turn(lambda _: traced(), lambda _: untraced(), _PROBES, Processor())
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


def _seconds(step: NumberedStep, number: int, processor: Processor) -> float:
    used, start = cpu_use(), time.perf_counter()
    step(number)
    seconds = time.perf_counter() - start
    processor.add(used, cpu_use(), seconds)
    return seconds
