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
from fathom.hardware.traces.schedule import LOAD, MODIFY, STORE, Block

_WAIT = 6 * 3600  # seconds for a program
_LINES = 1 << 22  # bytes of text that are read at once
_KINDS = {"L": LOAD, "S": STORE, "M": MODIFY}
BEGIN, END = "fathom_roi_begin", "fathom_roi_end"  # variables of roi.h


def blocks(folder: Path, name: str) -> Iterator[Block]:
    """Yields what a program loads and stores in its first step, between its marks.

    Places are addresses of instructions. An access that crosses a line is one.

    Args:
        folder: that ``fathom export --to program`` wrote, built with ``ROI=VALGRIND``.
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
    program = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    limit = threading.Timer(_WAIT, program.kill)
    limit.start()
    try:
        assert program.stderr is not None
        place, inside = 0, False
        while lines := program.stderr.readlines(_LINES):
            block, place = _parsed(lines, place)
            mask, inside = _between(block, addresses, inside)
            yield block, mask
        if program.wait(timeout=60):
            raise FathomError(f"{folder / name} failed: run it without Valgrind")
    finally:
        limit.cancel()
        program.kill()
        program.wait(timeout=60)
        if program.stderr:
            program.stderr.close()


def marks(folder: Path, name: str) -> tuple[int, int]:
    """Returns the addresses of the variables that are set where a step begins and ends.

    Raises:
        FathomError: the program has none, or Valgrind is missing.
    """
    if not shutil.which("valgrind"):
        raise FathomError("a program is traced by Valgrind: install valgrind")
    program = folder / name
    if not os.access(program, os.X_OK):
        raise FathomError(f"{program} is no program: write it by fathom export --to program")
    found = subprocess.run(["nm", program], capture_output=True, text=True, timeout=60).stdout
    symbols = {name: int(value, 16) for value, name in re.findall(r"^(\w+) \w (\w+)$", found, re.M)}
    if not {BEGIN, END} <= symbols.keys():
        raise FathomError(f"{program} has no marks: ROI=VALGRIND sh {folder / 'build.sh'}")
    return symbols[BEGIN], symbols[END]


def _parsed(lines: list[bytes], place: int) -> tuple[Block, int]:
    """Returns the accesses of lines such as `` L 1ffe,8`` and the last instruction's address."""
    rows = []
    for line in lines:
        mark, _, rest = line.decode(errors="replace").partition(",")[0].strip().partition(" ")
        if mark == "I":
            place = int(rest, 16)
        elif mark in _KINDS:
            rows.append((int(rest, 16), _KINDS[mark], place))
    table = np.array(rows, np.uint64).reshape(-1, 3)
    return Block(table[:, 0], table[:, 1].astype(np.uint8), table[:, 2]), place


def _between(block: Block, marks: tuple[int, int], inside: bool) -> tuple[np.ndarray, bool]:
    """Returns which accesses are between the marks, without these."""
    stores = block.kind == STORE
    begins, ends = ((block.address == mark) & stores for mark in marks)
    change = np.zeros(len(stores) + 1, int)
    change[1:] = np.cumsum(begins.astype(int) - ends.astype(int))
    within = (inside + change) > 0
    return within[1:] & ~begins, bool(within[-1])
