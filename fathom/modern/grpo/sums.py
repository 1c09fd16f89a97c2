"""Sums of two numbers, generated: questions whose answers a rule can judge."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.errors import FathomError
from fathom.shared.language.text import TinyShakespeare
from fathom.system.files import read_file

END = "\n"  # of an answer
_FILES = ("training.txt", "held-out.txt")
_LIMIT = 100  # operands are below it
_HELD_OUT = 0.1  # of the pairs of operands
_SUM = re.compile(r"(\d+)\+(\d+)=(\d+)", re.ASCII)


@dataclass(frozen=True)
class Sums(TinyShakespeare):
    """Sums one after the other as one text, each filled up to the same length with ``END``.

    Attributes:
        question: characters of a question; ``sequence`` are those of a sum with at least one
            ``END``.
    """

    name = "sums"
    title = "sums of two numbers"
    licence = "generated"
    home_page = "https://arxiv.org/abs/2402.03300"
    layout = "training.txt and held-out.txt, a sum a line, such as 07+38=45"
    files = ()

    question: int = 0

    @classmethod
    def load(cls, directory: Path) -> "Sums":
        """Reads the sums.

        Raises:
            FathomError: they cannot be read, are none, are wrong, have questions of several
                lengths, or both parts have the same two operands.
        """
        parts = [_read(directory / name) for name in _FILES]
        pairs = [{frozenset(line.partition("=")[0].split("+")) for line in part} for part in parts]
        if both := pairs[0] & pairs[1]:
            operands = " and ".join(sorted(both.pop()))
            raise FathomError(f"{directory}: both files have a sum of {operands}")
        lines = [line for part in parts for line in part]
        question = lines[0].index("=") + 1
        if any(line.index("=") + 1 != question for line in lines):
            raise FathomError(f"{directory}: the questions have several lengths")
        length = max(map(len, lines)) + len(END)
        training, held_out = ("".join(x.ljust(length, END) for x in part) for part in parts)
        return cls(training, held_out, None, length, question)

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes all sums of two numbers of two digits, a tenth of the pairs held out."""
        rng = np.random.default_rng(seed)
        pairs = rng.permutation(np.stack(np.triu_indices(_LIMIT), 1))
        cut = int(len(pairs) * _HELD_OUT)
        for name, part in zip(_FILES, (pairs[cut:], pairs[:cut]), strict=True):
            both_ways = np.unique(np.concatenate([part, part[:, ::-1]]), axis=0)
            lines = [f"{a:02}+{b:02}={a + b}\n" for a, b in rng.permutation(both_ways)]
            (directory / name).write_text("".join(lines))


def _read(path: Path) -> list[str]:
    """Returns the lines of a file of sums."""
    lines = read_file(path).decode("ascii", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        found = _SUM.fullmatch(line)
        if found is None or int(found[1]) + int(found[2]) != int(found[3]):
            raise FathomError(f"{path}, line {number}: expected a sum such as 07+38=45")
    if not lines:
        raise FathomError(f"{path} is empty")
    return lines
