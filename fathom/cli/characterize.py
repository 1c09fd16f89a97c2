"""The command lines of ``fathom profile``, ``characterize``, ``report`` and ``compare``.

Commands import their code when they run, so that ``--help`` is fast.
"""

import argparse
import importlib
from pathlib import Path
from typing import Any, TypeAlias

from fathom.cli.parser import (
    MODEL_OPTIONS,
    Parser,
    add_mode,
    add_options,
    add_workload,
    batch_sizes,
    checked,
    names,
    number,
    numbers,
)
from fathom.cli.terminal import console
from fathom.options import DEVICE_KINDS

_SHORTEST_LIFE = 5  # steps: four batches are held, and the first step is in no window
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    _add_profile(_command(commands, "profile", "cli.profile", "show where a workload's time goes"))
    describe = _command(commands, "describe", "cli.describe", "list the work of a step")
    _add_work(describe)
    add_options(describe, "precision")
    add_options(describe, "json", help="write the description as JSON; - prints it")
    describe.add_argument("--csv", type=Path, metavar="FILE", help="write one line per operation")
    export = _command(commands, "export", "cli.export", "write a step in another tool's format")
    _add_work(export, nargs="?")
    add_options(export, "precision")
    export.add_argument("--to", required=True, metavar="FORMAT", help="list names the formats")
    add_options(export, "out", help="new folder; default: WORKLOAD-FORMAT")
    export.add_argument("--force", action="store_true", help="replace the folder")
    for name, text in _MACHINE_COMMANDS.items():
        _add_machine(_command(commands, name, "cli.accelerators", text, name), name)
    _add_characterize(
        _command(
            commands,
            "characterize",
            "characterize.measure.runner",
            "measure the suite, for fathom report",
        )
    )
    report = _command(
        commands,
        "report",
        "characterize.report.report",
        "draw the papers' figures from measurements",
    )
    text = "results directory of fathom characterize"
    report.add_argument("directory", type=Path, metavar="DIR", help=text)
    add_options(report, "out", help="default: DIR/report")
    text = "compare measurements, or two variants by alternating runs"
    _add_compare(_command(commands, "compare", "characterize.report.compare", text))


def _command(
    commands: Commands, name: str, module: str, text: str, function: str = "run"
) -> Parser:
    """Adds a command that calls a function of the module."""

    def command(chosen: argparse.Namespace) -> None:
        getattr(importlib.import_module(f"fathom.{module}"), function)(chosen, console())

    parser = commands.add_parser(name, help=text)
    parser.set_defaults(command=command)
    return parser


def _add_profile(parser: argparse.ArgumentParser) -> None:
    text = "its name (fathom list shows all); or the folder of an earlier profile, to show it again"
    parser.add_argument("workload", help=text)
    add_mode(parser)
    add_options(parser, "steps", default=20, help="steps to profile; default: %(default)s")
    text = "also trace short windows over a run of N steps on fresh batches"
    parser.add_argument("--life", type=number(int, minimum=_SHORTEST_LIFE), metavar="N", help=text)
    add_options(parser, *MODEL_OPTIONS)
    add_options(parser, "out", help="write profile, tables and trace to this folder")
    text = "compare with the profile in this folder, op type by op type and op by op"
    parser.add_argument("--against", type=Path, metavar="DIR", help=text)
    # For fathom characterize: write only profile.json and the raw trace.
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)


_MACHINE_COMMANDS = {
    "roofline": "bound a workload's operations on a machine, without running anything",
    "explore": "find the best tilings of a workload's convolutions on an accelerator",
    "scale": "predict time, rate and energy on several nodes of a machine",
}


def _add_work(parser: argparse.ArgumentParser, **changes: Any) -> None:
    """Adds the options that choose the step to describe."""
    add_workload(parser, **changes)
    add_mode(parser)
    add_options(parser, "batch-size", "dataset", "set")
    text = "length of the examples, for workloads where it varies: frames, or words of the source"
    parser.add_argument("--length", type=number(int, minimum=1), metavar="N", help=text)


