"""Runs the workload on each bAbI task and prints its test errors and the published ones.

    python -m fathom.memnet.tasks --data-dir DIR --out FOLDER

Each task runs in a separate process and leaves a result file in the folder. Tasks with a result are
skipped, so that rerunning an interrupted command continues it.
"""

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fathom.cli.parser import Parser, add_options, number
from fathom.cli.terminal import console, run_command
from fathom.errors import WRONG_JSON, FathomError, cause
from fathom.memnet.babi import TASKS
from fathom.results.records import RunResult
from fathom.system.files import atomic_write, exists, read_file
from fathom.system.folders import claim_folder
from fathom.system.processes import kill_children, run_python

PROGRAM = "fathom.memnet.tasks"
_ASKED = "asked.json"  # options of the results in a folder

# Test errors in percent with 1,000 questions per task, tasks 1 to 20: the authors' published code,
# rerun; one network per task, 3 hops, position encoding, linear start, noise.
PUBLISHED = (
    *(0.1, 8.2, 41.8, 4.4, 13.7, 7.9, 20.3, 11.7, 13.6, 9.7),
    *(0.7, 0.0, 0.3, 0.9, 0.0, 0.4, 51.0, 10.5, 81.4, 0.0),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the tasks requested on the command line."""
    args = parser().parse_args(arguments)
    run_command(PROGRAM, lambda: run(args, console()))


def parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(prog=PROGRAM, description="Runs memnet on each bAbI task.")
    add_options(parser, "out", required=True, help="folder for the result files")
    text = "default: all twenty"
    parser.add_argument("--tasks", type=int, nargs="+", choices=TASKS, default=TASKS, help=text)
    add_options(parser, "data-dir", "seed", "set")
    add_options(parser, "threads", default=1, help="threads per task; default: %(default)s")
    text = "tasks in parallel; default: %(default)s"
    parser.add_argument("--workers", type=number(int, minimum=1), default=1, metavar="N", help=text)
    add_options(parser, "version")
    return parser


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the tasks without a result, and prints a table of all tasks.

    Raises:
        FathomError: a task failed; the other tasks were run.
    """
    claim_folder(args.out, "memnet.tasks")
    _check_asked(args)
    missing = [task for task in args.tasks if _read(args.out, task) is None]
    with ThreadPoolExecutor(args.workers) as pool:
        ended = pool.map(lambda task: _run_task(task, args, screen), missing)
        try:
            failures = [failure for failure in ended if failure]
        except BaseException:  # only this thread is interrupted
            pool.shutdown(wait=False, cancel_futures=True)
            kill_children()
            raise
    done = {task: _read(args.out, task) for task in args.tasks}
    screen.print(table({task: result for task, result in done.items() if result}))
    if failures:
        raise FathomError("; ".join(failures))


def _check_asked(args: argparse.Namespace) -> None:
    """Notes the options of the results in the folder; refuses others."""
    data = str(args.data_dir and os.path.realpath(args.data_dir))
    asked = {"seed": args.seed, "set": sorted(args.set), "data_dir": data}
    path = args.out / _ASKED
    if exists(path) and any(_read(args.out, task) for task in TASKS):
        try:
            before = dict(json.loads(read_file(path)))
        except WRONG_JSON as error:
            raise FathomError(f"{path} cannot be read: {cause(error)}: remove it") from error
        if differing := [name for name in asked if before.get(name) != asked[name]]:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in differing)
            raise FathomError(
                f"the results in {args.out} are of another {options}: name another --out"
            )
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(asked) + "\n")


def _document(folder: Path, task: int) -> Path:
    return folder / f"task-{task}" / "result.json"


def _read(folder: Path, task: int) -> RunResult | None:
    """Returns a task's result; None if there is none or the run is incomplete."""
    try:
        result = RunResult.read(_document(folder, task))
    except FathomError:
        return None
    return result if hasattr(result.metrics, "error_percent") else None


def _run_task(task: int, args: argparse.Namespace, screen: Console) -> str | None:
    """Runs a task in a separate process; returns its error in one line, or None."""
    document = _document(args.out, task)
    document.parent.mkdir(exist_ok=True)
    command = ["-m", "fathom.memnet", "--train", "--evaluate", "--quiet"]
    command += [f"--seed={args.seed}", f"--threads={args.threads}", f"--json={document}"]
    command += [f"--data-dir={args.data_dir}"] if args.data_dir else []
    command += [f"--set={assignment}" for assignment in (*args.set, f"task={task}")]
    failure = run_python(command, document.with_name("log"))
    if failure:
        return f"task {task}: {failure.rpartition('error: ')[2]}"
    screen.print(f"task {task}: done")
    return None


def table(results: dict[int, RunResult]) -> Table:
    """Returns a table of the tasks' errors and the published ones, with means."""
    table = Table(box=SIMPLE)
    for title in ("task", "test error %", "published %", "best training loss", "seconds"):
        table.add_column(title, justify="right")
    for task, result in results.items():
        history = result.metrics.history or {}
        losses = [loss for _, loss in history.get("training_loss", []) if loss is not None]
        table.add_row(
            str(task),
            f"{result.metrics.error_percent:.1f}",
            f"{PUBLISHED[task - 1]:.1f}",
            f"{min(losses):.4f}" if losses else "",
            f"{result.sections.run:.0f}",
        )
    if results:
        ours = [result.metrics.error_percent for result in results.values()]
        theirs = [PUBLISHED[task - 1] for task in results]
        means = (f"{sum(errors) / len(errors):.1f}" for errors in (ours, theirs))
        table.add_section()
        table.add_row("mean", *means, "", "")
    return table


if __name__ == "__main__":
    main()
