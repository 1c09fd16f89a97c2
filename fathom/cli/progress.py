"""The progress of a run: a bar on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Iterator

from rich import progress
from rich.console import Console

from fathom.core.training.runner import Progress

_SECONDS_BETWEEN_LINES = 5.0


class Bar(Progress):
    """A progress bar with loss, ``example`` (in the plural) per second and remaining time."""

    def __init__(self, console: Console, example: str) -> None:
        self._example = example
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.MofNCompleteColumn(),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[state]}"),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    @contextlib.contextmanager
    def running(self, first: int, n_steps: int, batch_size: int) -> Iterator[None]:
        """Draws the bar while the steps run."""
        self._batch_size = batch_size
        self._task = self._bar.add_task("step", total=first + n_steps, completed=first, state="")
        self._preparation: progress.TaskID | None = None
        with self._bar:
            yield

    def preparing(self, what: str, done: int, total: int) -> None:
        """Shows a second bar until the next step."""
        if self._preparation is None:
            self._preparation = self._bar.add_task(what, total=total, state="")
        self._bar.update(self._preparation, completed=done)

    def step(self, number: int, loss: float | None, seconds: float) -> None:
        """Advances the bar."""
        if self._preparation is not None:
            self._bar.remove_task(self._preparation)
            self._preparation = None
        state = state_of(loss, self._batch_size / seconds, self._example)
        self._bar.update(self._task, completed=number + 1, state=state)


class Lines(Progress):
    """A plain line every few seconds and at the last step, for logs, pipes and dumb terminals."""

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
        """Prints a line if one is due."""
        if not self._is_due() and number + 1 < self._total:
            return
        self._printed = time.perf_counter()
        state = state_of(loss, self._batch_size / seconds, self._example)
        self._console.print(f"step {number + 1}/{self._total}  {state}")

    def preparing(self, what: str, done: int, total: int) -> None:
        """Prints a line if one is due."""
        if self._is_due():
            self._printed = time.perf_counter()
            self._console.print(f"{what}: {done:,}/{total:,}")

    def _is_due(self) -> bool:
        return time.perf_counter() - self._printed >= _SECONDS_BETWEEN_LINES


def state_of(loss: float | None, rate: float, example: str) -> str:
    """Returns a step's loss and speed as text."""
    speed = f"{rate:,.0f} {example}/s" if rate >= 100 else f"{rate:.3g} {example}/s"
    return speed if loss is None else f"loss {loss:.4g}  {speed}"
