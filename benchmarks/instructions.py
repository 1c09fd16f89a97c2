"""Counts the instructions of pieces that are too short to time, of two versions of Fathom.

A count is that of a process which calls the piece many times less that of one which calls it once,
under Valgrind's Cachegrind: other work on the machine does not change it.

    python benchmarks/instructions.py ../release-venv/bin/python ../main-venv/bin/python
"""

import os
import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

# Name: preparation, the call, and how often.
PIECES = {
    "statistics of steps": (
        "from fathom.results.steps import Steps\n"
        "times = [0.001 * (i % 7 + 1) for i in range(1000)]\n"
        "given = dict(first=0, warmup=2, seconds=times, input_wait=times, loss=times)",
        "Steps(**given).model_dump()",
        200,
    ),
    "a machine's file": (
        "from fathom.hardware.accelerators import machine",
        "machine.load('h100')",
        3000,
    ),
}
LIMIT_S = 600


def main() -> None:
    """Exits with 1 if the second version takes more by the limit."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs=2, metavar="PYTHON", help="of the older and the newer")
    parser.add_argument(
        "--limit", type=float, default=5, help="per cent that are more than chance; default: 5"
    )
    args = parser.parse_args()
    slower = False
    for name, piece in PIECES.items():
        older, newer = (count(python, *piece) for python in args.pythons)
        more = 100 * (newer / older - 1)
        slower |= more > args.limit
        print(f"{name}: {older / 1e6:.2f} and {newer / 1e6:.2f} million a call, {more:+.1f} %")
    sys.exit(slower)


def count(python: str, preparation: str, call: str, times: int) -> float:
    """Returns the instructions of a call."""
    few, many = (
        counted(python, f"{preparation}\nfor _ in range({n}):\n    {call}\n")
        for n in (1, 1 + times)
    )
    return (many - few) / times


def counted(python: str, program: str) -> int:
    """Returns the instructions of a process."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *("valgrind", "--tool=cachegrind", "--cache-sim=no"),
                *(f"--cachegrind-out-file={Path(folder, 'out')}", python, "-c", program),
            ],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            cwd=folder,  # no checkout's package is before the installed one's
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{python} failed: {done.stderr.strip()[-300:]}")
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    main()
