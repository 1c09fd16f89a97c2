"""Induction heads: the sequences, their file, and what counts of them."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.errors import FathomError
from fathom.modern.mamba import induction
from fathom.modern.mamba.induction import Induction, sequences
from fathom.modern.mamba.model import Mamba

SMALL = {"dataset": "induction", "layers": 1, "width": 16, "batch_size": 2, "xla": False}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Gives a folder of ten short sequences."""
    monkeypatch.setattr(induction, "LENGTH", 8)
    monkeypatch.setattr(induction, "COUNT", 10)
    Induction.synthesize(tmp_path, 0)
    return tmp_path


def make(folder, **options):
    return Mamba("/cpu:0", {**SMALL, "context": 8, "data_dir": str(folder), **options})


@pytest.mark.parametrize("length", [3, 8, 256])
def test_the_answer_is_what_followed_the_special_token(length):
    tokens = sequences(500, length, np.random.default_rng(0))
    assert tokens.shape == (500, length + 1)
    assert tokens.max() == 15
    for row in tokens:
        first, last = np.flatnonzero(row == 0)
        assert last == length - 1
        assert row[-1] == row[first + 1]


def test_examples_are_whole_sequences_and_only_their_answers_count(folder):
    model = make(folder)
    model.load_data()
    lines = [line.strip() for line in (folder / "sequences.txt").open()]
    seen = set()
    for step in range(4):
        tokens, following = next(model.training_batches(step))
        for row, labels in zip(tokens, following, strict=True):
            assert labels[:-1].numpy().tolist() == [-1] * 7
            whole = model.vocabulary.decode(tf.concat([row, labels[-1:]], 0).numpy())
            assert whole in lines[:9]
            seen.add(whole)
    assert len(seen) == 8
    assert [len(batch[0]) for batch in model.evaluation_batches()] == [1]


def test_loss_and_accuracy_are_those_of_the_last_token(folder):
    model = make(folder)
    model.load_data()
    following = tf.constant([[-1, -1, 2], [-1, -1, 0]])
    logits = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    logits[0, 2, 2], logits[1, 2, 1] = 5, 5
    odds = np.exp(logits[:, 2]) / np.exp(logits[:, 2]).sum(1, keepdims=True)
    expected = -np.log([odds[0, 2], odds[1, 0]])
    loss = model.build_loss(following, following, tf.constant(logits))
    assert float(loss) == pytest.approx(expected.mean(), rel=1e-5)
    values = model.build_evaluation(following, following, tf.constant(logits))
    np.testing.assert_allclose(values["loss"], expected, rtol=1e-5)
    totals = model.total_metrics({k: float(sum(v)) for k, v in values.items()}, 2)
    assert totals["accuracy"] == 0.5


def test_an_evaluation_has_the_accuracy(folder):
    model = make(folder)
    model.setup()
    model.run(n_steps=2)
    metrics = model.evaluate()
    assert metrics["accuracy"] in (0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 sequences"),
        ("*ab*a\n", "has 1 sequences"),
        ("*ab*a\n*ab*b\n", "line 2: expected sequences.txt"),
        ("*ab*a\n*abc*a\n", "line 2: expected"),
        ("*ab*a\n**b**\n", "line 2: expected"),
        ("*ab*a\n*zb*z\n", "line 2: expected"),
        ("*ab*a\nabc*a\n", "line 2: expected"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(tmp_path, text, message):
    (tmp_path / "sequences.txt").write_text(text)
    with pytest.raises(FathomError, match=message):
        Induction.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 7}, "have 8 tokens: use --set context=8"),
        ({"tokens": "bpe", "vocabulary": 280}, "are of single letters: use --set tokens=character"),
    ],
)
def test_what_does_not_fit_the_sequences_is_refused(options, message, folder):
    with pytest.raises(FathomError, match=message):
        make(folder, **options).load_data()
