"""Induction heads, generated: what followed a special token, when that token returns.

Olsson et al. 2022, "In-context Learning and Induction Heads"; as Gu and Dao 2023, section 4.1.2.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.errors import FathomError
from fathom.shared.language.text import TRAINING_SHARE, TinyShakespeare
from fathom.system.files import read_file

SPECIAL, LETTERS = "*", "abcdefghijklmno"  # a vocabulary of 16
LENGTH, COUNT = 256, 65_536  # of a sequence without its answer, and of them
_FILE = "sequences.txt"


@dataclass(frozen=True)
class Induction(TinyShakespeare):
    """Sequences, each followed by the answer, one after the other as one text."""

    name = "induction"
    title = "induction heads"
    licence = "generated"
    home_page = "https://arxiv.org/abs/2312.00752"
    layout = f"{_FILE}, a sequence a line: a to o, * twice and last, then the answer"
    files = ()

    @classmethod
    def load(cls, directory: Path) -> "Induction":
        """Reads the sequences; the last tenth is for validation.

        Raises:
            FathomError: they cannot be read, are none, have other letters or different lengths, or
                an answer is not what followed the first special token.
        """
        path = directory / _FILE
        lines = read_file(path).decode("ascii", "replace").splitlines()
        for number, line in enumerate(lines, 1):
            sequence, answer = line[:-1], line[-1:]
            first = sequence.find(SPECIAL)
            if (
                len(line) != len(lines[0])
                or not 0 <= first < len(sequence) - 2
                or sequence.count(SPECIAL) != 2
                or sequence[-1] != SPECIAL
                or sequence[first + 1] != answer
                or line.strip(SPECIAL + LETTERS)
            ):
                raise FathomError(f"{path}, line {number}: expected {cls.layout}")
        cut = int(len(lines) * TRAINING_SHARE)
        if not cut:
            raise FathomError(f"{path} has {len(lines)} sequences: two are the fewest")
        return cls("".join(lines[:cut]), "".join(lines[cut:]), None, len(lines[0]))

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes sequences."""
        write(directory, COUNT, LENGTH, np.random.default_rng(seed))


def write(directory: Path, count: int, length: int, rng: np.random.Generator) -> None:
    """Writes a file of sequences of some length."""
    tokens = sequences(count, length, rng)
    letters = np.frombuffer((SPECIAL + LETTERS).encode(), np.uint8)[tokens]
    lines = np.pad(letters, ((0, 0), (0, 1)), constant_values=ord("\n"))
    (directory / _FILE).write_bytes(lines.tobytes())


def sequences(count: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Returns int32 [count, length + 1], the answers last; token 0 is the special one."""
    tokens = rng.integers(1, 1 + len(LETTERS), (count, length + 1), dtype=np.int32)
    places = rng.integers(0, length - 2, count)
    rows = np.arange(count)
    tokens[rows, places] = tokens[:, length - 1] = 0
    tokens[:, length] = tokens[rows, places + 1]
    return tokens
