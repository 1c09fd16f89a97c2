"""Where in the model the time goes: an analysis of our own."""

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import mean
from fathom.measure.runs.folder import Folder
from fathom.results.profile import PHASES

_SHOWN = 9  # layers per workload; the others are one bar
_LAYER = "layer or role"
_UNKNOWN = ["", "unknown"]  # layers of ops without one
_COLUMNS = [f"{phase} (s)" for phase in PHASES]


def layer_times(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the time of each workload's layers and roles, in decreasing order.

    Returns:
        ``workload``, ``layer or role``, mean time per step in each of ``PHASES``, ``share`` of the
        time in ops, from 0 to 1.
    """
    names = dict(zip(("layer", *PHASES), (_LAYER, *_COLUMNS), strict=True))
    return tables.layers(ops).rename(columns=names)


def phases(times: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per workload: the share of each phase, and of time with a layer or role."""
    seconds = times.groupby("workload", sort=False)[_COLUMNS].sum()
    table = seconds.div(seconds.sum(axis=1), axis=0).set_axis(list(PHASES), axis=1)
    known = times[_COLUMNS].where(~times[_LAYER].isin(_UNKNOWN), 0.0)
    ascribed = known.groupby(times.workload).sum().sum(axis=1)
    table["has a layer or role"] = ascribed / seconds.sum(axis=1)
    return table.reset_index()


def summary(ops: pd.DataFrame) -> str:
    """Summarizes in a sentence how much of the time has a layer or a role."""
    shares = {
        str(workload): tables.shares_by_process(each, "layer").drop(_UNKNOWN, errors="ignore").sum()
        for workload, each in ops.groupby("workload", sort=False)
    }
    least = min(shares, key=lambda workload: shares[workload].mean())
    percent = mean(100 * shares[least].to_numpy()).clipped(0, 100)
    return (
        f"{percent.text('.1f')} % of {least}'s time in ops has a layer or a stated role, the least "
        "of all workloads."
    )


def draw(times: pd.DataFrame) -> style.Plot:
    """Draws the time of each workload's most expensive layers, stacked by phase."""
    names = list(times.workload.unique())
    with style.panels(names, columns=2, width=4.6, height=2.7) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            _draw_layers(panel, times[times.workload == name])
        style.legend_above(figure, columns=len(PHASES))
    return figure


def _draw_layers(panel: style.Panel, times: pd.DataFrame) -> None:
    """Draws one workload's layers, the most expensive at the top, the others as one bar."""
    shown, others = times[:_SHOWN], times[_SHOWN:]
    labels = [style.shortened(name or "without name", 24) for name in shown[_LAYER]]
    milliseconds = 1e3 * shown[_COLUMNS].to_numpy()
    if len(others):
        labels.append(f"{len(others)} others")
        milliseconds = np.vstack([milliseconds, 1e3 * others[_COLUMNS].sum()])
    colours = zip(milliseconds.T, (style.BLUE, style.ORANGE, style.GREEN, style.GREY), strict=True)
    style.bars(panel, labels, dict(zip(PHASES, colours, strict=True)), stacked=True)
    panel.set_xlabel("time per step (ms)")


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    times = layer_times(ops)
    table = phases(times)
    found = f"{summary(ops)}{selection.caveats(selection.training_profiles(folder))}"
    return Findings(found, draw(times), times, {"phases": table}, gaps)


FIGURE = Figure(
    id="layers",
    order=2,
    title="Where in the model the time goes",
    meaning="The same op times by layer, or by role for ops outside layers: input, network "
    "(between layers), loss, optimizer. Forward pass, backward pass and optimizer are separate.",
    paper="layers are named only in passing; this analysis is our own.",
    analyse=_analyse,
)
