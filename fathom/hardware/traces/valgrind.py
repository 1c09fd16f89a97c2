"""The accesses of a bare program, as Valgrind's tool Lackey prints them while it runs."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fathom.errors import FathomError
from fathom.hardware.traces.block import LOAD, MODIFY, STORE, Block
from fathom.system.files import read_file

_WAIT = 6 * 3600  # seconds for a program
_BYTES = 1 << 22  # of text that are read at once
_ADDRESS = 3  # its place in a line
_NO_ACCESS = 255
OUTSIDE = 65535  # of all marks, in the place of a layer
_KINDS = {"L": LOAD, "S": STORE, "M": MODIFY}
BEGIN, END = "fathom_roi_begin", "fathom_roi_end"  # variables of roi.h


def layers_of(folder: Path, name: str) -> list[str]:
    """Returns the layers of a program by their numbers; 0 is where they are not marked.

    Raises:
        FathomError: as ``marks``.
    """
    marks(folder, name)
    return [name, *read_file(folder / "layers.txt").decode().splitlines()]


def blocks(folder: Path, name: str) -> Iterator[Block]:
    """Yields what a program loads and stores in its first step, between its marks.

    Places are addresses of instructions. An access that crosses a line is one.

    Args:
        folder: that ``fathom export --to program`` wrote, built with ``ROI=VALGRIND``, and with
            ``LAYER=all`` where layers are counted apart.
        name: of the program.

    Raises:
        FathomError: the program has no marks, or Valgrind is missing or failed.
    """
    for block, inside in everything(folder, name):
        if inside.any():
            yield Block(*(each[inside] for each in block))


def everything(folder: Path, name: str) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields all accesses of a program, with whether each is in its step; as ``blocks``."""
    addresses = marks(folder, name)
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=2"]
    command += [f"./{name}", "--steps", "1"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as program:
        limit = threading.Timer(_WAIT, program.kill)
        limit.start()
        try:
            assert program.stderr is not None
            rest, place, layer = b"", 0, OUTSIDE
            while text := program.stderr.read(_BYTES):
                text, newline, rest = (rest + text).rpartition(b"\n")
                if not newline:
                    continue
                block, place = _parsed(text + newline, place)
                block, layer = _between(block, addresses, layer)
                yield block, block.layer != OUTSIDE
            if program.wait(timeout=60):
                raise FathomError(f"{folder / name} failed: run it without Valgrind")
        finally:
            limit.cancel()
            program.kill()
            program.wait(timeout=60)


def marks(folder: Path, name: str) -> tuple[range, range]:
    """Returns the addresses that are set where a step, or a layer by its number, begins and ends.

    Raises:
        FathomError: the program has none, or Valgrind is missing.
    """
    for tool, package in (("valgrind", "valgrind"), ("nm", "binutils")):
        if not shutil.which(tool):
            raise FathomError(f"a program is traced by Valgrind and nm: install {package}")
    program = folder / name
    if not os.access(program, os.X_OK):
        raise FathomError(f"{program} is no program: write it by fathom export --to program")
    command = ["nm", "--print-size", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    symbols = {
        name: range(int(first, 16), int(first, 16) + int(size, 16))
        for first, size, name in re.findall(r"^(\w+) (\w+) \w (\w+)$", found, re.M)
    }
    if not {BEGIN, END} <= symbols.keys():
        raise FathomError(f"{program} has no marks: ROI=VALGRIND sh {folder / 'build.sh'}")
    return symbols[BEGIN], symbols[END]


def _parsed(text: bytes, place: int) -> tuple[Block, int]:
    """Returns the accesses of lines such as `` L 1ffe,8`` and the last instruction's address."""
    letters = np.frombuffer(text, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(letters == ord("\n"))[:-1] + 1])
    commas = np.append(np.flatnonzero(letters == ord(",")), len(letters))
    first, second = letters[starts], letters[np.minimum(starts + 1, len(letters) - 1)]
    kinds = np.select([second == ord(each) for each in _KINDS], [*_KINDS.values()], _NO_ACCESS)
    executed = first == ord("I")
    known = executed | ((first == ord(" ")) & (kinds != _NO_ACCESS))
    starts, kinds, executed = starts[known], kinds[known], executed[known]
    values = _hexadecimal(letters, starts + _ADDRESS, commas[np.searchsorted(commas, starts)])
    latest = np.maximum.accumulate(np.where(executed, np.arange(len(values)), -1))
    places = np.where(latest < 0, np.uint64(place), values[latest] if len(values) else values)
    columns = (values, kinds.astype(np.uint8), places, np.zeros(len(values), np.uint16))
    block = Block(*(each[~executed] for each in columns))
    return block, int(places[-1]) if len(places) else place


def _hexadecimal(letters: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the numbers that stand in a text between two places, uint64."""
    values = np.zeros(len(begins), np.uint64)
    for digit in range(int((ends - begins).max(initial=0))):
        place = begins + digit
        letter = letters[np.minimum(place, len(letters) - 1)]
        number = np.where(letter >= ord("a"), letter - (ord("a") - 10), letter - ord("0"))
        longer = values * np.uint64(16) + number.astype(np.uint64)
        values = np.where(place < ends, longer, values)
    return values


def _between(block: Block, marks: tuple[range, range], layer: int) -> tuple[Block, int]:
    """Returns a block, which begins in a layer, with the layers of its accesses and of the next."""
    stores = block.kind == STORE
    begins, ends = ((block.address >= m.start) & (block.address < m.stop) & stores for m in marks)
    at = np.flatnonzero(begins | ends)
    entered = np.where(begins[at], block.address[at] - np.uint64(marks[0].start), OUTSIDE)
    states = np.concatenate([[layer], entered]).astype(np.uint16)
    found = states[np.cumsum(begins | ends)]
    return block._replace(layer=np.where(begins, OUTSIDE, found).astype(np.uint16)), int(states[-1])
