"""The terminal side of every command: errors in one line, TensorFlow's chatter kept away."""

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NoReturn

from rich.console import Console

from fathom.errors import FathomError

USER_ERROR = 2  # exit code
INTERRUPTED = 130  # exit code, 128 + SIGINT as shells have it


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and whose options are never abbreviated."""

    def __init__(self, **options: object) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and exits with code 2."""
        self.exit(USER_ERROR, f"{self.prog}: error: {message}; --help lists the options\n")


def console() -> Console:
    """Returns the console that summaries and progress are printed on."""
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, markup=False, soft_wrap=True, width=width)


def run_command(name: str, command: Callable[[], None], if_interrupted: str = "") -> NoReturn:
    """Runs a command and exits: 0, or 2 after one line on the user's error.

    Args:
        name: of the command, which the line begins with.
        command: does it.
        if_interrupted: what a person should know who stops it by Ctrl-C.
    """
    try:
        command()
    except FathomError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        print(f"{name}: interrupted{if_interrupted}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)


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
