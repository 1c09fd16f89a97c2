"""Figure 2 of the Minsky paper: parallel efficiency, cores restricted by CPU affinity."""

from typing import TYPE_CHECKING

import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import GREY, WIDTH, look_of, new_figure, style

if TYPE_CHECKING:
    import matplotlib.figure


def efficiency(runs: pd.DataFrame) -> pd.DataFrame:
    """Compares the step times of runs with different numbers of cores.

    Args:
        runs: completed timings, from ``Folder.runs_frame``; workloads without runs on one core and
            on more are left out. Of equal runs the median is used.

    Returns:
        ``workload``, ``cores``, ``median step (s)``, ``speed-up`` over one core, ``efficiency``,
        the speed-up over the cores.
    """
    keys = ["workload", "cores"]
    seconds = runs.dropna(subset="median_s").groupby(keys, sort=False).median_s.median()
    table = seconds.rename("median step (s)").reset_index()
    cores = table.groupby("workload").cores
    table = table[(cores.transform("min") == 1) & (cores.transform("nunique") > 1)]
    table = selection.in_order(table.sort_values("cores", kind="stable"))
    first = table.groupby("workload")["median step (s)"].transform("first")
    table["speed-up"] = first / table["median step (s)"]
    table["efficiency"] = table["speed-up"] / table.cores.astype(float)
    return table.reset_index(drop=True)


def summary(table: pd.DataFrame) -> str:
    """Summarizes the efficiencies in a sentence."""
    last = table.drop_duplicates("workload", keep="last")
    ends = [f"{row.workload} {row.efficiency:.2f} at {row.cores}" for row in last.itertuples()]
    return f"Efficiency on the most cores measured: {', '.join(ends)}."


def draw(table: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the speed-up over the cores used, against the cores."""
    with style():
        figure = new_figure(WIDTH, 3.6)
        axes = figure.subplots()
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
        for workload, each in table.groupby("workload", sort=False):
            look = look_of(str(workload))
            axes.plot(each.cores, each.efficiency, **look, linewidth=1, label=workload)
        axes.set_xticks(sorted(table.cores.unique()))
        axes.set(xlabel="cores", ylabel="speed-up over cores")
        axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _analyse(folder: Folder) -> Findings:
    table = efficiency(selection.timings(folder, "cores"))
    runs = folder.runs_frame()
    wanted, one = runs[selection.is_timing(runs, "cores")], "not timed on one core and on more"
    gaps = selection.gaps(wanted, table.workload.unique(), one)
    if table.empty:
        return Findings(gaps=[*gaps, "runs on one core and on more are needed"])
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="M-eff",
    order=9,
    title="Parallel efficiency",
    meaning="Speed-up of the median training step over the cores used. CPU affinity restricts the "
    "cores; thread pools have default sizes.",
    paper="Minsky, Figure 2, a picture without numbers, for 1 to 20 cores: AlexNet, residual and "
    "VGG scale relatively well, autoenc and memnet do not.",
    analyse=_analyse,
)
