"""Runs every workload, training and inference, each in a new process: ``./runtest.sh``."""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fathom import workloads
from fathom.cli.parser import Parser, add_options
from fathom.cli.terminal import console, new_table, run_command
from fathom.options import MODES
from fathom.system.folders import claim_folder
from fathom.system.processes import run_python

if TYPE_CHECKING:
    from fathom.results.profile import Profile
    from fathom.results.records import RunResult


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the suite and exits: 0 if every run succeeded, 1 if any failed, 2 for usage errors."""
    parser = Parser(prog="runtest.sh", description="Runs the workloads, training and inference.")
    add_options(parser, "workloads", "device")
    add_options(parser, "steps", default=10, help="steps per run; default: %(default)s")
    add_options(parser, "batch-size")
    text = "also profile the runs, and list their most expensive ops"
    parser.add_argument("--profile", action="store_true", help=text)
    add_options(parser, "out", help="default: results/<date and time>")
    add_options(parser, "version")
    run_command("runtest.sh", lambda: _run(parser.parse_args(arguments)))


def _run(args: argparse.Namespace) -> None:
    now = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    out = claim_folder(args.out or Path("results") / now, "runtest")
    screen = console()
    screen.print(f"results and logs: {out}")  # here too, in case the suite is interrupted
    runs = [(name, mode) for name in args.workloads or workloads.EIGHT for mode in MODES]
    rows: list[tuple[str, str, RunResult | str]] = []
    profiles: list[tuple[str, str, Profile | str]] = []
    for number, (name, mode) in enumerate(runs, 1):
        started = time.perf_counter()
        rows.append((name, mode, _run_one(name, mode, args, out, screen)))
        if args.profile:
            profiles.append((name, mode, _profile_one(name, mode, args, out, screen)))
        failed = any(isinstance(done[-1][2], str) for done in (rows, profiles) if done)
        seconds = time.perf_counter() - started
        ended = f"{'failed' if failed else 'done'} in {seconds:.1f} s"
        screen.print(f"[{number}/{len(runs)}] {name} --{mode}: {ended}")
    _print_table(rows, screen)
    if args.profile:
        _print_profiles(profiles, screen)
    screen.print(f"results and logs: {out}")
    if any(isinstance(result, str) for _, _, result in rows + profiles):
        sys.exit(1)


def _run_one(
    name: str, mode: str, args: argparse.Namespace, out: Path, screen: Console
) -> "RunResult | str":
    """Runs one workload; returns its result, or a one-line error."""
    from fathom.results.records import RunResult

    new = out / f".{name}-{mode}.json"  # keeps an earlier result until this run succeeds
    command = ["-m", "fathom", "run", name, f"--{mode}", f"--json={new}"]
    try:
        failure = _execute(command, args, out / f"{name}-{mode}.log", screen)
        return failure or RunResult.read(new.replace(out / f"{name}-{mode}.json"))
    finally:
        new.unlink(missing_ok=True)


def _profile_one(
    name: str, mode: str, args: argparse.Namespace, out: Path, screen: Console
) -> "Profile | str":
    """Profiles one workload; returns its profile, or a one-line error."""
    from fathom.results.profile import Profile

    folder = out / f"{name}-{mode}-profile"
    command = ["-m", "fathom", "profile", name, f"--{mode}", f"--out={folder}"]
    failure = _execute(command, args, out / f"{name}-{mode}-profile.log", screen)
    return failure or Profile.read(folder / "profile.json")


def _execute(
    command: list[str], args: argparse.Namespace, log: Path, screen: Console
) -> str | None:
    """Runs a command with the chosen options; returns a one-line error, if any.

    Meanwhile a terminal shows the log's last line.
    """
    command = [*command, f"--steps={args.steps}"]
    command += [f"--device={args.device}"] if args.device else []
    command += [f"--batch-size={args.batch_size}"] if args.batch_size else []
    with screen.status(log.stem) as status:
        return run_python(command, log, lambda line: status.update(Text(f"{log.stem}: {line}")))


def _print_table(rows: list[tuple[str, str, "RunResult | str"]], screen: Console) -> None:
    # Narrow gaps, so that the table fits into a terminal of 80 columns.
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("workload", "mode", "device", "data"):
        table.add_column(title)
    for title in ("batch", "step ms", "spread", "examples/s", "GFLOP/s", "GiB"):
        table.add_column(title, justify="right")
    failures = []
    for name, mode, result in rows:
        if isinstance(result, str):
            failures.append(f"{name} --{mode} failed: {result}")
            continue
        steps, speed, memory = result.steps, result.throughput, result.memory
        peak = memory.peak_gpu_bytes or memory.peak_resident_bytes or 0  # of the device
        table.add_row(
            name,
            mode,
            result.environment.device,
            result.data.kind,
            str(result.hyperparameters.batch_size),
            f"{1e3 * steps.median:,.2f}",
            "" if steps.spread is None else f"{steps.spread:.1%}",
            f"{speed.examples_per_second:,.1f}",
            f"{(speed.flops_per_second or 0) / 1e9:,.1f}",
            f"{peak / 2**30:.2f}",
        )
    screen.print(table)
    for line in failures:
        screen.print(line)


def _print_profiles(profiles: list[tuple[str, str, "Profile | str"]], screen: Console) -> None:
    from fathom.measure import frames
    from fathom.measure.profile import tables

    heaviest = "most expensive op types, by the paper's names"
    table = new_table(("workload", "mode", heaviest, "outside ops"))
    for name, mode, profile in profiles:
        if isinstance(profile, str):
            table.add_row(name, mode, f"not profiled: {profile}", "")
            continue
        rows = tables.op_types(frames.profile_ops(profile)).head(5).itertuples()
        heaviest = ", ".join(f"{row.type} {row.share:.0%}" for row in rows)
        table.add_row(name, mode, heaviest, f"{profile.outside_share:.1%}")
    screen.print(table)


if __name__ == "__main__":
    main()
