"""Commands of ``python -m fathom`` that import their code when they run: ``--help`` is fast."""

import argparse
import importlib
from typing import TypeAlias

from fathom.cli.parser import Parser
from fathom.cli.terminal import console

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(
    commands: Commands, name: str, module: str, text: str, function: str = "run"
) -> Parser:
    """Adds a command that calls a function of a module with its parsed arguments and a console.

    The function raises FathomError for what the user can put right.
    """

    def command(chosen: argparse.Namespace) -> None:
        getattr(importlib.import_module(f"fathom.{module}"), function)(chosen, console())

    parser = commands.add_parser(name, help=text)
    parser.set_defaults(command=command)
    return parser
