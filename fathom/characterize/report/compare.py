"""``fathom compare``: compares two results directories of ``fathom characterize``."""

import argparse

import pandas as pd
import rich.table
from rich.console import Console

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report.comparison import compare
from fathom.characterize.report.page import is_number, shown
from fathom.errors import FathomError


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom compare`` with its parsed arguments.

    Raises:
        FathomError: a folder cannot be read, or there is nothing to compare.
    """
    first, second = Folder.read(chosen.first), Folder.read(chosen.second)
    comparison = compare(first, second)
    screen.print(f"A: {chosen.first}\nB: {chosen.second}")
    _show(_environments(first, second), "what differs", screen)
    _show(comparison.ratios, "median step times and the 95 % interval of their ratio", screen)
    if len(comparison.ratios) and comparison.ratios["noise from"].str.contains("one run").any():
        screen.print(
            "Intervals from a single run do not include the variation from run to run: "
            "use characterize with --repeats."
        )
    _show(comparison.shares, "op types' shares of the time in ops, training", screen)
    if len(comparison.shares):
        screen.print(
            "Each share comes from one profile per side, taken in one process: its interval does "
            "not include the variation from run to run."
        )
    for sentence in comparison.refused:
        screen.print(f"not compared: {sentence}")
    if not (len(comparison.ratios) or len(comparison.shares)):
        raise FathomError(
            f"{chosen.first} and {chosen.second} have no like runs: measure the same workloads with"
            " the same batch sizes"
        )


def _environments(first: Folder, second: Folder) -> pd.DataFrame:
    """Returns the fields in which the two environments differ, without the commands."""
    a, b = (folder.machine.environment.to_plain() for folder in (first, second))
    for folder, environment in ((first, a), (second, b)):
        rates = folder.machine.gemm_flops_per_second.items()
        products = ", ".join(f"{float(rate) / 1e9:.0f} on {threads}" for threads, rate in rates)
        environment["matrix product (GFLOP/s on threads)"] = products
    names = [name for name in dict.fromkeys([*a, *b]) if name != "command"]
    return pd.DataFrame(
        {"": name, "A": str(a.get(name)), "B": str(b.get(name))}
        for name in names
        if a.get(name) != b.get(name)
    )


def _show(content: pd.DataFrame, title: str, screen: Console) -> None:
    if content.empty:
        return
    table = rich.table.Table(box=None, header_style="bold", title=title, title_justify="left")
    for name in content:
        table.add_column(str(name), justify="right" if is_number(content[name]) else "left")
    for row in content.itertuples(index=False):
        table.add_row(*map(shown, row))
    screen.print(table)
