"""``fathom submit`` and ``fathom atlas``: results of several machines, side by side."""

import argparse
from pathlib import Path

from rich.console import Console

from fathom.cli.command import Commands, add_command
from fathom.cli.parser import checked, input_path, output_file, require_writable
from fathom.cli.terminal import import_tensorflow
from fathom.errors import FathomError
from fathom.system.files import atomic_write
from fathom.system.words import counted


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    text = "check a characterization, and make one file of it for an atlas"
    parser = add_command(commands, "submit", "cli.atlas", text, "submit")
    text = "results directory of fathom characterize"
    parser.add_argument("directory", type=input_path, metavar="DIR", help=text)
    text = "the bundle (default: DIR.json)"
    parser.add_argument("--out", type=output_file, metavar="FILE", help=text)
    text = "machines side by side, as one page, from the files of fathom submit"
    parser = add_command(commands, "atlas", "cli.atlas", text, "atlas")
    text = "bundles; the first is what others are compared with"
    parser.add_argument("bundles", type=input_path, nargs="+", metavar="FILE", help=text)
    text = "the page (default: atlas.html)"
    parser.add_argument(
        "--out", type=checked(_html), metavar="FILE", default=Path("atlas.html"), help=text
    )


def submit(args: argparse.Namespace, screen: Console) -> None:
    """Checks a results directory, writes its bundle, and says what is in it."""
    out = args.out or args.directory.parent / f"{args.directory.resolve().name}.json"
    require_writable(out)
    import_tensorflow()
    from fathom.measure.atlas.bundle import submit as checked_bundle

    bundle = checked_bundle(args.directory)
    bundle.write(out)
    workloads = counted(len({row.workload for row in bundle.rows}), "workload")
    screen.print(f"{bundle.name}: {counted(len(bundle.rows), 'row')} of {workloads}")
    screen.print(
        "checked: complete, undisturbed, one source of Fathom, published counts, losses of the seed"
    )
    screen.print(
        "it holds the processor, versions, switches, times and commands; no names of users, hosts "
        "or folders"
    )
    screen.print(f"written: {out}")


def atlas(args: argparse.Namespace, screen: Console) -> None:
    """Writes the page."""
    from fathom.measure.atlas.site import site
    from fathom.results.atlas import Bundle

    if len({path.resolve() for path in args.bundles}) < len(args.bundles):
        raise FathomError("a bundle is named twice")
    bundles = [Bundle.read(path) for path in args.bundles]
    with atomic_write(args.out) as temporary:
        temporary.write_text(site(bundles))
    for bundle in bundles:
        screen.print(f"{bundle.name}: {counted(len(bundle.rows), 'row')}")
    screen.print(f"written: {args.out}")


def _html(text: str) -> Path:
    path = output_file(text)
    if path.suffix != ".html":
        raise FathomError(f"{text!r} does not end in .html")
    return path
