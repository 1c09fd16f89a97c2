"""Commands of ``python -m fathom`` that import their code when they run: ``--help`` is fast."""

import argparse
import importlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from fathom import workloads
from fathom.cli.parser import STANDARD_OUTPUT, Parser, init_options
from fathom.cli.terminal import console, import_tensorflow
from fathom.errors import FathomError
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from fathom.nn import NeuralNetworkModel
    from fathom.results.base import Document

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(
    commands: Commands, name: str, module: str, text: str, function: str = "run"
) -> Parser:
    """Adds a command that calls a function of a module with its parsed arguments and a console.

    The function raises FathomError for what the user can put right. ``args.given`` has the names
    of the options whose values are not the defaults. With ``--json -`` the console is on standard
    error.
    """

    def command(args: argparse.Namespace) -> None:
        values = vars(args).items()
        args.given = {name for name, value in values if value != parser.get_default(name)}
        screen = console(stderr=getattr(args, "json", None) == STANDARD_OUTPUT)
        getattr(importlib.import_module(f"fathom.{module}"), function)(args, screen)

    parser = commands.add_parser(name, help=text)
    parser.set_defaults(command=command)
    return parser


def refuse(args: argparse.Namespace, options: Collection[str], reason: str) -> None:
    """Raises FathomError, ``--OPTION reason``, if one of the options, as in ``args``, was given."""
    for name in options:
        if name in args.given:
            raise FathomError(f"--{name.replace('_', '-')} {reason}")


def build_model(
    args: argparse.Namespace, forward_only: bool, device: str | None = "cpu"
) -> "NeuralNetworkModel":
    """Imports TensorFlow, and returns the workload of a command with its options, not set up."""
    import_tensorflow()
    model_class = workloads.load(args.workload, forward_only)
    return model_class(device, init_options(args, model_class))


def write_json(result: "Document", path: Path | None, screen: Console) -> None:
    """Writes a result to the file of an option, if it was given, and says so; ``-`` prints it."""
    if path == STANDARD_OUTPUT:
        sys.stdout.write(result.to_json())
    elif path:
        result.write(path)
        screen.print(f"written: {path}")


def write_csv(frame: "pd.DataFrame", path: Path | None, screen: Console) -> None:
    """Writes a table to the file of an option, if it was given, and says so."""
    if path:
        with atomic_write(path) as temporary:
            frame.to_csv(temporary, index=False)
        screen.print(f"written: {path}")
