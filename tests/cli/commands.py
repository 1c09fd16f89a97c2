"""How the tests call the commands."""

import pytest

from fathom import FathomError, __main__

SMALL = ["--set=hidden_units=8", "--set=latents=2", "--batch-size=10", "--device=cpu"]


def run(command, *arguments):
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    return stop.value.code


def fathom(*arguments):
    """Runs ``python -m fathom`` in this process; returns its exit code."""
    return run(__main__.main, list(map(str, arguments)))


def refusal(capsys, code):
    """Returns the one line of a command that ended with the exit code of a user's mistake."""
    assert code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def fail(*_):
    """Takes the place of what should fail."""
    raise FathomError("it cannot be done")
