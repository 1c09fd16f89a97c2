"""Commands of ``python -m fathom`` that import their code when they run: ``--help`` is fast."""

import argparse
import importlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from fathom import workloads
from fathom.cli.parser import Parser, init_options
from fathom.cli.terminal import console, import_tensorflow
from fathom.errors import FathomError
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from fathom.nn import NeuralNetworkModel

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(
    commands: Commands, name: str, module: str, text: str, function: str = "run"
) -> Parser:
    """Adds a command that calls a function of a module with its parsed arguments and a console.

    The function raises FathomError for what the user can put right. ``args.given`` has the names
    of the options whose values are not the defaults.
    """

    def command(args: argparse.Namespace) -> None:
        values = vars(args).items()
        args.given = {name for name, value in values if value != parser.get_default(name)}
        getattr(importlib.import_module(f"fathom.{module}"), function)(args, console())

    parser = commands.add_parser(name, help=text)
    parser.set_defaults(command=command)
    return parser


def refuse(args: argparse.Namespace, options: Collection[str], reason: str) -> None:
    """Raises FathomError, with the reason, if one of the options was given.

    Args:
        args: of a command of ``add_command``.
        options: their names in ``args``.
        reason: what follows the option's name.
    """
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


def write_csv(frame: "pd.DataFrame", path: Path | None, screen: Console) -> None:
    """Writes a table to the file of an option, if it was given, and says so."""
    if path:
        with atomic_write(path) as temporary:
            frame.to_csv(temporary, index=False)
        screen.print(f"written: {path}")
