"""Table 2 of the Minsky paper: the sections of training over its mean wall time on the CPU."""

import numpy as np
import pandas as pd

from fathom.measure.report import published, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_SECTIONS = ["init", "setup", "run", "main", "wall"]  # the paper's


def section_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the paper's sections of training runs over the mean wall time on the CPU.

    ``init`` is construction and data loading, ``main`` everything except the start of the
    interpreter and of the framework, ``wall`` is measured from outside the process. All are means
    over equal runs.

    Args:
        runs: completed timings on all cores, from ``Folder.runs_frame``: those of the set
            ``repeats`` where a case has any, else the others. Workloads without one on the CPU are
            left out.

    Returns:
        our row and the paper's for each workload and device: ``workload``, ``device``; an unnamed
        column, ``measured`` or ``paper``; the sections; ``wall (s)`` and ``runs``, their number,
        ours.
    """
    training = runs[runs["mode"] == "train"]
    case = ["workload", "on"]
    repeated = training.purpose.map(lambda purposes: "repeats" in purposes)
    any_repeated = repeated.groupby([training[name] for name in case]).transform("any")
    training = training[repeated | ~any_repeated]
    seconds = training[case].assign(
        init=training.init_s + training.load_s,
        setup=training.setup_s,
        run=training.run_s,
        main=lambda times: times.init + times.setup + times.run + training.evaluate_s,
        wall=training.wall_s,
    )
    groups = seconds.groupby(case, sort=False)
    means = groups[_SECTIONS].mean().assign(runs=groups.size()).reset_index()
    on_cpu = means[means.on == "cpu"].set_index("workload").wall
    means = means[means.workload.isin(on_cpu.index)].sort_values("on", kind="stable")
    means = selection.in_order(means).rename(columns={"on": "device"})
    shares = means[_SECTIONS].div(means.workload.map(on_cpu), axis=0)
    ours = means[["workload", "device"]].assign(**{"": "measured"}).join(shares)
    ours["wall (s)"], ours["runs"] = means.wall, means.runs
    paper = published.sections().reset_index()
    theirs = ours[["workload", "device"]].merge(paper.assign(**{"": "paper"}))
    both = pd.concat([ours, theirs], ignore_index=True)
    return selection.in_order(both.sort_values("device", kind="stable")).reset_index(drop=True)


def summary(table: pd.DataFrame) -> str:
    """Summarizes the sections in a sentence."""
    ours = table[(table[""] == "measured") & (table.device == "cpu")].set_index("workload")
    starts = [f"{workload} {1 - share:.0%}" for workload, share in ours.main.items()]
    return (
        "Share of the wall time before and after main, mostly the start of Python and TensorFlow, "
        f"on the CPU: {', '.join(starts)}."
    )


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the sections of each run as stacked bars, the paper's below ours."""
    labels = [
        "the paper" if source == "paper" else f"{workload}, {device.upper()}"
        for workload, device, source in zip(table.workload, table.device, table[""], strict=True)
    ]
    parts = {
        "outside main": (table.wall - table.main, style.GREY),
        "init, with loading": (table.init, style.ORANGE),
        "setup": (table.setup, style.SKY),
        "run": (table.run, style.BLUE),
        "rest of main": (table.main - table.init - table.setup - table.run, style.GREEN),
    }
    with style.single(1.4 + 0.27 * len(table)) as (figure, axes):
        series = {name: (np.maximum(part, 0), color) for name, (part, color) in parts.items()}
        style.bars(axes, labels, series, stacked=True)
        axes.set_xlabel("time over the CPU's wall time")
        style.legend_above(figure, columns=3)
    return figure


def _analyse(folder: Folder) -> Findings:
    table = section_times(selection.processes(folder))
    wanted, other = selection.timing_runs(folder, "modes"), "no training on the CPU was timed"
    gaps = selection.gaps(wanted, table.workload.unique(), other)
    if table.empty:
        return Findings(gaps=gaps)
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="M-sections",
    order=51,
    title="Sections of a run",
    meaning="Times of training runs over the mean wall time on the CPU, means of the repeats (of "
    "the one run where there are none). init is construction and data loading; main is everything "
    "except the start of Python and TensorFlow; wall is measured from outside the process. The "
    "share of the steps depends on their number.",
    paper="Minsky, Table 2: under ours, from IBM POWER8 and P100 with TensorFlow 1.0; speech was "
    "not measured.",
    analyse=_analyse,
)
