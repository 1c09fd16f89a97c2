"""Figure 4 of the Minsky paper: the spread of whole runs, without warm-up runs."""

import numpy as np
import pandas as pd
import scipy.stats

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import CONFIDENCE, Interval
from fathom.measure.runs.folder import Folder

_FEWEST_FOR_BOX = 5  # runs: quartiles of fewer say no more than the points
_CASE = ["workload", "mode", "device"]


def wall_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the wall times of equal runs other than warm-up, if there are at least two.

    Returns:
        ``workload``, ``mode``, ``device`` (``cpu`` or ``gpu``), ``run`` from 1, ``wall (s)`` from
        outside the process; ``over the CPU's mean``, missing without a run on the CPU.
    """
    table = runs[["workload", "mode", "on", "wall_s"]]
    table = table.rename(columns={"on": "device", "wall_s": "wall (s)"})
    table = table[table.groupby(_CASE)["wall (s)"].transform("size") > 1]
    order = table.groupby(_CASE, sort=False).ngroup()
    table = table.iloc[order.argsort(kind="stable")].reset_index(drop=True)
    table.insert(3, "run", table.groupby(_CASE).cumcount() + 1)
    on_cpu = runs[runs.on == "cpu"].groupby(["workload", "mode"]).wall_s.mean()
    mean = on_cpu.reindex(pd.MultiIndex.from_frame(table[["workload", "mode"]]))
    return table.assign(**{"over the CPU's mean": table["wall (s)"] / mean.to_numpy()})


def spread(walls: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per workload, mode and device.

    ``variation`` is standard deviation over mean; ``from`` and ``to`` are the limits of its 95 %
    interval (chi-squared, as if the mean were known exactly).
    """
    seconds = walls.groupby(_CASE, sort=False)["wall (s)"]
    freedom, tail = seconds.size() - 1, (1 - CONFIDENCE) / 2
    variation = seconds.std() / seconds.mean()
    table = pd.DataFrame(
        {
            "runs": seconds.size(),
            "mean (s)": seconds.mean(),
            "median (s)": seconds.median(),
            "least (s)": seconds.min(),
            "most (s)": seconds.max(),
            "variation": variation,
            "from": variation * np.sqrt(freedom / scipy.stats.chi2.ppf(1 - tail, freedom)),
            "to": variation * np.sqrt(freedom / scipy.stats.chi2.ppf(tail, freedom)),
        }
    )
    return table.reset_index()


def summary(table: pd.DataFrame) -> str:
    """Summarizes the spread in a sentence."""
    most = table.iloc[table.variation.argmax()]
    percent = Interval(*(100 * most[["variation", "from", "to"]]))
    return (
        f"The largest coefficient of variation of whole runs is {percent.text('.1f')} % "
        f"({most.workload}, {most['mode']}, {most.device}, {most.runs} runs)."
    )


def draw(walls: pd.DataFrame) -> style.Plot:
    """Draws each run over the mean on the CPU as a point, and quartiles of enough runs as a box."""
    groups = list(walls.groupby(_CASE, sort=False))
    with style.single(1 + 0.35 * len(groups)) as (figure, axes):
        axes.axvline(1, color=style.GREY, linewidth=0.8, linestyle="--")
        for row, (_, each) in enumerate(groups):
            times = each["over the CPU's mean"].to_numpy()
            if np.isnan(times).any():  # nothing ran on the CPU
                times = (each["wall (s)"] / each["wall (s)"].mean()).to_numpy()
            if len(times) >= _FEWEST_FOR_BOX:
                axes.boxplot(
                    times,
                    positions=[row],
                    orientation="horizontal",
                    widths=0.6,
                    showfliers=False,
                    medianprops={"color": style.RED},
                    manage_ticks=False,
                )
            offsets = np.linspace(-0.2, 0.2, len(times))
            axes.plot(times, row + offsets, ".", color=style.BLUE, markersize=6)
        labels = [
            f"{workload}, {mode}, {str(device).upper()}" for (workload, mode, device), _ in groups
        ]
        style.name_rows(axes, labels)
        axes.set_xlabel("wall time of a run over the mean on the CPU")
        axes.grid(axis="x")
    return figure


def _analyse(folder: Folder) -> Findings:
    walls = wall_times(selection.timings(folder, "repeats"))
    wanted = selection.timing_runs(folder, "repeats")
    gaps = selection.gaps(wanted, walls.workload.unique(), "trained only once")
    if walls.empty:
        return Findings(gaps=[*gaps, "at least two equal runs are needed"])
    table = spread(walls)
    return Findings(summary(table), draw(walls), walls, {"spread": table}, gaps)


FIGURE = Figure(
    id="M-var",
    order=12,
    title="Spread from run to run",
    meaning="Wall times of whole training runs over their mean on the CPU, warm-up runs left out. "
    "Points are runs; a box has the quartiles of five runs or more.",
    paper="Minsky, Figure 4, a picture without numbers, of 200 runs after 10 for warm-up: runs on "
    "the GPU vary too, but are consistently shorter than those on the CPU.",
    analyse=_analyse,
)
