"""Synthetic clicks in Criteo's format, with known odds."""

from pathlib import Path

import numpy as np

ODDS = "odds.txt"  # beside train.txt: the true log-odds, a line each
_EXAMPLES = 20_000
_CATEGORIES = np.geomspace(4, 400, 26).astype(int)  # of each feature
_EMPTY = 0.1  # share of empty fields
_FIRST_ODDS = -1.2  # about a quarter is clicked


def write(directory: Path, seed: int, examples: int = _EXAMPLES) -> None:
    """Writes ``train.txt`` and the log-odds of its clicks.

    Categories follow Zipf's law. The log-odds are a sum of terms of each number and each category;
    those of categories are alike for all of a rank, so that the rare ones cost little.
    """
    rng = np.random.default_rng(seed)
    counts = rng.geometric(0.05, (examples, 13)) - rng.integers(0, 3, (examples, 13))
    present = rng.random((examples, 13)) >= _EMPTY
    scaled = np.log1p(np.maximum(counts, 0)) * present
    odds = _FIRST_ODDS + (scaled - scaled.mean(axis=0)) @ rng.normal(0, 0.25, 13)
    columns = [np.where(present[:, i], counts[:, i].astype(str), "") for i in range(13)]
    for size in _CATEGORIES:
        ranks = np.searchsorted(
            np.cumsum(1 / np.arange(1, size + 1)), _uniform(size, examples, rng)
        )
        effects = rng.normal(0, 0.3, size) / np.sqrt(np.arange(1, size + 1))
        there = rng.random(examples) >= _EMPTY
        odds += np.where(there, effects[ranks], 0)
        names = np.array([f"{name:08x}" for name in rng.integers(2**32, size=size)])
        columns.append(np.where(there, names[ranks], ""))
    clicked = rng.random(examples) < 1 / (1 + np.exp(-odds))
    rows = zip(clicked.astype(int).astype(str), *columns, strict=True)
    (directory / "train.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    np.savetxt(directory / ODDS, odds, fmt="%.5f")


def _uniform(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns numbers from 0 to the sum of 1 / rank, of which each rank has its share."""
    return rng.random(count) * np.sum(1 / np.arange(1, size + 1))
