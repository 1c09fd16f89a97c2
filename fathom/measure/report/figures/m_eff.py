"""Figure 2 of the Minsky paper: parallel efficiency, cores restricted by CPU affinity."""

import numpy as np
import pandas as pd

from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import Interval, ratio
from fathom.measure.runs.folder import Folder

_COLUMNS = [
    *("workload", "cores", "runs", "median step (s)", "speed-up", "efficiency", "from", "to"),
    programs.PROGRAM,
]


def efficiency(runs: pd.DataFrame) -> pd.DataFrame:
    """Compares the step times of runs with different numbers of cores.

    Workloads without runs on one core and on more are left out.

    Returns:
        ``workload``; ``cores``; ``runs``, their number; ``median step (s)``, the geometric mean of
        equal runs; ``speed-up`` over one core; ``efficiency``, the speed-up over the cores, and
        ``from`` and ``to``, the limits of its 95 % interval between runs, missing with one run on
        either side; ``program``, where batches are divided or programs differ between cores.
    """
    timed = runs.dropna(subset="median_s")
    rows = []
    for workload, mine in selection.in_order(timed).groupby("workload", sort=False):
        by_cores = {int(each.cores.iloc[0]): each for _, each in mine.groupby("cores")}
        if 1 in by_cores and len(by_cores) > 1:
            rows += [_row(by_cores[1], each) | {"workload": workload} for each in by_cores.values()]
    return programs.drop_if_uniform(pd.DataFrame(rows, columns=_COLUMNS), ["workload"])


def _row(one: pd.DataFrame, runs: pd.DataFrame) -> dict[str, object]:
    """Returns the columns of one number of cores, given the runs on one core."""
    cores, seconds = int(runs.cores.iloc[0]), runs.median_s.to_numpy(float)
    speed_up = Interval(1.0) if cores == 1 else ratio(one.median_s.to_numpy(float), seconds)
    return {
        "cores": cores,
        "runs": selection.count(runs),
        "median step (s)": float(np.exp(np.log(seconds).mean())),
        "speed-up": speed_up.value,
        "efficiency": speed_up.value / cores,
        "from": speed_up.low / cores,
        "to": speed_up.high / cores,
        programs.PROGRAM: programs.joined(programs.of(runs)),
    }


def summary(table: pd.DataFrame) -> str:
    """Summarizes the efficiencies in a sentence."""
    last = table.drop_duplicates("workload", keep="last")
    ends = [
        f"{row.workload} {Interval(*row[['efficiency', 'from', 'to']]).text('.2f')} at {row.cores}"
        for _, row in last.iterrows()
    ]
    return f"Efficiency on the most cores measured: {', '.join(ends)}."


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the speed-up over the cores used, against the cores."""
    with style.single(3.6) as (figure, axes):
        axes.axhline(1, color=style.GREY, linewidth=0.8, linestyle="--")
        for workload, each in table.groupby("workload", sort=False):
            look = style.look_of(str(workload))
            axes.plot(each.cores, each.efficiency, **look, linewidth=1, label=workload)
        programs.mark(axes, table.cores, table.efficiency, programs.differ(table, ["workload"]))
        axes.set_xticks(sorted(table.cores.unique()))
        axes.set(xlabel="cores", ylabel="speed-up over cores")
        axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _analyse(folder: Folder) -> Findings:
    sets = [selection.timings(folder, purpose) for purpose in ("cores", "modes", "repeats")]
    timed = pd.concat(sets).drop_duplicates("run")
    timed = timed[(timed["mode"] == "train") & (timed.on == "cpu")]
    table = efficiency(timed)
    wanted, one = selection.timing_runs(folder, "cores"), "not timed on one core and on more"
    gaps = selection.gaps(wanted, table.workload.unique(), one)
    if table.empty:
        return Findings(gaps=[*gaps, "runs on one core and on more are needed"])
    ends = timed[(timed.cores == 1) | (timed.cores == timed.cores.max())]
    caveats = selection.caveats(ends[ends.workload.isin(table.workload)], "cores")
    caveats += programs.note(table, ["workload"], "cores")
    return Findings(f"{summary(table)}{caveats}", draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="M-eff",
    order=32,
    title="Parallel efficiency",
    meaning="Speed-up of the median training step over the cores used. CPU affinity restricts the "
    "cores; thread pools have default sizes. Intervals are between runs. A cross is a number of "
    "cores on which another program ran than on one: compiled by XLA or not, or in microbatches.",
    paper="Minsky, Figure 2, a picture without numbers, for 1 to 20 cores: AlexNet, residual and "
    "VGG scale relatively well, autoenc and memnet do not.",
    analyse=_analyse,
)
