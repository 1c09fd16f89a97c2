"""Commands of ``python -m fathom`` that import their code when they run: ``--help`` is fast."""

import argparse
import importlib
from collections.abc import Collection
from typing import TypeAlias

from fathom.cli.parser import Parser
from fathom.cli.terminal import console
from fathom.errors import FathomError

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
