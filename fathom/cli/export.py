"""``fathom export``: writes a workload's step in the format of another tool."""

import argparse
import shutil
from pathlib import Path

from rich.console import Console

from fathom import exports
from fathom.cli.describe import describe
from fathom.errors import FathomError
from fathom.exports.format import write
from fathom.system.files import atomic_directory


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments.

    Raises:
        FathomError: an invalid option, or a folder that exists or cannot be written.
    """
    if chosen.to == "list":
        for name in exports.names():
            screen.print(f"{name}: {exports.find(name).about}")
        return
    chosen_format = exports.find(chosen.to)
    if chosen.workload is None:
        raise FathomError("name the workload to export")
    out = chosen.out or Path(f"{chosen.workload}-{chosen.to}")
    if out.exists() and not chosen.force:
        raise FathomError(f"{out} exists: give another --out, or --force to replace it")
    description = describe(chosen)
    exported = chosen_format.export(description)
    if out.exists():
        _remove(out)
    with atomic_directory(out) as folder:
        write(exported, folder)
    size = sum(len(text) for text in exported.files.values())
    screen.print(
        f"{description.workload}, {description.mode}, batch size {description.batch_size}: "
        f"{len(exported.files)} files, {size / 1e3:,.0f} kB"
    )
    for line in exported.left_out:
        screen.print(f"not expressed: {line}")
    screen.print(f"written: {out}")


def _remove(out: Path) -> None:
    try:
        shutil.rmtree(out) if out.is_dir() else out.unlink()
    except OSError as error:
        raise FathomError(f"cannot replace {out}: {error.strerror}") from error
