"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from fathom.training.runner import Progress

_SECONDS_BETWEEN_LINES = 5.0


class Bar(Progress):
    """A progress bar with loss, examples a second and the time left.

    Args:
        console: where it is drawn.
        example: what an example is, in the plural.
    """

    def __init__(self, console: Console, example: str) -> None:
        self._example = example
        self._bar = RichProgress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    @contextlib.contextmanager
    def running(self, first: int, n_steps: int, batch_size: int) -> Iterator[None]:
        """Draws the bar while the steps run."""
        self._batch_size = batch_size
        self._task = self._bar.add_task("", total=first + n_steps, completed=first, state="")
        with self._bar:
            yield

    def step(self, number: int, loss: float | None, seconds: float) -> None:
        """Moves the bar on."""
        state = state_of(loss, self._batch_size / seconds, self._example)
        self._bar.update(self._task, completed=number + 1, state=state)


class Lines(Progress):
    """A plain line every few seconds and at the last step, for logs and pipes.

    Args:
        console: where they are printed.
        example: what an example is, in the plural.
    """

    def __init__(self, console: Console, example: str) -> None:
        self._console = console
        self._example = example

    @contextlib.contextmanager
    def running(self, first: int, n_steps: int, batch_size: int) -> Iterator[None]:
        """Remembers the number of steps."""
        self._batch_size = batch_size
        self._total = first + n_steps
        self._printed = time.perf_counter()
        yield

    def step(self, number: int, loss: float | None, seconds: float) -> None:
        """Prints a line when it is time for one."""
        now = time.perf_counter()
        if now - self._printed < _SECONDS_BETWEEN_LINES and number + 1 < self._total:
            return
        self._printed = now
        state = state_of(loss, self._batch_size / seconds, self._example)
        self._console.print(f"step {number + 1}/{self._total}  {state}")


def state_of(loss: float | None, rate: float, example: str) -> str:
    """Returns a step's loss and speed in words."""
    speed = f"{rate:,.0f} {example}/s" if rate >= 100 else f"{rate:.3g} {example}/s"
    return speed if loss is None else f"loss {loss:.4g}  {speed}"
