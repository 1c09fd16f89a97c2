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


SEQ2SEQ = {"source_vocabulary": 9, "units": 4, "layers": 1, "samples": 3, "buckets": "5-10"}
MEMNET = {"babi": SimpleNamespace(vocabulary=range(9))}


@pytest.mark.parametrize(
    ("workload", "chosen", "others", "size", "expected"),
    [
        (
            "seq2seq",
            SEQ2SEQ,
            {},
            (3, 5),
            "source 5 target 10 vocabulary 9 units 4 layers 1 samples 3",
        ),
        ("speech", {"units": 4, "stride": 2}, {}, (3, 5, 2), "frames 3 units 4"),
        ("memnet", {"hops": 2}, MEMNET, (3, 5, 2), "vocabulary 9 memory 5 words 2 hops 2"),
    ],
)
def test_a_peer_has_the_layers_and_units_that_were_set(
    programs, workload, chosen, others, size, expected
):
    model = SimpleNamespace(hyperparameters=SimpleNamespace(**chosen), **others)
    words = programs.options(workload, model, (np.zeros(size, np.int32),))
    assert " ".join(words).replace("--", "") == expected
