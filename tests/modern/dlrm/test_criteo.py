"""Criteo's raw format, as a user may have it."""

import os

import numpy as np
import pytest

from fathom.errors import FathomError
from fathom.modern.dlrm import synthetic
from fathom.modern.dlrm.criteo import Criteo

FULL = "\t".join(["1", *map(str, range(13)), *(f"{i:08x}" for i in range(26))])
HOLES = "\t".join(["0", "", "-2", *[""] * 11, "ffffffff", *[""] * 25])


def write(folder, *lines):
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in lines))


def test_lines_are_read_with_empty_and_negative_fields(tmp_path):
    write(tmp_path, FULL, HOLES)
    criteo = Criteo.load(tmp_path)
    assert criteo.clicked.tolist() == [1, 0]
    np.testing.assert_allclose(criteo.numbers[0], np.log1p(np.arange(13)), rtol=1e-6)
    assert criteo.numbers[1].tolist() == [0] * 13
    assert criteo.categories[0].tolist() == list(range(26))
    assert criteo.categories[1].tolist() == [2**32 - 1] + [-1] * 25
    assert criteo.odds is None
    assert criteo.training_examples == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([FULL], "has one example, which is for the test"),
        ([FULL, FULL.rpartition("\t")[0]], "line 2: 39 columns, expected 40"),
        ([FULL, FULL.replace("\t5\t", "\tfive\t")], "line 2: an integer column has no integer"),
        ([FULL.replace("1\t0", "2\t0", 1)], "line 1: the label is not 0 or 1"),
        ([FULL.replace("00000001", "0000000g")], "line 1: a category is not of eight hexadecimal"),
        ([FULL.replace("00000001", "123")], "line 1: a category is not of eight hexadecimal"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(lines, message, tmp_path):
    write(tmp_path, *lines)
    with pytest.raises(FathomError, match=message) as error:
        Criteo.load(tmp_path)
    assert "train.txt" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "odds", ["", "0.5\n", "0.5\n0.1\n0.2\n", "0.5\nnan\n", "0.5\n1e300\n", "0.5\nx\n", "\0\xff\n0"]
)
def test_log_odds_that_are_not_those_of_the_clicks_are_refused(odds, tmp_path):
    write(tmp_path, FULL, HOLES)
    (tmp_path / "odds.txt").write_text("0.5\n-1.25\n")
    assert Criteo.load(tmp_path).odds.tolist() == [0.5, -1.25]
    (tmp_path / "odds.txt").write_text(odds)
    with pytest.raises(FathomError, match=r"odds\.txt, 2 in all") as error:
        Criteo.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FathomError, match=r"train\.txt"):
        Criteo.load(tmp_path)


def test_synthetic_clicks_follow_their_seed_and_odds(tmp_path):
    sets = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        synthetic.write(tmp_path / name, seed, examples=3_000)
        sets.append(Criteo.load(tmp_path / name))
    first, same, other = sets
    np.testing.assert_array_equal(first.categories, same.categories)
    assert not np.array_equal(first.clicked, other.clicked)
    assert len(first.odds) == 3_000
    expected = 1 / (1 + np.exp(-first.odds))
    assert first.clicked.mean() == pytest.approx(expected.mean(), abs=0.03)
    _, counts = np.unique(first.categories[:, -1], return_counts=True)
    assert counts.max() > 20 * np.median(counts)  # Zipf's law


def test_real_lines_are_read(real_data):
    criteo = Criteo.load(real_data / "criteo")
    assert len(criteo.clicked) == 200
    assert (criteo.categories >= 0).mean() > 0.8


def test_a_pipe_in_the_place_of_odds_is_refused_and_not_waited_for(tmp_path):
    write(tmp_path, FULL, FULL)
    os.mkfifo(tmp_path / synthetic.ODDS)
    with pytest.raises(FathomError, match="is not a regular file"):
        Criteo.load(tmp_path)
