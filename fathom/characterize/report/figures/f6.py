"""Figure 6 of the Fathom paper: the effect of intra-op parallelism on each op type."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.profile import tables
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import (
    HATCHES,
    legend_above,
    panels,
    shortened,
    style,
)

if TYPE_CHECKING:
    import matplotlib.figure

_HEAVIEST = 7  # op types shown per workload
_LAYERS_NAMED = 3


def scaling(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares the most expensive op types of each workload by the number of threads.

    The types shown have the largest share of the time at any number of threads, so that types that
    emerge with more threads are included; they are sorted by their time with the fewest threads.

    Args:
        ops: profiles from ``Folder.ops``, one per workload and number of threads; workloads with a
            single number of threads are left out.

    Returns:
        ``workload``; ``op type``; ``role``, the layers that take most of its time; ``threads``;
        ``time per step (s)``, the mean; ``share of time in ops``, from 0 to 1.
    """
    groups = [each for _, each in ops.groupby("workload", sort=False)]
    several = [_scaling(each) for each in groups if each.threads.nunique() > 1]
    return pd.concat(several, ignore_index=True) if several else pd.DataFrame({"workload": []})


def _scaling(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares one workload's op types."""
    seconds = ops.pivot_table("seconds", "type", "threads", "sum", fill_value=0.0)
    seconds /= ops.groupby("threads").step.nunique()  # of a step
    shares = seconds / seconds.sum()
    shown = shares.max(axis=1).sort_values(ascending=False, kind="stable").index[:_HEAVIEST]
    order = (
        seconds.loc[shown]
        .sort_index()
        .sort_values(seconds.columns[0], ascending=False, kind="stable")
    )
    roles = {op_type: _role(ops[ops.type == op_type]) for op_type in order.index}
    return pd.DataFrame(
        {
            "workload": ops.workload.iloc[0],
            "op type": op_type,
            "role": roles[op_type],
            "threads": threads,
            "time per step (s)": seconds.loc[op_type, threads],
            "share of time in ops": shares.loc[op_type, threads],
        }
        for op_type in order.index
        for threads in seconds.columns
    )


def _role(ops: pd.DataFrame) -> str:
    """Returns the layers that take most of a type's time, in decreasing order."""
    layers = tables.heaviest(ops, "layer")
    more = ", ..." if len(layers) > _LAYERS_NAMED else ""
    return ", ".join(layers[:_LAYERS_NAMED]) + more


def summary(table: pd.DataFrame) -> str:
    """Summarizes the effect of more threads for each workload."""
    return " ".join(
        _sentence(str(workload), each) for workload, each in table.groupby("workload", sort=False)
    )


def _sentence(workload: str, table: pd.DataFrame) -> str:
    few, many = table.threads.min(), table.threads.max()
    ends = table.pivot(index="op type", columns="threads")
    heaviest = table["op type"].iloc[0]
    seconds, shares = ends["time per step (s)"], ends["share of time in ops"]
    with np.errstate(divide="ignore"):
        gained = seconds.loc[heaviest, few] / seconds.loc[heaviest, many]
    grown = (shares[many] - shares[few])[table["op type"].unique()].idxmax()
    return (
        f"{workload}: from {few} to {many} threads {heaviest} becomes {gained:.2f} times as fast, "
        f"and the share of {grown} goes from {shares.loc[grown, few]:.1%} to "
        f"{shares.loc[grown, many]:.1%}."
    )


def draw(table: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the absolute time of each op type by threads, with the layers that use it."""
    import matplotlib

    numbers = sorted(table.threads.unique())
    colours = matplotlib.colormaps["cividis"](np.linspace(0.25, 0.9, len(numbers)))
    names = list(table.workload.unique())
    with style():
        figure, axes = panels(names, columns=2, width=4.8, height=3)
        for name, panel in zip(names, axes, strict=True):
            mine = table[table.workload == name]
            roles = mine.drop_duplicates("op type")
            height = 0.8 / mine.threads.nunique()
            rows = np.arange(len(roles))
            for j, (threads, each) in enumerate(mine.groupby("threads")):
                look = numbers.index(threads)
                panel.barh(
                    rows + (j - (mine.threads.nunique() - 1) / 2) * height,
                    1e3 * each["time per step (s)"],
                    height=height,
                    color=colours[look],
                    edgecolor="white",
                    hatch=HATCHES[look % len(HATCHES)],
                    label=f"{threads} thread{'s' if threads > 1 else ''}",
                )
            labels = [
                f"{op_type}\n{shortened(role, 28)}"
                for op_type, role in zip(roles["op type"], roles.role, strict=True)
            ]
            panel.set_yticks(rows, labels, fontsize=7.5)
            panel.invert_yaxis()
            panel.grid(axis="x")
            panel.set_xlabel("time per step (ms)")
        legend_above(figure, columns=4)
    return figure


def _analyse(folder: Folder) -> Findings:
    profiles = selection.profiles(folder).drop_duplicates(["workload", "threads"])
    table = scaling(selection.ops_of(folder, profiles))
    runs = folder.runs_frame()
    one = "profiled with a single number of threads"
    gaps = selection.gaps(runs[selection.is_profile(runs)], table.workload.unique(), one)
    if table.empty:
        return Findings(gaps=[*gaps, "profiles with at least two numbers of threads are needed"])
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="F6",
    order=6,
    title="Intra-op parallelism",
    meaning="Mean time per step of the most expensive op types, by the number of intra-op threads. "
    "Below each type are the layers in which it takes most of its time.",
    paper="Fathom, Figure 6, pictures of deepq, seq2seq and memnet without numbers: types that "
    "scale diminish and others emerge; deepq's optimizer rises to about 7 % at 8 threads.",
    analyse=_analyse,
)
