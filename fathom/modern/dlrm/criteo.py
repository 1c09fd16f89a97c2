"""Criteo's clicks on advertisements in their raw format (Kaggle 2014)."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fathom.data import DataSet
from fathom.errors import FathomError
from fathom.modern.dlrm import synthetic
from fathom.system.files import open_file

NUMBERS, CATEGORIES = 13, 26
_COLUMNS = 1 + NUMBERS + CATEGORIES
_LINES = 50_000  # parsed together
_DIGITS = np.full(256, -1, np.int64)
_DIGITS[list(b"0123456789abcdef")] = range(16)


@dataclass(frozen=True, eq=False)
class Criteo(DataSet):
    """The clicks in memory, in the order of time.

    Attributes:
        clicked: int32 [n], 1 where the advertisement was clicked.
        numbers: float32 [n, 13], log(1 + x); 0 where empty or negative.
        categories: int64 [n, 26], each a number below 2^32; -1 where empty.
        odds: float32 [n], the true log-odds of a synthetic set; None for others.
    """

    name = "criteo"
    title = "Criteo display advertising"
    licence = "Criteo's terms: research, non-commercial"
    home_page = "https://ailab.criteo.com/ressources/"
    layout = "train.txt: label, 13 integers, 26 categories a line, with tabs between"

    clicked: np.ndarray
    numbers: np.ndarray
    categories: np.ndarray
    odds: np.ndarray | None

    @property
    def training_examples(self) -> int:
        """Number of the first examples, which train; the last seventh are the test part."""
        return len(self.clicked) - max(1, len(self.clicked) // 7)

    @classmethod
    def load(cls, directory: Path) -> "Criteo":
        """Reads the file.

        Raises:
            FathomError: it is missing, unreadable, empty or malformed; the message names the line.
        """
        path = directory / "train.txt"
        parts = []
        with open_file(path) as file:
            for first in itertools.count(1, _LINES):
                lines = list(itertools.islice(file, _LINES))
                if not lines:
                    break
                parts.append(_parse(lines, path, first))
        if not parts:
            raise FathomError(f"{path} is empty")
        clicked, numbers, categories = map(np.concatenate, zip(*parts, strict=True))
        odds = directory / synthetic.ODDS
        known = np.loadtxt(odds, np.float32, ndmin=1) if odds.exists() else None
        return cls(clicked, numbers, categories, known)

    @classmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads the whole file."""
        criteo = cls.load(directory)
        return f"{len(criteo.clicked):,} examples, {criteo.clicked.mean():.1%} of them clicked"

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes clicks with known odds, and the odds."""
        synthetic.write(directory, seed)


def _parse(lines: list[bytes], path: Path, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns labels, numbers and categories of some lines, the first of which is given."""
    rows = [line.rstrip(b"\r\n").split(b"\t") for line in lines]
    for number, row in enumerate(rows, first):
        if len(row) != _COLUMNS:
            raise FathomError(
                f"{path}, line {number}: {len(row)} columns, expected {_COLUMNS} with tabs between"
            )
    table = np.array(rows)
    numbers = _integers(table[:, : 1 + NUMBERS], path, first)
    wrong = np.flatnonzero((table[:, 0] != b"0") & (table[:, 0] != b"1"))
    if len(wrong):
        raise FathomError(f"{path}, line {first + wrong[0]}: the label is not 0 or 1")
    categories = _hexadecimal(table[:, 1 + NUMBERS :], path, first)
    scaled = np.log1p(np.maximum(numbers[:, 1:], 0)).astype(np.float32)
    return numbers[:, 0].astype(np.int32), scaled, categories


def _integers(texts: np.ndarray, path: Path, first: int) -> np.ndarray:
    """Returns integers, with 0 for empty texts: int64 [n, columns]."""
    filled = np.where(texts == b"", b"0", texts)
    try:
        return filled.astype(np.int64)
    except (ValueError, OverflowError):
        digits = np.char.isdigit(np.char.lstrip(filled, b"-"))
        wrong = np.flatnonzero(~digits.all(axis=1))
        place = f"{path}, line {first + wrong[0]}" if len(wrong) else str(path)
        raise FathomError(f"{place}: an integer column has no integer") from None


def _hexadecimal(texts: np.ndarray, path: Path, first: int) -> np.ndarray:
    """Returns the values of eight hexadecimal digits, and -1 for empty texts: int64 [n, 26]."""
    lengths = np.char.str_len(texts)
    characters = texts.astype("S8").view(np.uint8).reshape(*texts.shape, 8)
    digits = _DIGITS[characters]
    wrong = (lengths != 0) & ((lengths != 8) | (digits < 0).any(axis=2))
    if wrong.any():
        line = first + int(np.flatnonzero(wrong.any(axis=1))[0])
        raise FathomError(f"{path}, line {line}: a category is not of eight hexadecimal digits")
    values = (digits << np.arange(28, -1, -4)).sum(axis=2)
    return np.where(lengths == 0, -1, values)
