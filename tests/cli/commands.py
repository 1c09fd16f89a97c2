"""How the tests call the commands."""

import pytest

from fathom import FathomError

SMALL = ["--set=hidden_units=8", "--set=latents=2", "--batch-size=10", "--device=cpu"]


def run(command, *arguments):
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    return stop.value.code


def fail(*_):
    """Takes the place of what should fail."""
    raise FathomError("it cannot be done")
