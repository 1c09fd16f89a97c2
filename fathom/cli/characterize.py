"""The command lines of ``fathom profile``, ``characterize``, ``report`` and ``compare``.

What a command does is imported when it runs, so that ``--help`` does not wait.
"""

import argparse
import importlib
from pathlib import Path
from typing import Any

from fathom import workloads
from fathom.cli.terminal import console
from fathom.options import PRECISIONS


def add_commands(commands: Any) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    _add_profile(
        _command(commands, "profile", "profile.profiling", "show where a workload's time goes")
    )
    _add_characterize(
        _command(commands, "characterize", "measure.runner", "measure the suite, for fathom report")
    )
    report = _command(
        commands, "report", "report.report", "draw the papers' figures from measurements"
    )
    report.add_argument("directory", type=Path, metavar="DIR", help="of fathom characterize")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: DIR/report")
    compare = _command(commands, "compare", "report.compare", "set two measurements side by side")
    compare.add_argument("first", type=Path, metavar="A", help="folder of fathom characterize")
    compare.add_argument("second", type=Path, metavar="B", help="another one")


def _command(commands: Any, name: str, module: str, text: str) -> argparse.ArgumentParser:
    """Adds a command that calls the module's ``run``."""

    def command(chosen: argparse.Namespace) -> None:
        importlib.import_module(f"fathom.characterize.{module}").run(chosen, console())

    parser = commands.add_parser(name, help=text)
    parser.set_defaults(command=command)
    return parser


def _add_profile(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("workload", choices=workloads.CLASSES)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--train", action="store_true", help="profile training, the default")
    mode.add_argument("--infer", action="store_true", help="profile the forward pass alone")
    add("--steps", type=int, default=20, metavar="N", help="steps to profile; default: 20")
    add("--threads", type=int, metavar="N", help="threads inside an operation; default: all cores")
    add("--batch-size", type=int, metavar="B", help="examples a step; default: the paper's")
    add("--device", metavar="D", help="cpu, gpu or gpu:N; default: the GPU if there is one")
    add("--precision", choices=PRECISIONS, default="float32", help="default: float32")
    add("--seed", type=int, default=0, metavar="S", help="fixes all that is random; default: 0")
    add("--data-dir", metavar="DIR", help="the data set; default: $FATHOM_DATA_DIR, or synthetic")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a hyperparameter; fathom run WORKLOAD --set help lists them",
    )
    add("--out", type=Path, metavar="DIR", help="write profile, tables and trace there")


def _add_characterize(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--workloads", metavar="A,B", help="which; default: all eight")
    add("--modes", metavar="A,B", help="train, infer or both; default: both")
    add("--devices", metavar="A,B", help="cpu, gpu or both; default: the CPU, and a GPU if any")
    add(
        "--threads",
        metavar="1,2,...",
        help="threads inside an operation, to profile training with; default: 1, 2, 4, ... cores",
    )
    add("--steps", type=int, metavar="N", help="steps of a run; default: 20")
    add("--repeats", type=int, metavar="N", help="whole runs of each training; default: 200")
    add("--warmup-runs", type=int, metavar="N", help="whole runs before those; default: 10")
    add("--batch-size", type=int, metavar="B", help="examples a step; default: each paper's")
    add("--precision", choices=PRECISIONS, default="float32", help="default: float32")
    add("--budget", type=float, metavar="MINUTES", help="begin no run after this time")
    add(
        "--quick",
        action="store_true",
        help="few steps, 2 repeats, small batches of the heavy networks: under 20 minutes on two "
        "cores",
    )
    add(
        "--out",
        type=Path,
        default=Path("characterization"),
        metavar="DIR",
        help="the folder; what it has already is not measured again; default: characterization",
    )
