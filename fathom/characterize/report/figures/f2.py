"""Figure 2 of the Fathom paper: a handful of op types makes up most of the time."""

from typing import TYPE_CHECKING

import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.profile import tables
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import GREY, WIDTH, look_of, new_figure, style

if TYPE_CHECKING:
    import matplotlib.figure

_RANKS = 25  # drawn


def curves(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the op types of each workload by decreasing share.

    Args:
        ops: one profile per workload, from ``frames.profile_ops``.

    Returns:
        ``workload``, ``rank`` from 1, ``op type``, ``share`` and ``cumulative share`` of the time
        in ops, from 0 to 1.
    """
    table = tables.op_types(ops)
    return pd.DataFrame(
        {
            "workload": table.workload,
            "rank": table.groupby("workload").cumcount() + 1,
            "op type": table.type,
            "share": table.share,
            "cumulative share": table.cumulative_share,
        }
    )


def counts(ranks: pd.DataFrame) -> pd.DataFrame:
    """Returns the number of op types that make up 90 and 99 % of each workload's time."""
    first = ranks[ranks["rank"] == 1].set_index("workload")
    workloads = ranks.groupby("workload", sort=False)
    table = pd.DataFrame({"op types": workloads.size()})
    for percent in (90, 99):
        before = ranks["cumulative share"] < percent / 100 - 1e-12
        table[f"types to {percent} %"] = before.groupby(ranks.workload).sum() + 1
    table["heaviest"], table["its share"] = first["op type"], first["share"]
    return table.reset_index()


def summary(table: pd.DataFrame) -> str:
    """Summarizes the counts in a sentence."""
    least, most = table["types to 90 %"].min(), table["types to 90 %"].max()
    span = f"{least}" if least == most else f"{least} to {most}"
    return f"{span} op types make up 90 % of the time in ops."


def draw(ranks: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the cumulative share of the op types of ``curves``, one curve per workload."""
    to_90 = counts(ranks).set_index("workload")["types to 90 %"]
    with style():
        figure = new_figure(WIDTH, 4)
        axes = figure.subplots()
        axes.axvspan(5, 15, color="#EEEEEE", label="5 to 15 types (the paper)")
        axes.axhline(90, color=GREY, linewidth=0.8, linestyle="--")
        shown = ranks[ranks["rank"] <= _RANKS]
        for workload, curve in shown.groupby("workload", sort=False):
            axes.plot(
                curve["rank"],
                100 * curve["cumulative share"],
                **look_of(str(workload)),
                markersize=4,
                linewidth=1,
                label=f"{workload} ({to_90[workload]} to 90 %)",
            )
        axes.set(
            xlabel="op types by decreasing time",
            ylabel="cumulative share of time in ops (%)",
            ylim=(0, 102),
            xlim=(0.5, _RANKS + 0.5),
        )
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    ranks = curves(ops)
    table = counts(ranks)
    return Findings(summary(table), draw(ranks), ranks, {"workloads": table}, gaps)


FIGURE = Figure(
    id="F2",
    order=2,
    title="A handful of op types dominates",
    meaning="Op types sorted by their share of the time in ops, and the cumulative share.",
    paper="Fathom, Figure 2, a picture without numbers: usually 5 to 15 types are responsible for "
    "upwards of 90 % of the duration (the shaded band).",
    analyse=_analyse,
)
