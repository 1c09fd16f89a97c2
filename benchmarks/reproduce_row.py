"""Runs one row of a bundle again, and tells whether its interval holds on this machine.

python benchmarks/reproduce_row.py here.json --workload memnet --mode train
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from fathom.measure.report.intervals import ratio
from fathom.results.atlas import Bundle
from fathom.results.records import RunResult

_LEAST = 3  # processes, of which an interval can be told
_LIMIT_S = 900


def main() -> None:
    """Exits with 1 if the new interval and the row's have nothing in common."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    args = parser.parse_args()
    rows = Bundle.read(args.bundle).rows
    found = [row for row in rows if (row.workload, row.mode) == (args.workload, args.mode)]
    if not found:
        sys.exit(f"{args.bundle} has no {args.workload} {args.mode}")
    row, command = found[0], shlex.split(found[0].command)
    medians, shares = [], []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "result.json"
        for _ in range(max(_LEAST, len(row.step_seconds))):
            subprocess.run(
                [sys.executable, *command[1:], f"--json={path}"], check=True, timeout=_LIMIT_S
            )
            result = RunResult.read(path)
            medians.append(result.steps.median)
            shares.append(result.cpu_share)
    again = ratio(np.array(medians), np.ones(len(medians)))
    low, high = 1e3 * row.low, 1e3 * row.high
    print(f"{command[1:]}")
    print(f"the row:  {1e3 * geometric_mean(row.step_seconds):.4g} ms ({low:.4g} to {high:.4g})")
    print(f"again:    {1e3 * again.value:.4g} ms ({1e3 * again.low:.4g} to {1e3 * again.high:.4g})")
    print(f"shares of the processor: {[round(share, 2) for share in shares if share is not None]}")
    within = again.low <= row.high and row.low <= again.high
    print("within its interval" if within else "NOT within its interval")
    sys.exit(not within)


if __name__ == "__main__":
    main()
