"""``python -m fathom``, also installed as ``fathom``: the commands for all workloads."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from fathom import workloads
from fathom.cli import atlas, characterize, formats, launch, machine, new, quality, serving, work
from fathom.cli.command import add_command
from fathom.cli.parser import USER_ERROR, Parser, add_options, checked, number
from fathom.cli.terminal import console, run_command
from fathom.system.files import user_path
from fathom.system.folders import own_folder


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one of the commands, and exits."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["run"] and len(arguments) > 1 and arguments[1] in workloads.names():
        from fathom.cli.run import run_workload

        run_workload(arguments[1], arguments[2:])
    run_command("fathom", lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> None:
    parser = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        sys.exit(USER_ERROR)
    args = parser.parse_args(arguments)
    args.command(args)


def _parser() -> Parser:
    parser = Parser(prog="fathom", description="Fathom: reference deep-learning workloads.")
    add_options(parser, "version")
    commands = parser.add_subparsers(required=True, metavar="command")
    listing = commands.add_parser("list", help="list the workloads and the source of their data")
    listing.add_argument("--criteria", action="store_true", help="what the paper chooses them by")
    listing.set_defaults(command=_list)
    run = commands.add_parser(
        "run", help="run a workload: fathom run NAME is python -m fathom.NAME"
    )
    run.add_workload()
    data = commands.add_parser("data", help="list, fetch, synthesize, verify or convert data sets")
    actions = data.add_subparsers(required=True, metavar="action")
    _add_action(actions, "list", "list the data sets and the current source of each", None)
    _add_action(actions, "fetch", "download a data set and verify it", "target folder", own_folder)
    _add_action(actions, "synthesize", "write the synthetic data set", "target folder", own_folder)
    _add_action(actions, "verify", "check a data set's files", "the data set's folder")
    _add_action(actions, "convert", "convert a data set to another format", "the data set's folder")
    for module in (machine, characterize, atlas, work, serving, quality, formats, launch):
        module.add_commands(commands)
    writing = add_command(commands, "new", "cli.new", "write the package of a new workload")
    text = "name of the workload: a-z, 0-9 and _"
    writing.add_argument("name", type=checked(new.new_name), help=text)
    add_options(writing, "out", help="new folder; default: fathom-NAME")
    return parser


def _add_action(
    actions: "argparse._SubParsersAction[Parser]",
    name: str,
    text: str,
    folder: str | None,
    read: Callable[[str], Path] = user_path,
) -> None:
    action = add_command(actions, name, "cli.data", text)
    action.set_defaults(action=name)
    if folder:
        action.add_argument("dataset", help="name of the data set")
        add_options(action, "data-dir", type=checked(read), help=folder)
    if name == "synthesize":
        add_options(action, "seed")
    if name == "verify":
        action.add_argument("--all", action="store_true", help="read everything; default: a sample")
        add_options(action, "set", help="source_language, target_language or background_class")
    if name == "convert":
        action.add_argument("--to", metavar="FORM", required=True, help="new format: tfrecord")
        add_options(action, "out", required=True, help="new folder")
        action.add_argument(
            "--shards", type=number(int, minimum=1), metavar="N", help="training shards"
        )


def _list(args: argparse.Namespace) -> None:
    from fathom.cli import criteria, listing

    (criteria if args.criteria else listing).show(console())


if __name__ == "__main__":
    main()
