"""Trains with one process and with several replicas, and compares the losses step by step.

Each workload, at a reduced size and on synthetic data, is trained in one process, on logical
devices of one process (mirrored) and by several workers (multi-worker).

    python benchmarks/replica_losses.py --steps 50 --replicas 2,3
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_LIMIT_S = 600  # of one training
_SMALL_IMAGES = ("evaluation_side=72", "smallest_side=72", "largest_side=80", "image_size=64")
_SETTINGS = {  # batch size, and hyperparameters
    "autoenc": (60, ()),
    "memnet": (24, ("steps_per_call=1", "linear_start=false")),
    "alexnet": (24, (*_SMALL_IMAGES[:3], "image_size=67", "hidden_units=256", "classes=10")),
    "residual": (
        24,
        (
            *(*_SMALL_IMAGES, "base_filters=8", "classes=10"),
            *("learning_rate=1e-4", "synchronize_statistics=true"),
        ),
    ),
    "transformer": (
        24,
        ("layers=2", "width=64", "hidden_units=128", "vocabulary=200", "lengths=24"),
    ),
}


def main() -> None:
    """Trains what the command line asks for and prints a row for each workload and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=",".join(_SETTINGS), metavar="A,B")
    parser.add_argument("--replicas", default="2,3", metavar="2,3")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    for name in args.workloads.split(","):
        one = _losses(name, args.steps, ["run"], ["--no-xla"])
        for text in args.replicas.split(","):
            mirrored = ["--strategy", "mirrored", "--replicas", text]
            workers = ["launch", "-n", text, "--out", "logs", "--"]
            for strategy, found in (
                ("mirrored", _losses(name, args.steps, ["run"], mirrored)),
                ("multi-worker", _losses(name, args.steps, workers, [])),
            ):
                difference = max(abs(a - b) / abs(b) for a, b in zip(found, one, strict=True))
                print(f"{name}, {text} replicas, {strategy}: {difference:.1e}", flush=True)


def _losses(name: str, steps: int, before: list[str], after: list[str]) -> list[float]:
    """Returns the losses of a training by the command line."""
    batch_size, settings = _SETTINGS[name]
    command = [sys.executable, "-m", "fathom", *before, name, "--train", *after]
    command += [f"--steps={steps}", f"--batch-size={batch_size}", "--threads=1", "--device=cpu"]
    command += [f"--set={setting}" for setting in settings]
    environment = {name: value for name, value in os.environ.items() if name != "FATHOM_DATA_DIR"}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        subprocess.run(
            [*command, f"--json={result}"],
            check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL, timeout=_LIMIT_S,
        )  # fmt: skip
        return json.loads(result.read_text())["steps"]["loss"]


if __name__ == "__main__":
    main()
