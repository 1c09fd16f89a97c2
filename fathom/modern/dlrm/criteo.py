"""Criteo's clicks on advertisements in their raw format (Kaggle 2014)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fathom.core.data import DataSet
from fathom.core.data.files import read_known
from fathom.errors import FathomError
from fathom.modern.dlrm import synthetic
from fathom.system.files import open_file

NUMBERS, CATEGORIES = 13, 26
_COLUMNS = 1 + NUMBERS + CATEGORIES
_PART = 2**24  # bytes parsed together
_LONGEST = 18  # characters of an integer
_DIGITS = np.full(256, -1, np.int8)
_DIGITS[list(b"0123456789abcdef")] = range(16)


@dataclass(frozen=True, eq=False)
class Criteo(DataSet):
    """The clicks in memory, in the order of time."""

    name = "criteo"
    title = "Criteo display advertising"
    licence = "Criteo's terms: research, non-commercial"
    home_page = "https://ailab.criteo.com/ressources/"
    synthesis = 2
    layout = "train.txt: label, 13 integers, 26 categories a line, with tabs between"

    clicked: np.ndarray  # int32 [n], 1 where the advertisement was clicked
    numbers: np.ndarray  # float32 [n, 13], log(1 + x); 0 where empty or negative
    categories: np.ndarray  # int64 [n, 26], each a number below 2^32; -1 where empty
    odds: np.ndarray | None  # float32 [n], the true log-odds of a synthetic set; None for others

    @property
    def training_examples(self) -> int:
        """Number of the first examples, which train; the last seventh are the test part."""
        return len(self.clicked) - max(1, len(self.clicked) // 7)

    @classmethod
    def load(cls, directory: Path) -> "Criteo":
        """Reads the file.

        Raises:
            FathomError: it is missing, unreadable, empty or malformed; the message names the line.
                Or the log-odds beside it are.
        """
        path = directory / "train.txt"
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        first = 1  # line of the next part
        with open_file(path) as file:
            while text := file.read(_PART) + file.readline():
                parts.append(_parse(text, path, first))
                first += len(parts[-1][0])
        if not parts:
            raise FathomError(f"{path} is empty")
        clicked, numbers, categories = map(np.concatenate, zip(*parts, strict=True))
        if len(clicked) < 2:
            raise FathomError(f"{path} has one example, which is for the test: expected more")
        odds = read_known(directory / synthetic.ODDS, len(clicked))
        known = None if odds is None else odds.astype(np.float32)
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


def _parse(text: bytes, path: Path, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns labels, numbers and categories of some whole lines, the first of which is given."""
    text = text.replace(b"\r\n", b"\n")
    letters = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
    ends = np.flatnonzero((letters == ord("\t")) | (letters == ord("\n")))
    columns = np.diff(np.flatnonzero(letters[ends] == ord("\n")), prepend=-1)
    _check(
        columns == _COLUMNS,
        *(path, first, lambda i: f"{columns[i]} columns, expected {_COLUMNS} with tabs between"),
    )
    lengths = np.diff(ends, prepend=-1).reshape(-1, _COLUMNS) - 1
    after = ends.reshape(-1, _COLUMNS)
    numbers, known = _integers(letters, after[:, : 1 + NUMBERS], lengths[:, : 1 + NUMBERS])
    _check(known, path, first, lambda i: "an integer column has no integer")
    label = (lengths[:, 0] == 1) & (numbers[:, 0] >= 0) & (numbers[:, 0] <= 1)
    _check(label, path, first, lambda i: "the label is not 0 or 1")
    categories, known = _hexadecimal(letters, after[:, 1 + NUMBERS :], lengths[:, 1 + NUMBERS :])
    _check(known, path, first, lambda i: "a category is not of eight hexadecimal digits")
    scaled = np.log1p(np.maximum(numbers[:, 1:], 0)).astype(np.float32)
    return numbers[:, 0].astype(np.int32), scaled, categories


def _check(good: np.ndarray, path: Path, first: int, words: Callable[[int], str]) -> None:
    """Raises FathomError, which names the line, if one of the lines is not good: bool [lines]."""
    if not good.all():
        wrong = int(good.argmin())
        raise FathomError(f"{path}, line {first + wrong}: {words(wrong)}")


def _integers(
    letters: np.ndarray, ends: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns integers, 0 for empty fields, int64, and the lines that have no other: bool [n]."""
    negative = (lengths > 1) & (letters[ends - lengths] == ord("-"))
    digits = lengths - negative
    values, good = np.zeros(ends.shape, np.int64), digits <= _LONGEST
    for i in range(min(int(digits.max()), _LONGEST)):
        digit = np.where(i < digits, _DIGITS[letters[ends - 1 - i]], 0)
        good &= (digit >= 0) & (digit <= 9)
        values += digit.astype(np.int64) * 10**i
    return np.where(negative, -values, values), good.all(axis=1)


def _hexadecimal(
    letters: np.ndarray, ends: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of eight digits, -1 for empty fields, and the lines that have no other."""
    values, good = np.zeros(ends.shape, np.int64), (lengths == 8) | (lengths == 0)
    for i in range(8):
        digit = _DIGITS[letters[ends - 8 + i]]
        good &= (digit >= 0) | (lengths == 0)
        values = 16 * values + digit
    return np.where(lengths == 0, -1, values), good.all(axis=1)
