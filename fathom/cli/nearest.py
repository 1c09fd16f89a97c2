"""``fathom nearest``: the workloads whose work is most like that of a network."""

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from fathom import workloads
from fathom.cli.command import write_json
from fathom.cli.describe import describe, step_of
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.errors import FathomError, cause
from fathom.options import Mode
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.results.description import Description


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    from fathom.measure import nearest

    description = describe(args)
    found = nearest.find(description, archetypes(description.mode, screen))
    screen.print(f"{step_of(description)}, beside each workload at its default size:")
    titles = ["archetype", "batch size", "distance"]
    table = new_table(titles, titles[1:])
    for each in found.archetypes:
        table.add_row(each.workload, f"{each.batch_size:,}", f"{each.distance:.3f}")
    screen.print(table)
    for sentence in nearest.sentences(found):
        screen.print(sentence)
    write_json(found, args.json, screen)
    if args.svg:
        from fathom.measure.report import picture
        from fathom.measure.report.figures.nearest import draw

        with atomic_write(args.svg) as temporary:
            temporary.write_bytes(picture.rendered(draw([found]), "svg"))
        screen.print(f"written: {args.svg}")


def archetypes(mode: Mode, screen: Console) -> "dict[str, Description]":
    """Returns the descriptions of all workloads; names those that have none.

    Raises:
        FathomError: no workload can be described.
    """
    import_tensorflow()
    found = {}
    for name in workloads.names():
        try:
            found[name] = workloads.load(name, mode == "infer")("cpu", {}).describe()
        except Exception as error:  # whatever a package may raise
            screen.print(f"{name} is left out: {cause(error)}")
    if not found:
        raise FathomError("no workload can be described: fathom list names them")
    return found
