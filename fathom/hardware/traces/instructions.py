"""The instructions of a bare program's steps by kind, as Valgrind's tool Callgrind counts them."""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd

from fathom.errors import FathomError
from fathom.hardware.traces import valgrind

_WAIT = 6 * 3600  # seconds for a program
_ARITHMETIC = re.compile(
    r"v?(?:fn?m(?:add|sub)\d*|add|sub|mul|div|sqrt|max|min|cmp\w*?)([ps])[sd]$"
)
_BRANCH = re.compile(r"j|call|ret")
_MOVE = re.compile(r"mov|cmov|push|pop(?!cnt)")
_VECTOR = re.compile(r"%[xy]mm")  # registers


def mix(folder: Path, name: str) -> pd.DataFrame:
    """Returns how many instructions of each kind a program executes in its first step.

    Args:
        folder: that ``fathom export --to program`` wrote for x86-64, built with ``ROI=VALGRIND``.
        name: of the program.

    Returns:
        ``kind``, ``instructions`` and ``share``, the largest first.

    Raises:
        FathomError: the program has no marks or is not for this machine, or Valgrind or objdump is
            missing or failed.
    """
    valgrind.marks(folder, name)
    if not shutil.which("objdump"):
        raise FathomError("instructions are classified by objdump: install binutils")
    program = _disassembled(folder / name)
    counts: Counter[str] = Counter()
    for address, count in _counts(folder, name).items():
        counts[kind_of(*program[address])] += count
    table = pd.DataFrame(counts.most_common(), columns=["kind", "instructions"])
    return table.assign(share=table.instructions / table.instructions.sum())


def _counts(folder: Path, name: str) -> Counter[int]:
    """Returns how often the instruction at each address is executed, between the marks."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes"]
        command += ["--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={out}"]
        command += [f"./{name}", "--steps", "1"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_WAIT)
        except subprocess.TimeoutExpired as error:
            raise FathomError(f"{folder / name} did not end within {_WAIT:,} s") from error
        if done.returncode or not out.exists():
            raise FathomError(f"{folder / name} failed: run it without Valgrind")
        return parsed(out.read_text())


def parsed(text: str) -> Counter[int]:
    """Returns the counts by address in a file of Callgrind with ``--dump-instr=yes``.

    The line after ``calls=`` has what the called function executes, which is counted there.
    """
    counts: Counter[int] = Counter()
    called = False
    for line in text.splitlines():
        if line.startswith("calls="):
            called = True
        elif line.startswith("0x"):
            address, _, count, *_ = [*line.split(), "0"]
            if not called:
                counts[int(address, 16)] += int(count)
            called = False
    return counts


def _disassembled(program: Path) -> dict[int, tuple[str, str]]:
    """Returns the mnemonic and the operands at each address of a program."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT)
    rows = re.findall(
        r"^\s*([0-9a-f]+):\t(?:(?:rep\w*|lock|bnd|notrack) )*(\S+)(.*)$", found.stdout, re.M
    )
    return {int(address, 16): (mnemonic, operands) for address, mnemonic, operands in rows}


def kind_of(mnemonic: str, operands: str) -> str:
    """Returns the kind of an instruction of x86-64, in AT&T's syntax."""
    if _BRANCH.match(mnemonic):
        return "branches and calls"
    if found := _ARITHMETIC.match(mnemonic):
        return "vector arithmetic" if found[1] == "p" else "scalar floating-point arithmetic"
    if _VECTOR.search(operands):
        return "other work on vector registers"  # moves, shuffles, logic, conversions, integers
    if _MOVE.match(mnemonic):
        return "moves"
    return "integer arithmetic and logic"
