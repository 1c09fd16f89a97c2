"""Runs every workload, training and inference, each in a fresh process: ``./runtest.sh``."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from fathom import workloads
from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.terminal import Parser, console, run_command


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the batch and exits: 0 when every run succeeded, 1 when one failed, 2 on bad use."""
    parser = Parser(prog="runtest.sh", description="Runs the workloads, training and inference.")
    parser.add_argument("--workloads", metavar="A,B", help="which; default: all of this version")
    parser.add_argument("--device", metavar="D", help="cpu, gpu or gpu:N; default: a GPU if any")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps a run")
    parser.add_argument("--batch-size", type=int, metavar="B", help="default: each paper's")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: results/<date and time>")
    chosen = parser.parse_args(arguments)
    run_command("runtest.sh", lambda: _run(chosen))


def _run(chosen: argparse.Namespace) -> None:
    names = chosen.workloads.split(",") if chosen.workloads else workloads.existing()
    for name in names:
        if name not in workloads.existing():
            raise unknown_option("workload", name, workloads.existing())
    if chosen.steps < 1:
        raise FathomError(f"--steps must be at least 1, not {chosen.steps}")
    out = chosen.out or Path("results") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FathomError(f"cannot make {out}: {error.strerror}") from error
    screen = console()
    runs = [(name, mode) for name in names for mode in ("train", "infer")]
    rows = []
    for number, (name, mode) in enumerate(runs, 1):
        screen.print(f"[{number}/{len(runs)}] {name} --{mode}: ", end="")
        started = time.perf_counter()
        result = _run_one(name, mode, chosen, out)
        state = "failed" if isinstance(result, str) else "done"
        screen.print(f"{state} in {time.perf_counter() - started:.1f} s")
        rows.append((name, mode, result))
    _print_table(rows, screen)
    screen.print(f"results and logs: {out}")
    if any(isinstance(result, str) for _, _, result in rows):
        sys.exit(1)


def _run_one(name: str, mode: str, chosen: argparse.Namespace, out: Path) -> dict[str, Any] | str:
    """Runs one workload; returns its result document, or the last line that it printed."""
    document, log = out / f"{name}-{mode}.json", out / f"{name}-{mode}.log"
    document.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"fathom.{name}", f"--{mode}", f"--json={document}"]
    command += [f"--steps={chosen.steps}"]
    command += [f"--device={chosen.device}"] if chosen.device else []
    command += [f"--batch-size={chosen.batch_size}"] if chosen.batch_size else []
    with log.open("w") as file:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        ).returncode
    if code == 0:
        return json.loads(document.read_text())
    lines = log.read_text().splitlines()
    return f"exit code {code}: {lines[-1] if lines else 'it printed nothing'}"


def _print_table(rows: list[tuple[str, str, dict[str, Any] | str]], screen: Console) -> None:
    table = Table(box=None, header_style="bold")
    for title in ("workload", "mode", "device", "data"):
        table.add_column(title)
    for title in ("batch", "step ms", "spread", "examples/s", "GFLOP/s", "memory GiB"):
        table.add_column(title, justify="right")
    failures = []
    for name, mode, result in rows:
        if isinstance(result, str):
            failures.append(f"{name} --{mode} failed: {result}")
            continue
        steps, speed = result["steps"], result["throughput"]
        table.add_row(
            name,
            mode,
            result["environment"]["device"],
            result["data"]["kind"],
            str(result["hyperparameters"]["batch_size"]),
            f"{1e3 * steps['median']:,.2f}",
            f"{steps['spread']:.1%}",
            f"{speed['examples_per_second']:,.1f}",
            f"{speed['flops_per_second'] / 1e9:,.1f}",
            f"{result['memory']['peak_resident_bytes'] / 2**30:.2f}",
        )
    screen.print(table)
    for line in failures:
        screen.print(line)


if __name__ == "__main__":
    main()
