"""The terminal side of every command: errors in one line, TensorFlow's chatter kept away."""

import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar, NoReturn

from rich.console import Console

from fathom.cli.parser import USER_ERROR
from fathom.errors import FathomError

INTERRUPTED = 130  # exit code, 128 + SIGINT as shells have it

stop_signals: list[int] = []  # those that the command was sent: SIGINT, or a cluster's SIGTERM


class Screen(Console):
    """A console that goes on where a line cannot be printed, so that a full disk ends no training.

    Attributes:
        failure: why a line of this process could not be printed; ``run_command`` tells it.
    """

    failure: ClassVar[OSError | None] = None

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints, or notes that it cannot."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:  # nobody reads on, which ends the command
            raise
        except OSError as error:
            Screen.failure = error


def console() -> Screen:
    """Returns the console that summaries and progress are printed on."""
    width = None if sys.stdout.isatty() else 160
    return Screen(highlight=False, markup=False, soft_wrap=True, width=width)


def run_command(name: str, command: Callable[[], None]) -> NoReturn:
    """Runs a command and exits: 0, or another code after one line that says what was wrong.

    Args:
        name: of the command, which the line begins with.
        command: does it; may give a ``KeyboardInterrupt`` that passes through it the words that a
            person should read who stopped it.
    """
    stop_signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as a shell's background jobs ignore SIGINT
            signal.signal(number, _stop)
    code, Screen.failure = 0, None
    try:
        command()
    except FathomError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        code = USER_ERROR
    except KeyboardInterrupt as stop:
        print("; ".join((f"{name}: interrupted", *stop.args)), file=sys.stderr)
        code = 128 + stop_signals[0] if stop_signals else INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        _discard_output()
        code = 1
    try:
        sys.stdout.flush()
    except OSError as error:
        Screen.failure = error
    if Screen.failure:
        print(f"{name}: error: cannot print: {Screen.failure.strerror}", file=sys.stderr)
        _discard_output()
        code = code or 1
    sys.exit(code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    stop_signals.append(number)
    raise KeyboardInterrupt


def _discard_output() -> None:
    """Sends what is still to be printed nowhere, so that Python's exit does not fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def import_tensorflow() -> float:
    """Imports TensorFlow without what it prints meanwhile; returns the seconds that it took.

    Its C++ side writes to standard error before any log level counts. What it wrote is shown if
    the import fails.
    """
    started = time.perf_counter()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as captured:
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
    return time.perf_counter() - started
