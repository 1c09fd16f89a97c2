"""``fathom compare``: two folders of ``fathom characterize`` side by side."""

import argparse

import rich.table
from rich.console import Console

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.analyses import Comparison, Table, compare
from fathom.characterize.report.analyses.table import shown
from fathom.errors import FathomError
from fathom.results.profile import Profile


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom compare`` as its command line says.

    Raises:
        FathomError: a folder cannot be read, or the two have nothing to compare.
    """
    first, second = Folder.read(chosen.first), Folder.read(chosen.second)
    comparison = folders(first, second)
    screen.print(f"A: {chosen.first}\nB: {chosen.second}")
    _show(_environments(first, second), "what differs", screen)
    _show(comparison.table(), "median step times and the 95 % interval of their ratio", screen)
    if any("one run" in ratio.basis for ratio in comparison.ratios):
        screen.print(
            "Where one run is all there is, the noise from run to run is not in the interval: "
            "characterize with --repeats has it."
        )
    _show(comparison.shares_table(), "op types' shares of the time in ops, training", screen)
    if comparison.shares:
        screen.print(
            "Each share comes from one profile a side, taken in one process: the noise from run to "
            "run is not in its interval."
        )
    for sentence in comparison.refused:
        screen.print(f"not compared: {sentence}")
    if not (comparison.ratios or comparison.shares):
        raise FathomError(
            f"{chosen.first} and {chosen.second} have no like runs: measure the same workloads with"
            " the same batch sizes"
        )


def folders(first: Folder, second: Folder) -> Comparison:
    """Compares what two folders have in common: default threads, all cores."""
    return compare(_comparable(first), _comparable(second))


def _comparable(folder: Folder) -> tuple[list, list]:
    runs = {
        run.id: run
        for purpose in ("modes", "repeats")
        for run in selection.timing_runs(folder, purpose)
    }
    return list(runs.values()), _profiles(folder)


def _profiles(folder: Folder) -> list[Profile]:
    """Returns one profile a workload, also where its ops took no time: it is refused by name."""
    profiles = selection.training_profiles(folder)
    known = {profile.workload for profile in profiles}
    empty = {
        run.workload: run.profile
        for run in folder.runs
        if run.profile and selection.is_profile(run) and run.workload not in known
    }
    return [*profiles, *empty.values()]


def _environments(first: Folder, second: Folder) -> Table:
    """Returns the fields of the two environments that differ, but for the commands."""
    a, b = (folder.machine.environment.to_plain() for folder in (first, second))
    for folder, environment in ((first, a), (second, b)):
        rates = folder.machine.gemm_flops_per_second.items()
        products = ", ".join(f"{rate / 1e9:.0f} on {threads}" for threads, rate in rates)
        environment["matrix product (GFLOP/s on threads)"] = products
    names = [name for name in dict.fromkeys([*a, *b]) if name != "command"]
    return Table.of(
        {"": name, "A": str(a.get(name)), "B": str(b.get(name))}
        for name in names
        if a.get(name) != b.get(name)
    )


def _show(content: Table, title: str, screen: Console) -> None:
    if not content.rows:
        return
    table = rich.table.Table(box=None, header_style="bold", title=title, title_justify="left")
    for i, column in enumerate(content.columns):
        number = isinstance(content.rows[0][i], float)
        table.add_column(column, justify="right" if number else "left")
    for row in content.rows:
        table.add_row(*map(shown, row))
    screen.print(table)
