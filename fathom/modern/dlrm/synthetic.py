"""Synthetic clicks in Criteo's format, with known odds."""

import binascii
from pathlib import Path

import numpy as np

ODDS = "odds.txt"  # beside train.txt: the true log-odds, a line each
_EXAMPLES = 150_000  # with an eighth of them the odds of frequent categories are not learnt
_CATEGORIES = np.geomspace(4, 400, 26).astype(int)  # of each feature
_EMPTY = 0.1  # share of empty fields
_FIRST_ODDS = -1.2  # about a quarter is clicked


def write(directory: Path, seed: int, examples: int = _EXAMPLES) -> None:
    """Writes ``train.txt`` and the log-odds of its clicks.

    Categories follow Zipf's law. The log-odds are a sum of terms of each number and each category,
    those of categories in inverse proportion to their rank: what a rare category does cannot be
    learnt from a few examples, and hardly matters.
    """
    rng = np.random.default_rng(seed)
    counts = rng.geometric(0.05, (examples, 13)) - rng.integers(0, 3, (examples, 13))
    present = rng.random((examples, 13)) >= _EMPTY
    scaled = np.log1p(np.maximum(counts, 0)) * present
    odds = _FIRST_ODDS + (scaled - scaled.mean(axis=0)) @ rng.normal(0, 0.25, 13)
    names = np.empty((examples, 26), np.uint32)
    there = rng.random((examples, 26)) >= _EMPTY
    for i, size in enumerate(_CATEGORIES):
        ranks = np.arange(1, size + 1)
        cumulative = np.cumsum(1 / ranks)
        drawn = np.searchsorted(cumulative, rng.random(examples) * cumulative[-1])
        odds += np.where(there[:, i], (rng.normal(0, 0.3, size) / ranks)[drawn], 0)
        names[:, i] = rng.integers(2**32, size=size)[drawn]
    clicked = rng.random(examples) < 1 / (1 + np.exp(-odds))
    fields = (
        _decimal(clicked[:, None].astype(int)),
        _decimal(counts) * present[..., None],
        _hexadecimal(names) * there[..., None],
    )
    (directory / "train.txt").write_bytes(_lines(fields))
    (directory / ODDS).write_text("".join(f"{value:.5f}\n" for value in odds.tolist()))


def _decimal(numbers: np.ndarray) -> np.ndarray:
    """Returns the letters of integers, filled up with zeros: uint8 [..., letters]."""
    low, high = int(numbers.min()), int(numbers.max())
    texts = np.array([b"%d" % number for number in range(low, high + 1)])
    return texts[numbers - low][..., None].view(np.uint8)


def _hexadecimal(numbers: np.ndarray) -> np.ndarray:
    """Returns the eight letters of each uint32: uint8 [..., 8]."""
    letters = binascii.hexlify(numbers.astype(">u4").tobytes())
    return np.frombuffer(letters, np.uint8).reshape(*numbers.shape, 8)


def _lines(fields: tuple[np.ndarray, ...]) -> bytes:
    """Returns lines of fields with tabs between, from letters uint8 [n, columns, letters]."""
    columns = [np.insert(each, each.shape[2], ord("\t"), axis=2) for each in fields]
    letters = np.concatenate([each.reshape(len(each), -1) for each in columns], axis=1)
    letters[:, -1] = ord("\n")
    return letters[letters > 0].tobytes()
