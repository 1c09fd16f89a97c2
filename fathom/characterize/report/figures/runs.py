"""Figure 5 of the Fathom paper; Table 2, Figure 4 and Table 1 of the Minsky paper."""

from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.report import published
from fathom.characterize.report.analyses.gpu import GpuUse
from fathom.characterize.report.analyses.runs import CASES, Modes, SectionTimes, Spread
from fathom.characterize.report.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    MARKERS,
    ORANGE,
    RED,
    SKY,
    legend_above,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def modes(result: Modes) -> "Figure":
    """Draws the four cases of each workload as points, normalised to training on the CPU."""
    from matplotlib.ticker import LogLocator, NullLocator

    rows = np.arange(len(result.workloads))
    with style():
        figure = new_figure(6.5, 1.4 + 0.3 * len(rows))
        axes = figure.subplots()
        for j, (mode, device) in enumerate(CASES):
            if np.isnan(result.seconds[:, j]).all():
                continue
            axes.plot(
                result.normalised[:, j],
                rows,
                linestyle="none",
                marker=MARKERS[j],
                markersize=7,
                color=(BLUE, ORANGE)[mode == "infer"],
                markerfacecolor="white" if device == "gpu" else None,
                label=f"{'training' if mode == 'train' else 'inference'}, {device.upper()}",
            )
        axes.set_xscale("log")
        drawn = result.normalised[np.isfinite(result.normalised)]
        axes.set_xlim(0.8 * min([0.125, *drawn]), 1.2 * max([1.25, *drawn]))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(rows, result.workloads)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("step time over that of training on the CPU")
        axes.grid(axis="both")
        legend_above(figure, columns=4)
    return figure


def sections(result: SectionTimes) -> "Figure":
    """Draws the sections of each run as stacked bars, the paper's under ours."""
    bars = []  # (label, shares)
    for (workload, device), ours, paper in zip(
        result.rows, result.shares, result.paper, strict=True
    ):
        bars.append((f"{workload}, {device.upper()}", ours))
        if not np.isnan(paper).any():
            bars.append(("the paper", paper))
    with style():
        figure = new_figure(7, 1.4 + 0.27 * len(bars))
        axes = figure.subplots()
        shares = np.array([each for _, each in bars])
        init, setup, run, main, wall = shares.T
        left = np.zeros(len(bars))
        parts = {
            "outside main": (wall - main, GREY),
            "init, with loading": (init, ORANGE),
            "setup": (setup, SKY),
            "run": (run, BLUE),
            "rest of main": (main - init - setup - run, GREEN),
        }
        for hatch, (name, (part, color)) in zip(HATCHES, parts.items(), strict=False):
            part = np.maximum(part, 0)
            axes.barh(
                range(len(bars)),
                part,
                left=left,
                color=color,
                hatch=hatch,
                edgecolor="white",
                linewidth=0,
                label=name,
            )
            left += part
        axes.set_yticks(range(len(bars)), [label for label, _ in bars])
        axes.invert_yaxis()
        axes.set_xlabel("time over the CPU's wall time")
        legend_above(figure, columns=5)
    return figure


def spread(result: Spread) -> "Figure":
    """Draws each whole run as a point over the mean on the CPU, and the quartiles as a box."""
    rows = np.arange(len(result.repeats))
    with style():
        figure = new_figure(6.5, 1 + 0.35 * len(rows))
        axes = figure.subplots()
        axes.axvline(1, color=GREY, linewidth=0.8, linestyle="--")
        for row, each in zip(rows, result.repeats, strict=True):
            times = each.normalised
            if np.isnan(times).any():  # nothing ran on the CPU
                times = each.wall_seconds / each.wall_seconds.mean()
            axes.boxplot(
                times,
                positions=[row],
                orientation="horizontal",
                widths=0.6,
                showfliers=False,
                medianprops={"color": RED},
                manage_ticks=False,
            )
            offsets = np.linspace(-0.2, 0.2, len(times)) if len(times) > 1 else [0]
            axes.plot(times, row + offsets, ".", color=BLUE, markersize=4)
        axes.set_yticks(
            rows, [f"{e.workload}, {e.mode}, {e.device.upper()}" for e in result.repeats]
        )
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("wall time of a run over the mean on the CPU")
        axes.grid(axis="x")
    return figure


def gpu_use(result: GpuUse) -> "Figure":
    """Draws the two efficiencies of each workload beside the paper's, or the paper's alone."""
    paper_table = published.gpu_efficiency()
    theirs = [paper_table.get(workload) for workload in result.workloads]
    columns = (
        ("kernel time over API call time", result.kernels_over_api, "kernels_over_api"),
        ("copy time over kernel time", result.memcpy_share, "memcpy_share"),
    )
    rows = np.arange(len(result.workloads))
    with style():
        figure = new_figure(8, 1.4 + 0.3 * len(rows))
        both = figure.subplots(1, 2, sharey=True)
        for axes, (title, ours, attribute) in zip(both, columns, strict=True):
            paper = [getattr(row, attribute) if row else np.nan for row in theirs]
            if result.measured:
                axes.plot(ours, rows, "o", color=BLUE, label="measured")
            axes.plot(
                paper, rows, "D", color=BLACK, markerfacecolor="white", label="Minsky, Table 1"
            )
            axes.set_xlabel(title)
            axes.set_xscale("log")
            axes.grid()
        both[0].set_yticks(rows, result.workloads)
        both[0].set_ylim(len(rows) - 0.5, -0.5)
        legend_above(figure, columns=2)
    return figure
