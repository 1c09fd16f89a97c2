"""The program of a step: what XLA compiles, and into how many microbatches a batch is divided.

``fathom characterize`` keeps it the same along a sweep, but modes, workloads and folders measured
earlier can differ. Times of different programs are marked wherever they are compared.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fathom.measure.report.style import BLACK, Panel

PROGRAM = "program"  # the column of a table
_COMPILED = {"off": "op by op", "layers": "XLA for layers", "step": "XLA"}
_DIVIDED = "microbatches"
_MARK = "another program"


def of(runs: pd.DataFrame) -> pd.Series:
    """Returns the program of each run of ``Folder.runs_frame`` in words; missing if it failed."""
    counts = runs.microbatches.fillna(1)
    divided = counts.map(lambda count: f", {count} {_DIVIDED}" if count > 1 else "")
    return (runs.xla.map(_COMPILED) + divided).rename(PROGRAM)


def joined(programs: pd.Series) -> str | float:
    """Returns the programs of equal runs, each once; missing if there are none."""
    return " / ".join(sorted(programs.dropna().unique())) or np.nan


def differ(table: pd.DataFrame, case: Sequence[str]) -> pd.Series:
    """Returns which rows have another program than the first row of their case, bool [rows].

    Args:
        table: with a column ``PROGRAM``; without one all programs are the same.
        case: columns that separate what is compared.
    """
    if PROGRAM not in table:
        return pd.Series(False, table.index)
    first = table.groupby(list(case), sort=False)[PROGRAM].transform("first")
    return table[PROGRAM].notna() & (table[PROGRAM] != first)


def drop_if_uniform(table: pd.DataFrame, case: Sequence[str]) -> pd.DataFrame:
    """Returns a table without its column ``PROGRAM`` where all programs are alike.

    They are not where batches are divided, or where programs differ within a case.
    """
    divided = table[PROGRAM].fillna("").str.contains(_DIVIDED)
    return table if (divided | differ(table, case)).any() else table.drop(columns=PROGRAM)


def mark(panel: Panel, x: pd.Series, y: pd.Series, others: pd.Series) -> None:
    """Draws a cross, which the legend explains, at the points that are ``others`` by ``differ``.

    The panel has its lines already.
    """
    if others.any():
        panel.plot(x[others], y[others], "x", markersize=8, color=BLACK, label=_MARK)


def note(table: pd.DataFrame, case: Sequence[str], along: str) -> str:
    """Returns a sentence on the cases of ``differ`` with several programs; "" if there are none.

    The rows of a case differ by the column ``along``.
    """
    several = table[differ(table, case)]
    cases = table.merge(several[list(case)].drop_duplicates())
    parts = []
    for name, rows in cases.groupby(list(case), sort=False):
        programs = [
            f"{program} ({along} {', '.join(map(str, each[along]))})"
            for program, each in rows.groupby(PROGRAM, sort=False)
        ]
        parts.append(f"{' '.join(map(str, name))}: {'; '.join(programs)}")
    return f" Not the same program (crosses): {'. '.join(parts)}." if parts else ""
