"""Section V.A of the Fathom paper: the time of a step in which no op runs."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import BLUE, ORANGE, WIDTH, legend_above, new_figure, style

if TYPE_CHECKING:
    import matplotlib.figure


def outside_ops(profiles: pd.DataFrame) -> pd.DataFrame:
    """Returns the share of each workload's steps outside ops, and the profiler's overhead.

    Args:
        profiles: profile runs, one per workload, from ``Folder.runs_frame``.
    """
    return pd.DataFrame(
        {
            "workload": profiles.workload,
            "threads": profiles.threads,
            "steps": profiles.profiled_steps,
            "share outside ops": profiles.outside_share,
            "profiler's overhead": profiles.overhead,
        }
    ).reset_index(drop=True)


def summary(table: pd.DataFrame) -> str:
    """Summarizes the shares in a sentence."""
    share = table["share outside ops"]
    return (
        f"{(share < 0.02).sum()} of {len(table)} workloads spend under 2 % of a step outside ops; "
        f"the most is {share.max():.1%}, in {table.workload.iloc[share.argmax()]}."
    )


def draw(table: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the share of each workload's step in which no op runs."""
    percent = 100 * table["share outside ops"]
    with style():
        figure = new_figure(WIDTH, 0.9 + 0.3 * len(table))
        axes = figure.subplots()
        rows = np.arange(len(table))
        bars = axes.barh(rows, percent, color=BLUE, height=0.6)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.axvspan(1, 2, color=ORANGE, alpha=0.4, zorder=0, label="1-2 % (the paper)")
        axes.set_yticks(rows, table.workload)
        axes.invert_yaxis()
        axes.set_xlim(0, max(3.0, 1.15 * percent.max()))
        axes.set_xlabel("share of a step outside ops (%)")
        legend_above(figure, columns=1)
    return figure


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    table = outside_ops(selection.profiles(folder).drop_duplicates("workload"))
    found = f"{summary(table)}{selection.uncompiled(folder)}"
    return Findings(found, draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="V-A",
    order=7,
    title="Time outside ops",
    meaning="The share of the profiled steps in which no op runs on any thread. The profiler's "
    "overhead is the median step with it over the median without it in the same process; the "
    "other times of this report are measured without it, except those by op type.",
    paper="Fathom, section V.A: typically less than 1-2 % of the runtime is spent outside of ops.",
    analyse=_analyse,
)
