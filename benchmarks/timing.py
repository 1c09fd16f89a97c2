"""Times of steps: by the clock, and of the processor, which other processes disturb less."""

import time
from collections.abc import Callable


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Returns the seconds of one call: by the clock, and of the processor in all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - clock, time.process_time() - processor


def record_of(step: Callable[[], object], steps: int, warmup: int) -> dict[str, list[float]]:
    """Returns the times of some calls after others that warm up."""
    for _ in range(warmup):
        step()
    clock, processor = zip(*(timed(step) for _ in range(steps)), strict=True)
    return {"step_seconds": list(clock), "processor_seconds": list(processor)}
