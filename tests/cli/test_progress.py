import io

import pytest
from rich.console import Console

from fathom.cli import progress
from fathom.cli.progress import Bar, Lines


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def test_lines_tell_of_preparations_and_of_the_last_step(console, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    lines = Lines(console, "transitions")
    with lines.running(0, 1, 32):
        lines.preparing("filling the replay memory", 1_000, 50_000)
        lines.step(0, 0.5, 0.1)
    assert console.file.getvalue() == (
        "filling the replay memory: 1,000/50,000\nstep 1/1  loss 0.5  320 transitions/s\n"
    )


def test_lines_are_not_printed_more_often_than_can_be_read(console):
    lines = Lines(console, "transitions")
    with lines.running(0, 2, 32):
        lines.preparing("filling the replay memory", 1_000, 50_000)
        lines.step(0, 0.5, 0.1)
    assert console.file.getvalue() == ""


def test_a_bar_shows_preparations_until_the_next_step(console):
    bar = Bar(console, "transitions")
    with bar.running(0, 2, 32):
        bar.preparing("filling the replay memory", 1_000, 50_000)
        bar.preparing("filling the replay memory", 2_000, 50_000)
        tasks = [(task.description, task.completed) for task in bar._bar.tasks]
        assert tasks == [("step", 0), ("filling the replay memory", 2_000)]
        bar.step(0, 0.5, 0.1)
        assert [(task.description, task.completed) for task in bar._bar.tasks] == [("step", 1)]
