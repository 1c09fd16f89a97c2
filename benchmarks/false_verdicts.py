"""Counts how often ``compare`` is wrong, and what it sees: an A/A test over real folders.

    python benchmarks/false_verdicts.py --out false-verdicts

README.md beside this file says what is measured and how to read it.
"""

import argparse
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.stats
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fathom import workloads
from fathom.cli.parser import Parser, add_options, names, number
from fathom.cli.terminal import console, run_command
from fathom.errors import FathomError
from fathom.measure import Folder
from fathom.measure.report import pairs
from fathom.measure.report.comparison import UNDECIDED, compare
from fathom.results.characterization import Run
from fathom.system.files import atomic_write

DIFFERENCES = (0.0, 0.05, 0.10, 0.30)  # 0: the same program on both sides
RUNS = (2, 3, 5)  # a side, as far as the folders have so many
LONGEST_S = 3600  # of measuring one folder


def main() -> None:
    """Measures the folders that are missing, and evaluates all."""
    chosen = command_line()
    run_command("false_verdicts", lambda: run(chosen))


def command_line() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(description="Counts false verdicts of compare among equal folders.")
    count = number(int, minimum=1)
    add = parser.add_argument
    add_options(parser, "out", required=True, help="folder of the folders; those there are kept")
    add("--folders", type=number(int, minimum=2), default=8, metavar="N", help="default: 8")
    text = "default: autoenc,memnet,deepq"
    default = ["autoenc", "memnet", "deepq"]
    known = names("workload", workloads.EIGHT)
    add("--workloads", type=known, default=default, metavar="A,B", help=text)
    add_options(parser, "steps", help="of a run; default: those of characterize --quick")
    add("--repeats", type=count, default=5, metavar="N", help="runs a folder; default: 5")
    add("--profile-repeats", type=count, default=3, metavar="N", help="profiles; default: 3")
    return parser.parse_args()


def run(args: argparse.Namespace) -> None:
    """Measures, evaluates, prints the table and writes it as ``verdicts.csv``.

    Raises:
        FathomError: a folder cannot be measured or read.
    """
    screen = console()
    paths = [args.out / f"{number:02}" for number in range(1, args.folders + 1)]
    for path in paths:
        if not is_complete(path, args):
            screen.print(f"measuring {path}")
            measure(path, args)
    screen.print(f"evaluating {len(paths)} folders")
    folders = [Folder.read(path) for path in paths]
    most = max(args.repeats, args.profile_repeats)
    compared = evaluate(folders, [number for number in RUNS if number <= most])
    table = pd.concat([compared, interleaved(folders)], ignore_index=True)
    with atomic_write(args.out / "verdicts.csv") as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
    show(table, screen)


def is_complete(path: Path, args: argparse.Namespace) -> bool:
    """Returns whether a folder has all of its runs."""
    if not (path / "machine.json").exists():
        return False
    done = [(each.workload, each.kind) for each in Folder.read(path).runs if each.status == "done"]
    wanted = {"timing": args.repeats, "profile": args.profile_repeats}
    return all(
        done.count((name, kind)) >= wanted[kind] for name in args.workloads for kind in wanted
    )


