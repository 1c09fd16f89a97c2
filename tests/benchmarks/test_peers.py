"""The options of other libraries' programs, by which they take the sizes of a workload's batch."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "peers.py"


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(FILE.parent)
    return importlib.import_module(FILE.stem)


def test_every_program_exists(programs):
    for name in (programs.PYTORCH | programs.JAX).values():
        assert FILE.with_name(name).is_file()


def transformer(steps_taken):
    search = SimpleNamespace(steps_taken=np.int32(steps_taken))
    args = SimpleNamespace(vocabulary=9, width=4, heads=2, hidden_units=8, layers=1)
    network = SimpleNamespace(get_layer={"search": search}.get)
    return SimpleNamespace(hyperparameters=args, network=network)


def test_transformer_decodes_as_many_words_as_fathom_did(programs):
    words = np.zeros((3, 5), np.int32)
    free = programs.options("transformer", transformer(7), (words,))
    given = programs.options("transformer", transformer(7), (words, words))
    assert free[free.index("--words") + 1] == "7"
    assert given[given.index("--words") + 1] == "0"
    assert free[free.index("--batch-size") :][:4] == ["--batch-size", "3", "--length", "5"]
