"""Table 2 of the Minsky paper: the sections of a training run over its wall time on the CPU."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import published, selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import (
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    ORANGE,
    SKY,
    WIDTH,
    legend_above,
    new_figure,
    style,
)

if TYPE_CHECKING:
    import matplotlib.figure

_SECTIONS = ["init", "setup", "run", "main", "wall"]  # the paper's


def section_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the paper's sections of training runs over the wall time on the CPU.

    ``init`` is construction and data loading, ``main`` everything except the start of the
    interpreter and of the framework, ``wall`` is measured from outside the process.

    Args:
        runs: completed timings, from ``Folder.runs_frame``; of equal runs the first is used, and
            workloads without one on the CPU are left out.

    Returns:
        our row and the paper's for each workload and device: ``workload``, ``device``; an unnamed
        column, ``measured`` or ``paper``; the sections; ``wall (s)``, ours.
    """
    first = runs[runs["mode"] == "train"].drop_duplicates(["workload", "on"])
    on_cpu = first[first.on == "cpu"].set_index("workload").wall_s
    first = first[first.workload.isin(on_cpu.index)].sort_values("on", kind="stable")
    first = selection.in_order(first)
    init = first.init_s + first.load_s
    seconds = pd.DataFrame(
        {
            "workload": first.workload,
            "device": first.on,
            "": "measured",
            "init": init,
            "setup": first.setup_s,
            "run": first.run_s,
            "main": init + first.setup_s + first.run_s + first.evaluate_s,
            "wall": first.wall_s,
        }
    )
    shares = seconds[_SECTIONS].div(first.workload.map(on_cpu), axis=0)
    ours = seconds.assign(**shares, **{"wall (s)": first.wall_s})
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


def draw(table: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the sections of each run as stacked bars, the paper's below ours."""
    labels = [
        "the paper" if source == "paper" else f"{workload}, {device.upper()}"
        for workload, device, source in zip(table.workload, table.device, table[""], strict=True)
    ]
    parts = {
        "outside main": (table.wall - table.main, GREY),
        "init, with loading": (table.init, ORANGE),
        "setup": (table.setup, SKY),
        "run": (table.run, BLUE),
        "rest of main": (table.main - table.init - table.setup - table.run, GREEN),
    }
    with style():
        figure = new_figure(WIDTH, 1.4 + 0.27 * len(table))
        axes = figure.subplots()
        left = np.zeros(len(table))
        for hatch, (name, (part, color)) in zip(HATCHES, parts.items(), strict=False):
            width = np.maximum(part, 0)
            axes.barh(
                range(len(table)),
                width,
                left=left,
                color=color,
                hatch=hatch,
                edgecolor="white",
                linewidth=0,
                label=name,
            )
            left += width
        axes.set_yticks(range(len(table)), labels)
        axes.invert_yaxis()
        axes.set_xlabel("time over the CPU's wall time")
        legend_above(figure, columns=3)
    return figure


def _analyse(folder: Folder) -> Findings:
    table = section_times(selection.timings(folder, "modes"))
    runs = folder.runs_frame()
    gaps = selection.gaps(runs[selection.is_timing(runs, "modes")], table.workload.unique())
    if table.empty:
        return Findings(gaps=gaps)
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="M-sections",
    order=8,
    title="Sections of a run",
    meaning="Times of a training run over its wall time on the CPU. init is construction and "
    "data loading; main is everything except the start of Python and TensorFlow; wall is measured "
    "from outside the process. The share of the steps depends on their number.",
    paper="Minsky, Table 2: under ours, from IBM POWER8 and P100 with TensorFlow 1.0; speech was "
    "not measured.",
    analyse=_analyse,
)
