"""Figure 6 of the Fathom paper: what parallelism inside ops does to each op type."""

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

_HEAVIEST = 7  # op types shown of a workload
_LAYERS_NAMED = 3


def scaling(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares the heaviest op types of each workload over the threads inside an op.

    Those are shown that have the largest share of the time on any number of threads, the heaviest
    on the fewest threads first; so that a type is there which emerges with more of them.

    Args:
        ops: profiles as ``Folder.ops`` has them, one a workload and number of threads; a workload
            with one number of threads alone is left out.

    Returns:
        ``workload``; ``op type``; ``role``, the layers that take most of its time; ``threads``;
        ``time a step (s)``, the mean; ``share of time in ops``, from 0 to 1.
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
            "time a step (s)": seconds.loc[op_type, threads],
            "share of time in ops": shares.loc[op_type, threads],
        }
        for op_type in order.index
        for threads in seconds.columns
    )


def _role(ops: pd.DataFrame) -> str:
    """Returns the layers that take most of a type's time, the heaviest first."""
    layers = tables.heaviest(ops, "layer")
    more = ", ..." if len(layers) > _LAYERS_NAMED else ""
    return ", ".join(layers[:_LAYERS_NAMED]) + more


def summary(table: pd.DataFrame) -> str:
    """Says for each workload what more threads do."""
    return " ".join(
        _sentence(str(workload), each) for workload, each in table.groupby("workload", sort=False)
    )


def _sentence(workload: str, table: pd.DataFrame) -> str:
    few, many = table.threads.min(), table.threads.max()
    ends = table.pivot(index="op type", columns="threads")
    heaviest = table["op type"].iloc[0]
    seconds, shares = ends["time a step (s)"], ends["share of time in ops"]
    with np.errstate(divide="ignore"):
        gained = seconds.loc[heaviest, few] / seconds.loc[heaviest, many]
    grown = (shares[many] - shares[few])[table["op type"].unique()].idxmax()
    return (
        f"{workload}: from {few} to {many} threads {heaviest} becomes {gained:.2f} times as fast, "
        f"and the share of {grown} goes from {shares.loc[grown, few]:.1%} to "
        f"{shares.loc[grown, many]:.1%}."
    )


def draw(table: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the absolute time of each op type by threads, with the layers that it serves."""
    import matplotlib

    numbers = sorted(table.threads.unique())
    colours = matplotlib.colormaps["cividis"](np.linspace(0.1, 0.9, len(numbers)))
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
                    1e3 * each["time a step (s)"],
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
        figure.supxlabel("time a step (ms)", fontsize=9)
        legend_above(figure, columns=8)
    return figure


def _analyse(folder: Folder) -> Findings:
    profiles = selection.profiles(folder).drop_duplicates(["workload", "threads"])
    table = scaling(selection.ops_of(folder, profiles))
    runs = folder.runs_frame()
    one = "profiled with one number of threads alone"
    gaps = selection.gaps(runs[selection.is_profile(runs)], table.workload.unique(), one)
    if table.empty:
        return Findings(gaps=[*gaps, "it takes profiles with two numbers of threads"])
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="F6",
    order=6,
    title="Parallelism inside ops",
    meaning="Mean time a step of the heaviest op types, by the threads of the pool inside an op. "
    "Under each type stand the layers in which it takes most time.",
    paper="Fathom, Figure 6, pictures of deepq, seq2seq and memnet without numbers: types that "
    "scale diminish and others emerge; deepq's optimizer rises to about 7 % at 8 threads.",
    analyse=_analyse,
)
