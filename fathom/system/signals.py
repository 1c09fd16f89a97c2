"""Signals that stop a run, held back until its state can be saved."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def held_back(worth_it: Callable[[], bool]) -> Iterator[list[int]]:
    """Holds back the first SIGINT or SIGTERM, and delivers it at the end of the block.

    A second one is delivered at once, and so is the first if it is not worth holding back. Ignored
    signals stay ignored. Outside the main thread, which alone receives signals, this does nothing.

    Args:
        worth_it: returns whether there is state to save.

    Yields:
        the signals held back so far; the block should end early if there is one.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {n: each for n, each in handlers.items() if each not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def hold(number: int, frame: FrameType | None) -> None:
        if held or not worth_it():
            restore()
            signal.raise_signal(number)
            return  # from a handler that raised nothing
        held.append(number)

    for number in before:
        signal.signal(number, hold)
    try:
        yield held
    finally:
        restore()
    if held:
        signal.raise_signal(held[0])
