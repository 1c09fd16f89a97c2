"""``fathom compare``: compares results directories of ``fathom characterize``."""

import argparse
import shlex

import pandas as pd
import rich.table
from rich.console import Console

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report.comparison import LABELS, compare
from fathom.characterize.report.page import is_number, shown
from fathom.errors import FathomError


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom compare`` with its parsed arguments.

    Raises:
        FathomError: a folder cannot be read, or there is nothing to compare.
    """
    paths = [chosen.base, *chosen.others]
    if len(paths) > len(LABELS):
        raise FathomError(f"{len(paths)} folders are too many: compare at most {len(LABELS)}")
    folders = dict(zip(LABELS, map(Folder.read, paths), strict=False))
    base, *others = folders.values()
    comparison = compare(base, others)
    for label, path in zip(folders, paths, strict=True):
        screen.print(f"{label}: {path}")
    _show(_environments(folders), "what differs", screen)
    _show(comparison.ratios, "median step times and the 95 % interval of their ratio", screen)
    _show(comparison.shares, "op types' shares of the time in ops, training", screen)
    both = [each for each in (comparison.ratios, comparison.shares) if len(each)]
    if any(each.verdict.isna().any() for each in both):
        screen.print(
            "No verdict with a single run or profile on either side: the noise from run to run is "
            "unknown. `python -m fathom characterize --repeats 3 --profile-repeats 3 --out "
            f"{shlex.quote(str(chosen.base))}`, with the options that the folder was measured "
            "with, and likewise for the other folders, repeats them."
        )
    for sentence in comparison.refused:
        screen.print(f"not compared: {sentence}")
    if comparison.ratios.empty and comparison.shares.empty:
        raise FathomError(
            f"{', '.join(map(str, paths))} have no like runs: measure the same workloads with the "
            "same batch sizes"
        )


def _environments(folders: dict[str, Folder]) -> pd.DataFrame:
    """Returns the fields in which the environments differ, without the commands."""
    environments = {label: _environment(folder) for label, folder in folders.items()}
    table = pd.DataFrame(environments).drop("command").rename_axis("").reset_index()
    return table[table[list(folders)].nunique(axis=1, dropna=False) > 1]


def _environment(folder: Folder) -> dict[str, str]:
    rates = folder.machine.gemm_flops_per_second.items()
    products = ", ".join(f"{float(rate) / 1e9:.0f} on {threads}" for threads, rate in rates)
    environment = folder.machine.environment.to_plain()
    environment["matrix product (GFLOP/s on threads)"] = products
    return {name: str(value) for name, value in environment.items()}


def _show(content: pd.DataFrame, title: str, screen: Console) -> None:
    if content.empty:
        return
    table = rich.table.Table(box=None, header_style="bold", title=title, title_justify="left")
    for name in content:
        table.add_column(str(name), justify="right" if is_number(content[name]) else "left")
    for row in content.itertuples(index=False):
        table.add_row(*map(shown, row))
    screen.print(table)
