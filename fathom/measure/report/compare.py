"""``fathom compare``: compares results directories of ``fathom characterize``, or two variants."""

import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import geometric_mean

import pandas as pd
from rich.console import Console

from fathom.errors import FathomError
from fathom.measure.profile.view import new_table
from fathom.measure.report.comparison import LABELS, compare
from fathom.measure.report.page import is_number, readable, shown
from fathom.measure.report.pairs import Ratio, verdict
from fathom.measure.runs.folder import Folder
from fathom.measure.runs.interleave import RUNS, Interleaving
from fathom.system.files import exists
from fathom.system.folders import claim_folder


def compare_folders(paths: Sequence[Path], screen: Console) -> None:
    """Compares results directories with the first one.

    Raises:
        FathomError: a folder cannot be read, or there is nothing to compare.
    """
    if len(paths) > len(LABELS):
        raise FathomError(f"{len(paths)} folders are too many: compare at most {len(LABELS)}")
    folders = dict(zip(LABELS, map(Folder.read, paths), strict=False))
    base, *others = folders.values()
    comparison = compare(base, others)
    for label, path in zip(folders, paths, strict=True):
        screen.print(f"{label}: {path}")
    environments = {label: _environment(folder) for label, folder in folders.items()}
    _show(_differences(environments), "what differs", screen)
    _show(comparison.ratios, "median step times and the 95 % interval of their ratio", screen)
    if len(comparison.ratios) and comparison.ratios.verdict.notna().any():
        screen.print(
            "machine: how much slower the machine itself was at times, by its probes and the CPU "
            "time of disturbed runs. A ratio within it counts as noise; `python -m fathom compare "
            "--interleave` shows smaller differences."
        )
        screen.print(
            "A difference below `would show` has no verdict: it may be there all the same. More "
            "`--repeats` lower it."
        )
    _show(comparison.shares, "op types' shares of the time in ops, training", screen)
    both = [each for each in (comparison.ratios, comparison.shares) if len(each)]
    if any(each.verdict.isna().any() for each in both):
        screen.print(
            "No verdict with a single run or profile on either side: the noise from run to run is "
            "unknown. `python -m fathom characterize --repeats 3 --profile-repeats 3 --out "
            f"{shlex.quote(str(paths[0]))}`, with the options that the folder was measured "
            "with, and likewise for the other folders, repeats them."
        )
    for sentence in comparison.refused:
        screen.print(f"not compared: {sentence}")
    if comparison.ratios.empty and comparison.shares.empty:
        raise FathomError(
            f"{', '.join(map(str, paths))} have no like runs of the sets modes, repeats and "
            "profile, which alone are compared: measure the same workloads with the same batch "
            "sizes"
        )


def interleave(
    commands: Sequence[str], width: float, budget_s: float, out: Path | None, screen: Console
) -> None:
    """Measures two variants in turn; shows what was measured also after an error or interrupt.

    Args:
        commands: of A and B.
        width: of the interval of the ratio at which the comparison ends, relative to the ratio.
        budget_s: seconds after which it ends at the latest.
        out: folder of the results; None: one named after the time.
        screen: for the output.

    Raises:
        FathomError: there are not two variants, one fails, or the folder cannot be used.
    """
    if len(commands) != 2:
        raise FathomError("--interleave takes two variants, each a command in quotes")
    out = out or Path("results") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    if exists(out / RUNS):
        raise FathomError(f"{out} has the runs of another comparison: give another --out")
    folder = claim_folder(out, "compare")
    measured = Interleaving(dict(zip(LABELS, commands, strict=False)), folder)
    for label, command in measured.commands.items():
        screen.print(f"{label}: {command}")
    screen.print(
        f"until the interval of B/A is at most {100 * width:g} % wide, or {budget_s / 60:g} min"
    )
    try:
        measured.measure(width, budget_s, screen)
    finally:
        found = measured.ratio()
        if found:
            _show_pairs(measured, found, screen)
            screen.print(verdict(found, width))
            needed = found.pairs_needed(width)
            if not found.is_narrow(width) and needed > found.pairs:
                takes = f"an interval {100 * width:g} % wide takes about {needed} pairs"
                minutes = math.ceil(needed * measured.pair_seconds / 60)
                screen.print(f"{takes}: --budget {minutes}")
        screen.print(f"results and logs: {out}")


def _show_pairs(measured: Interleaving, found: Ratio, screen: Console) -> None:
    """Shows how the variants differ, and their step times and ratio."""
    described = {run.variant: run.result for run in measured.runs[:2]}
    settings = {
        label: {
            **result.environment.to_plain(),
            **result.hyperparameters.to_plain(),
            **result.options.to_plain(),
            "seed": result.seed,
            **{f"data {name}": value for name, value in result.data.to_plain().items()},
        }
        for label, result in sorted(described.items())
    }
    differences = _differences(settings)
    _show(differences, "what differs", screen)
    if differences.empty:
        screen.print("what differs: nothing that the results record")
    columns: dict[str, object] = {}
    for label in measured.commands:
        columns[f"{label} (ms)"] = 1e3 * geometric_mean(measured.seconds(label))
    columns |= {"B over A": found.value, "from": found.low, "to": found.high, "pairs": found.pairs}
    for label in measured.commands:
        results = [run.result for run in measured.runs if run.variant == label]
        shares = [result.cpu_share for result in results if result.cpu_share is not None]
        columns[f"{label}'s CPU/wall"] = sum(shares) / len(shares) if shares else math.nan
        columns[f"{label} disturbed"] = sum(result.disturbed for result in results)
    _show(pd.DataFrame([columns]), "median step times, and the 95 % interval of the ratio", screen)


def _differences(sides: Mapping[str, Mapping[str, object]]) -> pd.DataFrame:
    """Returns the fields in which the sides differ, as text, without the commands."""
    texts = {label: {name: str(v) for name, v in side.items()} for label, side in sides.items()}
    table = pd.DataFrame(texts).drop("command").rename_axis("").reset_index()
    return table[table[list(sides)].nunique(axis=1, dropna=False) > 1]


def _environment(folder: Folder) -> dict[str, object]:
    rates = folder.machine.gemm_flops_per_second.items()
    products = ", ".join(f"{float(rate) / 1e9:.0f} on {threads}" for threads, rate in rates)
    environment = folder.machine.environment.to_plain()
    environment["matrix product (GFLOP/s on threads)"] = products
    return environment


def _show(content: pd.DataFrame, title: str, screen: Console) -> None:
    if content.empty:
        return
    numbers = [str(name) for name in content if is_number(content[name])]
    table = new_table(title, map(str, content), numbers)
    for row in readable(content).itertuples(index=False):
        table.add_row(*map(shown, row))
    screen.print(table)
