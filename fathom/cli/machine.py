"""``fathom machine``: what was found on this machine and chosen for it, and what costs speed."""

import argparse

from rich.console import Console

from fathom.cli.command import Commands, add_command, write_json
from fathom.cli.parser import STANDARD_OUTPUT, add_options
from fathom.cli.terminal import import_tensorflow


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    text = "show what this machine has, what was chosen for it, and what costs speed"
    add_options(add_command(commands, "machine", "cli.machine", text), "json")


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    import_tensorflow()
    from fathom.results.machine import Finding, Inspection
    from fathom.results.records import Environment
    from fathom.system import device, environment
    from fathom.system.inspection import inspect
    from fathom.system.processor import available_cores

    lines = inspect()
    described = environment.describe(device.select(None), available_cores(), "float32", "off")
    inspection = Inspection(
        environment=Environment.model_validate(described),
        findings=[Finding(**line._asdict()) for line in lines],
    )
    screen.quiet = args.json == STANDARD_OUTPUT  # which has all of it
    width = max(len(line.name) for line in lines) + 2
    for line in lines:
        screen.print(f"{line.name:{width}}{line.found}")
        if line.hint:
            screen.print(f"{'':{width}}! {line.hint}")
    write_json(inspection, args.json, screen)
