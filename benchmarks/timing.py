"""Times of steps: by the clock, and of the processor, which other processes disturb less."""

import itertools
import math
import time
from collections.abc import Callable

FEWEST_STEPS = 2  # that are timed, however long they take


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Returns the seconds of one call: by the clock, and of the processor in all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - clock, time.process_time() - processor


def record_of(
    step: Callable[[], object], steps: int, warmup: int, seconds: float = math.inf
) -> dict[str, list[float]]:
    """Returns the times of some calls after others that warm up.

    Args:
        step: what is called.
        steps: the most calls that are timed.
        warmup: the most calls before them.
        seconds: of the clock that each of the two may take. After them no further call begins,
            except that one warms up and two are timed.
    """
    for _ in _within(seconds, 1, warmup):
        step()
    times = [timed(step) for _ in _within(seconds, FEWEST_STEPS, steps)]
    clock, processor = zip(*times, strict=True)
    return {"step_seconds": list(clock), "processor_seconds": list(processor)}


def _within(seconds: float, fewest: int, most: int) -> itertools.takewhile:
    """Returns the numbers below ``most`` while there is time."""
    end = time.perf_counter() + seconds
    return itertools.takewhile(lambda i: i < fewest or time.perf_counter() < end, range(most))
