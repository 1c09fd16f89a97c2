"""Section V.A of the Fathom paper: the time of a step in which no op runs."""

import numpy as np
import pandas as pd

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import Interval, listed, mean
from fathom.measure.runs.folder import Folder

_PAPER = 2  # percent outside ops, at most, in the paper


def outside_ops(profiles: pd.DataFrame) -> pd.DataFrame:
    """Returns the share of each workload's steps outside ops, and the profiler's overhead.

    Returns:
        one row per workload; shares and overheads are means over the processes, ``from`` and
        ``to`` the limits of the share's 95 % interval between processes.
    """
    groups = profiles.groupby("workload", sort=False)
    rows = [{"workload": workload, **_outside(each)} for workload, each in groups]
    return pd.DataFrame(rows)


def _outside(profiles: pd.DataFrame) -> dict[str, object]:
    return {
        "threads": profiles.threads.iloc[0],
        "processes": selection.count(profiles),
        "steps": profiles.profiled_steps.iloc[0],
        **mean(profiles.outside_share.to_numpy(float)).clipped(0, 1).columns("share outside ops"),
        "profiler's overhead": profiles.overhead.mean(),
        **_overhead_limits(profiles),
    }


def _overhead_limits(profiles: pd.DataFrame) -> dict[str, float]:
    """Returns the overhead's interval: between processes, or between the pairs of a single one."""
    low, high = profiles.overhead_low.iloc[0], profiles.overhead_high.iloc[0]
    if len(profiles) > 1:
        between = mean(profiles.overhead.to_numpy(float))
        low, high = between.low, between.high
    return {"overhead from": low, "overhead to": high}


def summary(table: pd.DataFrame) -> str:
    """Summarizes the shares in a sentence."""
    percent = 100 * table.set_index("workload")[["share outside ops", "from", "to"]]
    shares = [Interval(*row) for row in percent.to_numpy()]
    under = sum(share.high < _PAPER for share in shares)
    counted = f" Under {_PAPER} % in {under}, over in {sum(s.low > _PAPER for s in shares)}."
    known = any(share.known for share in shares)
    return f"Percent of a step outside ops: {listed(percent, '.1f')}.{counted if known else ''}"


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the share of each workload's step in which no op runs."""
    percent = 100 * table["share outside ops"]
    with style.single(0.9 + 0.3 * len(table)) as (figure, axes):
        rows = np.arange(len(table))
        bars = axes.barh(rows, percent, color=style.BLUE, height=0.6)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.axvspan(1, 2, color=style.ORANGE, alpha=0.4, zorder=0, label="1-2 % (the paper)")
        axes.set_yticks(rows, table.workload)
        axes.invert_yaxis()
        axes.set_xlim(0, max(3.0, 1.15 * percent.max()))
        axes.set_xlabel("share of a step outside ops (%)")
        style.legend_above(figure, columns=1)
    return figure


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    profiles = selection.training_profiles(folder)
    table = outside_ops(profiles)
    found = f"{summary(table)}{selection.caveats(profiles)}{selection.uncompiled(folder)}"
    return Findings(found, draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="V-A",
    order=5,
    title="Time outside ops",
    meaning="The share of the profiled steps in which no op runs on any thread; intervals "
    "are between processes. The profiler's overhead is the time that it adds to a step, from steps "
    "with and without it in turn in the same process, with its interval between processes, or "
    "between the pairs of steps of a single one; the other times of this report are measured "
    "without it, except those by op type.",
    paper="Fathom, section V.A: typically less than 1-2 % of the runtime is spent outside of ops.",
    analyse=_analyse,
)