def measure(path: Path, args: argparse.Namespace) -> None:
    """Measures one folder: training on one thread, on Linux on one core.

    Raises:
        FathomError: it failed, or took longer than an hour.
    """
    command = [sys.executable, "-m", "fathom", "characterize", "--quick", f"--out={path}"]
    command += [f"--workloads={','.join(args.workloads)}", "--modes=train", "--devices=cpu"]
    command += ["--threads=1", f"--repeats={args.repeats}", "--warmup-runs=0"]
    command += [f"--profile-repeats={args.profile_repeats}"]
    command += [f"--steps={args.steps}"] if args.steps else []
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        done = subprocess.run(command, timeout=LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise FathomError(f"{path} took longer than {LONGEST_S / 60:.0f} min: rerun") from error
    if done.returncode:
        raise FathomError(f"{path} was not measured, see above; rerun to continue")


def evaluate(folders: Sequence[Folder], runs: Sequence[int]) -> pd.DataFrame:
    """Compares every folder with every other one, and with the next one.

    Args:
        folders: of one program, two or more, in the order of measurement.
        runs: numbers of runs and profiles a side, which are the first ones of each folder.

    Returns:
        for each number of ``runs`` a side, true ``difference`` and ``table`` of the comparison the
        number of ``rows`` and of those with the right and the wrong verdict, ``right`` and
        ``wrong``. Where the difference is 0, every verdict is wrong.
    """
    heaviest = heaviest_types(folders)
    counted = []
    for number_of_runs, difference in itertools.product(runs, DIFFERENCES):
        sides = [side(folder, number_of_runs, 0.0, heaviest) for folder in folders]
        slower = [side(folder, number_of_runs, difference, heaviest) for folder in folders]
        both_ways = itertools.permutations if difference else itertools.combinations
        for i, j in both_ways(range(len(folders)), 2):
            for row in verdicts(sides[i], slower[j], difference, heaviest, number_of_runs):
                known = {"runs": number_of_runs, "difference": difference} | row
                counted.append(known)
                if j == i + 1:
                    counted.append(known | {"table": f"{known['table']}, adjacent"})
    return summed(counted)


def interleaved(folders: Sequence[Folder]) -> pd.DataFrame:
    """Judges the same runs as ``compare --interleave`` does, as if they had been A B B A ...

    Args:
        folders: of one program, in the order of measurement; those of a workload are one sequence.

    Returns:
        the columns of ``evaluate``: of as many runs as the fewest pairs take.
    """
    length, counted = 2 * pairs.FEWEST_PAIRS, []
    timed = [each for folder in folders for each in folder.runs if each.result]
    for name in dict.fromkeys(each.workload for each in timed):
        steps = [
            each.result.steps.median for each in timed if each.result and each.workload == name
        ]
        whole = range(0, len(steps) - length + 1, length)
        for start, difference in itertools.product(whole, DIFFERENCES):
            times = zip(*[iter(steps[start : start + length])] * 2, strict=True)
            ordered = [each if i % 2 == 0 else each[::-1] for i, each in enumerate(times)]
            first, second = zip(*ordered, strict=True)
            found = pairs.ratio(first, [each * (1 + difference) for each in second])
            right = found.excludes(1) and difference > 0 and found.value > 1
            row = {"runs": pairs.FEWEST_PAIRS, "difference": difference, "table": "interleaved"}
            counted.append(row | {"right": right, "wrong": found.excludes(1) and not right})
    return summed(counted)


def summed(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Counts rows by runs, difference and table."""
    case = ["runs", "difference", "table"]
    table = pd.DataFrame(rows, columns=[*case, "right", "wrong"])
    return table.groupby(case, as_index=False, sort=False).agg(
        rows=("right", "size"), right=("right", "sum"), wrong=("wrong", "sum")
    )


def heaviest_types(folders: Sequence[Folder]) -> dict[str, str]:
    """Returns by workload the op type that takes most time."""
    ops = pd.concat([folder.ops() for folder in folders])
    seconds = ops.groupby(["workload", "type"]).seconds.sum()
    return dict(seconds.groupby("workload").idxmax().tolist())


def side(folder: Folder, runs: int, difference: float, heaviest: Mapping[str, str]) -> Folder:
    """Returns the first runs and profiles of a folder, made slower.

    Args:
        folder: as measured.
        runs: number of timings and of profiles of each workload.
        difference: relative; the steps of the timings take longer by it, and in the profiles one op
            type.
        heaviest: that op type, by workload.
    """
    ops = folder.ops()
    kernels = set(ops.kernel[ops.type == ops.workload.map(heaviest)])
    met: Counter[tuple[str, str]] = Counter()
    kept = []
    for each in folder.runs:
        case = each.workload, each.kind
        if each.status == "done" and met[case] < runs:
            met[case] += 1
            kept.append(slowed(each, 1 + difference, kernels))
    return Folder(folder.path, folder.machine, tuple(kept))


def slowed(run: Run, factor: float, kernels: Collection[str]) -> Run:
    """Returns a run whose steps, or whose ops with these kernels, took longer by a factor."""
    profile, result = run.profile, run.result
    if profile:
        ops = tuple(
            op.model_copy(update={"seconds": op.seconds * factor}) if op.type in kernels else op
            for op in profile.ops
        )
        return run.model_copy(update={"profile": profile.model_copy(update={"ops": ops})})
    if result:
        seconds = [each * factor for each in result.steps.seconds]
        used = {name: getattr(result.processor, name) for name in ("cpu_seconds", "wall_seconds")}
        longer = {name: each and each * factor for name, each in used.items()}
        changes = {
            "steps": result.steps.model_copy(update={"seconds": seconds}),
            "processor": result.processor.model_copy(update=longer),
        }
        return run.model_copy(update={"result": result.model_copy(update=changes)})
    return run


def verdicts(
    first: Folder, second: Folder, difference: float, heaviest: Mapping[str, str], runs: int
) -> Iterator[dict[str, Any]]:
    """Yields whether the verdict of each row is right or wrong.

    Where there is a difference, only the shares of the op types that were made slower count: the
    others' shares truly differ, too. Sides with fewer profiles than ``runs`` have no shares here.
    """
    comparison = compare(first, [second])
    profiles = Counter(each.workload for each in first.runs if each.profile)
    shares = comparison.shares if min(profiles.values()) >= runs else comparison.shares[:0]
    if difference and len(shares):
        shares = shares[shares["op type"] == shares.workload.map(heaviest)]
    for table, rows, difference_of in (
        ("step times", comparison.ratios, lambda row: row["over A"] - 1),
        ("shares", shares, lambda row: row["less A"]),
    ):
        for row in rows.to_dict("records"):
            verdict = row.get("verdict")
            decided = isinstance(verdict, str) and verdict not in UNDECIDED
            right = decided and difference > 0 and difference_of(row) > 0
            yield {"table": table, "right": right, "wrong": decided and not right}


def show(table: pd.DataFrame, screen: Console) -> None:
    """Prints the rates with their intervals."""
    view = Table(box=SIMPLE, padding=(0, 1, 0, 0), caption="README.md explains the columns")
    for name in ("table", "runs a side", "true difference", "rows", "right", "wrong"):
        view.add_column(name, justify="left" if name == "table" else "right", no_wrap=True)
    for row in table.sort_values("table", ascending=False, kind="stable").itertuples():
        right = rate(row.right, row.rows) if row.difference else "-"
        wrong = rate(row.wrong, row.rows)
        view.add_row(
            row.table, str(row.runs), f"{row.difference:.0%}", f"{row.rows:,}", right, wrong
        )
    screen.print(view)


def rate(count: int, rows: int) -> str:
    """Returns a share with its 95 % interval of Clopper and Pearson."""
    found = scipy.stats.binomtest(count, rows).proportion_ci(0.95, "exact")
    return f"{count / rows:.1%} ({100 * found.low:.1f} to {100 * found.high:.1f})"


if __name__ == "__main__":
    main()
