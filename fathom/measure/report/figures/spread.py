"""The distribution of each op's time over the profiled steps: an analysis of our own."""

import pandas as pd

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_KEYS = ["workload", "type", "layer", "phase"]
_SHOWN = 10  # ops per workload
_QUANTILES = {"least": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


def by_step(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the time of each workload's heaviest ops in each step.

    Returns:
        one row per op, an op type of a layer and phase, heaviest first, and step of a profile:
        ``workload``, ``type``, ``layer``, ``phase``, ``run``, ``step``, ``time (ms)``.
    """
    seconds = ops.groupby([*_KEYS, "run", "step"], sort=False, as_index=False).seconds.sum()
    total = seconds.groupby(_KEYS, sort=False).seconds.sum().sort_values(ascending=False)
    heaviest = total.groupby("workload").head(_SHOWN).reset_index()[_KEYS]
    followed = selection.in_order(heaviest).merge(seconds)
    return followed.assign(**{"time (ms)": 1e3 * followed.seconds}).drop(columns="seconds")


def quantiles(followed: pd.DataFrame) -> pd.DataFrame:
    """Returns the distribution of each op from ``by_step``, in milliseconds, one row each."""
    times = followed.groupby(_KEYS, sort=False)["time (ms)"]
    columns = {name: times.quantile(at) for name, at in (_QUANTILES | {"largest": 1.0}).items()}
    return pd.DataFrame({"steps": times.size(), **columns}).reset_index()


def summary(table: pd.DataFrame) -> str:
    """Says in a sentence which op of each workload has the widest distribution."""
    width = table.assign(width=table["75 %"] / table["25 %"].where(table["25 %"] > 0) - 1)
    widest = width.sort_values("width", ascending=False).drop_duplicates("workload")
    listed = ", ".join(
        f"{row.workload} {row.type} of {row.layer} ({row.width:.0%})"
        for row in selection.in_order(widest).dropna(subset="width").itertuples()
    )
    return (
        f"From its fastest quarter of steps to its slowest, an op's time grows most in: {listed}."
    )


def draw(followed: pd.DataFrame) -> style.Plot:
    """Draws a point for each step of each op from ``by_step``, and their median."""
    names = list(followed.workload.unique())
    with style.panels(names, columns=2, width=4.6, height=2.7) as (figure, axes):
        for (_, mine), panel in zip(followed.groupby("workload", sort=False), axes, strict=True):
            _draw_ops(panel, mine)
    return figure


def _draw_ops(panel: style.Panel, followed: pd.DataFrame) -> None:
    labels = []
    for row, (op, each) in enumerate(followed.groupby(_KEYS[1:], sort=False)):
        labels.append(style.shortened(", ".join(dict.fromkeys(map(str, op))), 36))
        times = each["time (ms)"]
        panel.plot(times, [row] * len(times), "o", color=style.BLUE, alpha=0.35, ms=3.5, mew=0)
        panel.plot(times.median(), row, "|", color=style.BLACK, markersize=11, label="_median")
    panel.set_yticks(range(len(labels)), labels, fontsize=7.5)
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")
    panel.grid(axis="x")
    panel.set_xlabel("time in a step (ms)")


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    followed = by_step(ops)
    table = quantiles(followed)
    found = f"{summary(table)}{selection.caveats(selection.training_profiles(folder))}"
    return Findings(found, draw(followed), followed, {"quantiles": table}, gaps)


FIGURE = Figure(
    id="spread",
    order=11,
    title="Distribution of each op's time",
    meaning="A point for each profiled step of all processes, and a bar at their median: the time "
    "of each workload's ten heaviest ops, an op type of one layer and phase. Where batches differ "
    "in length, the times do too.",
    analyse=_analyse,
)
