"""Figure 5 of the Fathom paper: training and inference, on the CPU and on the GPU."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import (
    BLUE,
    MARKERS,
    ORANGE,
    WIDTH,
    legend_above,
    new_figure,
    style,
)

if TYPE_CHECKING:
    import matplotlib.figure

_CASES = (("train", "cpu"), ("infer", "cpu"), ("train", "gpu"), ("infer", "gpu"))


def step_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Groups the step times of timing runs into the four cases; of equal runs the first is used.

    Args:
        runs: completed timings, from ``Folder.runs_frame``.

    Returns:
        four rows per workload: ``workload``, ``mode``, ``device`` (``cpu`` or ``gpu``), ``batch
        size``; ``median step (s)``, of a batch of the stated cost if batches vary in length; ``over
        CPU training``, relative to training on the CPU. Missing if not measured.
    """
    keys = ["workload", "mode", "on"]
    first = runs.dropna(subset="median_s").drop_duplicates(keys)
    cases = [(name, *case) for name in first.workload.unique() for case in _CASES]
    table = pd.DataFrame(cases, columns=keys).merge(first, "left", keys)
    seconds = 1 / table.work_per_second
    on_cpu = seconds[(table["mode"] == "train") & (table.on == "cpu")]
    return pd.DataFrame(
        {
            "workload": table.workload,
            "mode": table["mode"],
            "device": table.on,
            "batch size": table.batch_size,
            "median step (s)": seconds,
            "over CPU training": seconds / on_cpu.repeat(len(_CASES)).to_numpy(),
        }
    )


def summary(times: pd.DataFrame) -> str:
    """Summarizes the step times in a sentence."""
    inference = times[(times["mode"] == "infer") & (times.device == "cpu")]
    ratios = 1 / inference.set_index("workload")["over CPU training"].dropna()
    known = ", ".join(f"{workload} {ratio:.1f}" for workload, ratio in ratios.items())
    return (
        "On the CPU a training step takes this many times an inference step: "
        f"{known or 'not measured'}."
    )


def draw(times: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the four cases of each workload as points, normalised to training on the CPU."""
    from matplotlib.ticker import LogLocator, NullLocator

    names = _with_batch_sizes(times)
    rows = np.arange(len(names))
    with style():
        figure = new_figure(WIDTH, 1.4 + 0.3 * len(rows))
        axes = figure.subplots()
        for j, (mode, device) in enumerate(_CASES):
            case = times[(times["mode"] == mode) & (times.device == device)]
            if case["median step (s)"].isna().all():
                continue
            axes.plot(
                case["over CPU training"],
                rows,
                linestyle="none",
                marker=MARKERS[j],
                markersize=7,
                color=(BLUE, ORANGE)[mode == "infer"],
                markerfacecolor="white" if device == "gpu" else None,
                label=f"{'training' if mode == 'train' else 'inference'}, {device.upper()}",
            )
        axes.set_xscale("log")
        drawn = times["over CPU training"].dropna()
        axes.set_xlim(0.8 * min([0.125, *drawn]), 1.2 * max([1.25, *drawn]))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(rows, names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("step time over that of training on the CPU")
        axes.grid(axis="both")
        legend_above(figure, columns=2)
    return figure


def _with_batch_sizes(times: pd.DataFrame) -> list[str]:
    """Returns each workload's name with the batch size of training / inference if they differ."""
    sizes = times.dropna(subset="batch size").groupby("workload", sort=False)["batch size"]
    return [f"{name} ({' / '.join(map(str, each.unique()))})" for name, each in sizes]


def _analyse(folder: Folder) -> Findings:
    runs = folder.runs_frame()
    times = step_times(selection.timings(folder, "modes"))
    gaps = selection.gaps(runs[selection.is_timing(runs, "modes")], times.workload.unique())
    failed = set(runs[runs.status == "failed"].groupby(["workload", "mode"]).groups)
    unmeasured = times[times["median step (s)"].isna()]
    gaps += [
        f"{row.workload} {row.mode} on the CPU: not measured"
        for row in unmeasured.itertuples()
        if row.device == "cpu" and (row.workload, row.mode) not in failed
    ]
    if times["median step (s)"][times.device == "gpu"].isna().all():
        gaps.append("GPU: no runs on one in this folder")
    if times.empty:
        return Findings(gaps=gaps)
    return Findings(summary(times), draw(times), times, gaps=gaps)


FIGURE = Figure(
    id="F5",
    order=5,
    title="Training and inference, CPU and GPU",
    meaning="Median step time, excluding input, relative to training on the CPU; default thread "
    "pools. A step is one batch; its size is in brackets, of training / inference if they differ.",
    paper="Fathom, Figure 5, a picture without numbers: inference is variably faster than "
    "training; convolutional networks pay a slightly higher cost for training.",
    analyse=_analyse,
)
