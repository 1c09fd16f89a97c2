"""Figure 2 of the Fathom paper: a handful of op types makes up most of the time."""

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import intervals, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_RANKS = 25  # drawn


def curves(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the op types of each workload by decreasing share.

    Returns:
        ``workload``, ``rank`` from 1, ``op type``, ``share`` and ``cumulative share`` of the time
        in ops, from 0 to 1; ``from`` and ``to``, the limits of the latter's 95 % interval between
        processes.
    """
    table = tables.op_types(ops)
    limits = [
        _limits(ops[ops.workload == workload], list(types))
        for workload, types in table.groupby("workload", sort=False).type
    ]
    low, high = np.clip(np.concatenate(limits), 0, 1).T
    return pd.DataFrame(
        {
            "workload": table.workload,
            "rank": table.groupby("workload").cumcount() + 1,
            "op type": table.type,
            "share": table.share,
            "cumulative share": table.cumulative_share,
            "from": low,
            "to": high,
        }
    )


def _limits(ops: pd.DataFrame, types: list[str]) -> np.ndarray:
    """Returns the limits of the cumulative share of one workload's types, float64 [types, 2]."""
    cumulative = tables.shares_by_process(ops).loc[types].cumsum().to_numpy()
    found = intervals.combine([cumulative], lambda means: means)
    return np.array([[each.low, each.high] for each in found])


def counts(ranks: pd.DataFrame) -> pd.DataFrame:
    """Returns the number of op types that make up 90 and 99 % of each workload's time.

    The interval of a number, ``from`` and ``to``, is that of the ranks at which the interval of the
    cumulative share includes it.
    """
    first = ranks[ranks["rank"] == 1].set_index("workload")
    table = pd.DataFrame({"op types": ranks.groupby("workload", sort=False).size()})
    for percent in (90, 99):
        table[f"types to {percent} %"] = _reached(ranks, "cumulative share", percent)
        known = ranks.groupby("workload")["from"].count() > 0
        for name, limit in (("from", "to"), ("to", "from")):  # a larger share takes fewer types
            column = _reached(ranks, limit, percent).where(known)
            table[f"{percent} % {name}"] = column.astype("Int64")
    table["heaviest"], table["its share"] = first["op type"], first["share"]
    return table.reset_index()


def _reached(ranks: pd.DataFrame, column: str, percent: int) -> pd.Series:
    before = ranks[column] < percent / 100 - 1e-12
    return before.groupby(ranks.workload).sum() + 1


def summary(table: pd.DataFrame) -> str:
    """Summarizes the counts in a sentence."""
    counts = table.set_index("workload")[["types to 90 %", "90 % from", "90 % to"]]
    counted = intervals.listed(counts, ".0f")
    return f"The number of op types that make up 90 % of the time in ops: {counted}."


def draw(ranks: pd.DataFrame) -> style.Plot:
    """Draws the cumulative share of the op types of ``curves``, one curve per workload."""
    to_90 = counts(ranks).set_index("workload")["types to 90 %"]
    with style.single(4) as (figure, axes):
        axes.axvspan(5, 15, color="#EEEEEE", label="5 to 15 types (the paper)")
        axes.axhline(90, color=style.GREY, linewidth=0.8, linestyle="--")
        shown = ranks[ranks["rank"] <= _RANKS]
        for workload, curve in shown.groupby("workload", sort=False):
            axes.plot(
                curve["rank"],
                100 * curve["cumulative share"],
                **style.look_of(str(workload)),
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
    found = f"{summary(table)}{selection.caveats(selection.training_profiles(folder))}"
    return Findings(found, draw(ranks), ranks, {"workloads": table}, gaps)


FIGURE = Figure(
    id="F2",
    order=1,
    title="Op types by share of the time",
    meaning="Op types sorted by their share of the time in ops, and the cumulative share. "
    "Shares are means over the processes, intervals between processes.",
    paper="Fathom, Figure 2, a picture without numbers: usually 5 to 15 types are responsible for "
    "upwards of 90 % of the duration (the shaded band).",
    analyse=_analyse,
)
