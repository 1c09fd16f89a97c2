"""The command lines of ``fathom describe``, ``export``, ``roofline``, ``explore`` and ``scale``.

Commands import their code when they run, so that ``--help`` is fast.
"""

import argparse
from pathlib import Path
from typing import Any

from fathom.cli.command import Commands, add_command
from fathom.cli.parser import add_mode, add_options, add_workload, checked, number, numbers

_MACHINE_COMMANDS = {
    "roofline": "bound a workload's operations on a machine, without running anything",
    "explore": "find the best tilings of a workload's convolutions on an accelerator",
    "scale": "predict time, rate and energy on several nodes of a machine",
}


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    describe = add_command(commands, "describe", "cli.describe", "list the work of a step")
    _add_work(describe)
    add_options(describe, "precision")
    add_options(describe, "json", help="write the description as JSON; - prints it")
    describe.add_argument("--csv", type=Path, metavar="FILE", help="write one line per operation")
    export = add_command(commands, "export", "cli.export", "write it in another tool's format")
    _add_work(export, nargs="?")
    add_options(export, "precision")
    add_options(export, "checkpoint-dir", help="weights, for formats that hold them")
    text = "folder of fathom profile --out, for formats with times"
    export.add_argument("--profile", type=Path, metavar="DIR", help=text)
    export.add_argument("--to", required=True, metavar="FORMAT", help="list names the formats")
    add_options(export, "out", help="new folder; default: WORKLOAD-FORMAT")
    export.add_argument("--force", action="store_true", help="replace the folder")
    for name, text in _MACHINE_COMMANDS.items():
        _add_machine(add_command(commands, name, "cli.accelerators", text, name), name)


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
