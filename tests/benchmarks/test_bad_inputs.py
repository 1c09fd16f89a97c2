"""The program that damages inputs tells refusals from failures, and repeats itself."""

import importlib.util
import os
import random
import sys
import time
from pathlib import Path

import pytest

from fathom import FathomError

FILE = Path(__file__).parents[2] / "benchmarks" / "bad_inputs.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = sys.modules[FILE.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[FILE.stem]


def raising(error):
    def read():
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "verdict"),
    [
        (lambda: "loss: 1.5, information", "accepted"),
        (raising(FathomError("it is empty")), "refused"),
        (raising(FathomError("it is\nempty")), "failure"),
        (raising(ValueError("empty")), "failure"),
        (raising(SystemExit(1)), "failure"),
        (lambda: "loss: nan", "failure"),
        (lambda: print("at -inf examples/s"), "failure"),
        (lambda: time.sleep(60), "failure"),
    ],
)
def test_what_is_refused_in_one_line_is_told_from_a_failure(read, verdict, program):
    assert program.outcome(read, 0.2)[0] == verdict


def number_of(folder):
    """Reads a number as one should not."""
    return float((folder / "number.json").read_text().strip("[]")) > 0


def refused(folder):
    try:
        return number_of(folder)
    except ValueError as error:
        raise FathomError("it is no number") from error


def verdicts(program, read, root):
    kind = program.Kind(lambda folder: (folder / "number.json").write_text("[1.5]"), read)
    found = []
    for seed in range(20):
        rng, folder = random.Random(seed), root / str(seed)
        how, damaged = program._damaged(kind, root / "sound", folder, rng)
        found.append((how, program.outcome(damaged)[0]))
    return found


def test_a_reader_that_fails_is_found_and_every_damage_comes_again(program, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # another user's inputs lose permissions, too
    failing, sound = ([], [])
    for name, read, found in (("a", number_of, failing), ("b", refused, sound), ("c", refused, [])):
        (tmp_path / name).mkdir()
        found += verdicts(program, read, tmp_path / name)
        assert [how for how, _ in found] == [how for how, _ in failing]
    assert "failure" in {verdict for _, verdict in failing}
    assert {verdict for _, verdict in sound} == {"accepted", "refused"}
