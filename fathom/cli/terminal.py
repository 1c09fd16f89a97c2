"""The terminal output of all commands: one-line errors, tables, no log noise from TensorFlow."""

import contextlib
import gc
import importlib
import io
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TextIO

from rich.console import Console
from rich.table import Table

from fathom.cli.parser import USER_ERROR
from fathom.errors import FathomError
from fathom.system.memory import require_address_space

if TYPE_CHECKING:
    import pandas as pd

_OPTIONAL = ("IPython", "cv2", "jax", "matplotlib", "pandas")  # TensorFlow and Keras do without
_WIDTH_OF_FILES = 160  # columns of output that is not to a terminal

_ends_at_once = threading.Event()
stop_signals: list[int] = []  # received by the command: SIGINT, or a cluster's SIGTERM


class Screen(Console):
    """A console whose output errors do not stop a training run."""

    failure: ClassVar[OSError | None] = None  # the first of this process; ``run_command`` tells it
    ends_with_reader = True  # the command has no other output and ends when the reader does

    def print(self, *objects: object, **options: Any) -> None:
        """Prints; after an error such as a full disk, further output is dropped.

        A table too wide for the terminal is printed with one line per cell.
        """
        table = objects[0] if objects and isinstance(objects[0], Table) else None
        if table and table.__rich_measure__(self, self.options).minimum > self.width:
            objects = ("\n".join(_lines_of(table)),)
        try:
            super().print(*objects, **options)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and self.ends_with_reader:
                raise
            Screen.failure = Screen.failure or error
            self.quiet = True

    def on_broken_pipe(self) -> None:
        """Re-raises the BrokenPipeError, for which rich would exit."""
        raise


def console(*, stderr: bool = False) -> Screen:
    """Returns the console for summaries and progress, on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_OF_FILES
    return Screen(
        highlight=False, markup=False, emoji=False, soft_wrap=True, width=width, stderr=stderr
    )


def new_table(titles: Sequence[str], numbers: Collection[str] = (), title: str = "") -> Table:
    """Returns an empty table, in which the columns of ``numbers`` are aligned on the right."""
    table = Table(box=None, header_style="bold", title=title or None, title_justify="left")
    for name in titles:
        table.add_column(name, justify="right" if name in numbers else "left")
    return table


def show_frame(frame: "pd.DataFrame", screen: Console, title: str = "") -> None:
    """Prints a data frame; the columns of numbers, all but ``layer``, are aligned on the right."""
    titles = list(frame.columns)
    table = new_table(titles, [name for name in titles if name != "layer"], title)
    for row in frame.itertuples(index=False):
        table.add_row(*map(_text, row))
    screen.print(table)


def _text(value: object) -> str:
    if isinstance(value, float):
        text = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        return "" if math.isnan(value) else text
    return f"{value:,}" if isinstance(value, int) else str(value)


def _lines_of(table: Table) -> Iterator[str]:
    """Yields one line per cell of a table, and an empty one after each row."""
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, row, strict=True):
            yield f"{column.header}: {cell}"
        yield ""


def run_command(name: str, command: Callable[[], None]) -> NoReturn:
    """Runs a command and exits with 0, or prints a one-line error and exits with another code.

    The line begins with its name, and has the arguments of a ``KeyboardInterrupt`` that it raises.
    """
    _open_streams()
    # Pydantic asks every package for plug-ins, which we do not use: damaged metadata would stop it.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    stop_signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored in a shell's background jobs
            signal.signal(number, _stop)
    code, Screen.failure = 0, None
    try:
        _require_working_folder()
        with interrupts_raised():
            command()
    except FathomError as error:
        code = USER_ERROR
        _complain(f"{name}: error: {' '.join(str(error).splitlines())}")
    except KeyboardInterrupt as stop:
        code = 128 + (stop_signals or [signal.SIGINT])[0]  # as in shells
        _complain("; ".join((f"{name}: interrupted", *stop.args)))
    except BrokenPipeError as error:
        Screen.failure = error
    except SystemExit as end:  # the parser's, after help or an error
        code = int(end.code or 0)
    try:
        sys.stdout.flush()
    except OSError as error:
        Screen.failure = error
    if Screen.failure:
        code = code or 1
        _discard_output(sys.stdout)
        if not isinstance(Screen.failure, BrokenPipeError):  # such as from head: no message needed
            _complain(f"{name}: error: cannot print: {Screen.failure.strerror}")
    try:
        sys.stderr.flush()
    except OSError:
        _discard_output(sys.stderr)
    if _ends_at_once.is_set():
        os._exit(code)
    sys.exit(code)


@contextlib.contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raises a ``KeyboardInterrupt`` that TensorFlow converted or swallowed inside the block."""
    try:
        yield
    except Exception as error:
        if stop_signals and not isinstance(error, FathomError):
            raise KeyboardInterrupt from error
        raise
    if stop_signals:
        raise KeyboardInterrupt


def _require_working_folder() -> None:
    """Raises FathomError where no relative path means anything, which Python tells at its use."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise FathomError("the working folder is gone: change to another") from error


def end_at_once() -> None:
    """Makes ``run_command`` end without Python's own end, which stops threads wherever they are."""
    _ends_at_once.set()


def _open_streams() -> None:
    """Opens standard streams that the caller closed, and makes them print any character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # otherwise the next file gets its number
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(line: str) -> None:
    """Prints a line to standard error, if possible."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    stop_signals.append(number)
    raise KeyboardInterrupt


def _discard_output(stream: TextIO) -> None:
    """Discards the stream's pending output, so that Python does not fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def absent(modules: Sequence[str]) -> Iterator[None]:
    """Makes imports of modules fail in the block, except of those that are loaded already."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None makes it fail
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def import_tensorflow() -> float:
    """Imports TensorFlow without its output, unless it is imported; returns the time in seconds.

    Its C++ code writes to standard error before log levels apply. This output is shown if the
    import fails. Garbage collection is off meanwhile, and never scans again what was imported: both
    take time and find nothing. What Keras imports only where it is installed is left out
    (docs/performance.md).

    Raises:
        FathomError: the address-space limit is too low for TensorFlow's libraries, or Keras is set
            to another backend.
    """
    require_address_space()
    if {"tensorflow", "keras"} <= sys.modules.keys():
        return 0.0
    if (backend := os.environ.setdefault("KERAS_BACKEND", "tensorflow")) != "tensorflow":
        raise FathomError(f"Keras computes with {backend}: set KERAS_BACKEND=tensorflow")
    started = time.perf_counter()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    terminal = os.dup(2)
    gc.disable()
    with tempfile.TemporaryFile() as captured, absent(_OPTIONAL):
        os.dup2(captured.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
            importlib.import_module("keras")
        except ImportError:
            captured.seek(0)
            os.write(terminal, captured.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            gc.freeze()
            gc.enable()
    return time.perf_counter() - started


def duration(seconds: float) -> str:
    """Returns a time in words, as ``3.2 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{figures(seconds / size)} {unit}"
    return f"{figures(seconds * 1e6)} us"


def figures(number: float) -> str:
    """Returns a number with three digits, or all of a large one's before the point."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