def _add_machine(parser: argparse.ArgumentParser, command: str) -> None:
    _add_work(parser)
    add = parser.add_argument
    text = "a machine's name, as in docs/accelerators.md, or a JSON file that describes one"
    add("--machine", required=True, metavar="NAME|FILE", help=text)
    add("--description", type=Path, metavar="FILE", help="of fathom describe, instead of tracing")
    if command != "explore":
        text = "type of number, one of the machine's; default: float32"
        add("--precision", metavar="TYPE", help=text)
    if command == "scale":
        text = "numbers of nodes; default: %(default)s"
        add("--nodes", type=checked(numbers), default=[1, 9, 64], metavar="1,9,...", help=text)
        text = "what the nodes share: the examples (data) or each layer (model); default: data"
        add("--parallelism", choices=("data", "model"), default="data", help=text)
        text = "share of the computation that can hide communication; default: 0"
        add("--overlap", type=number(float, minimum=0, maximum=1), default=0.0, help=text)
    add("--csv", type=Path, metavar="FILE", help="write the table")
    if command != "scale":
        add("--svg", type=Path, metavar="FILE", help="draw it under the machine's roofs")


def _add_characterize(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_options(parser, "workloads", "modes")
    text = "cpu, gpu or both; default: the CPU, and a GPU if any"
    add("--devices", type=names("device", DEVICE_KINDS), metavar="A,B", help=text)
    text = "intra-op thread counts for training profiles; default: 1, 2, 4, ... cores"
    add_options(parser, "threads", type=checked(numbers), metavar="1,2,...", help=text)
    add_options(parser, "steps", help="steps per run; default: 20")
    count = number(int)
    text = "whole training runs per workload; default: 200; with --batches runs per size, 1"
    add("--repeats", type=count, metavar="N", help=text)
    add("--warmup-runs", type=count, metavar="N", help="whole runs before those; default: 10")
    text = (
        "processes per profile, inference timing and timing on fewer cores; below 2 there are no "
        "intervals; default: 3, or 1 with --quick"
    )
    add("--profile-repeats", type=number(int, minimum=1), metavar="N", help=text)
    add_options(parser, "precision")
    batches = parser.add_mutually_exclusive_group()
    add_options(batches, "batch-size")
    text = (
        "time each workload at these batch sizes, and make no other runs; default of the list: "
        "1, 2, 4, ... 256, with --quick 1, 4, 16, 64"
    )
    kind = checked(batch_sizes)
    batches.add_argument("--batches", nargs="?", const=[], type=kind, metavar="1,2,...", help=text)
    text = "start no new runs after MINUTES"
    add("--budget", type=number(float, above=0), metavar="MINUTES", help=text)
    text = (
        "few steps, 2 repeats, one process per profile, small batches for the large networks: "
        "under 20 minutes on two cores"
    )
    add("--quick", action="store_true", help=text)
    text = "results directory; runs that it already has are not repeated; default: %(default)s"
    add_options(parser, "out", default=Path("characterization"), help=text)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("base", metavar="A", help="results directory that the others are compared with")
    add("others", nargs="+", metavar="B", help="results directories")
    text = (
        "A and B are commands of runs, in quotes: run them in turn, each time in a new process, "
        "until the ratio of their step times is known"
    )
    add("--interleave", action="store_true", help=text)
    text = "end when the ratio's 95 %% interval is narrower than PERCENT of it; default: 2"
    add("--width", type=number(float, above=0), metavar="PERCENT", help=text)
    text = "end after MINUTES at the latest; default: 30"
    add("--budget", type=number(float, above=0), metavar="MINUTES", help=text)
    text = "folder for the results of all runs; default: results/<date and time>"
    add_options(parser, "out", help=text)
