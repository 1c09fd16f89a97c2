"""Figures 1 and 2 and section V.A of the Fathom paper."""

from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.report.analyses.operations import (
    Dominance,
    FrameworkOverhead,
    Stationarity,
)
from fathom.characterize.report.figures.style import (
    BLUE,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    look_of,
    new_figure,
    panels,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def stationarity(result: Stationarity) -> "Figure":
    """Draws the time of each heavy op type over the profiled steps, as multiples of its mean."""
    workloads = list(dict.fromkeys(series.workload for series in result.series))
    with style():
        figure, axes = panels(workloads, columns=2, width=4.6, height=2.3)
        for workload, panel in zip(workloads, axes, strict=True):
            mine = [series for series in result.series if series.workload == workload]
            for i, series in enumerate(mine):
                panel.plot(
                    series.seconds / series.mean,
                    color=PALETTE[i % len(PALETTE)],
                    marker=MARKERS[i % len(MARKERS)],
                    markersize=3,
                    linewidth=0.8,
                    label=f"{series.op_type} ({series.variation:.1%})",
                )
            panel.set_ylim(0, max(2.0, panel.get_ylim()[1]))
            panel.grid(axis="y")
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.legend(
                loc="center left",
                bbox_to_anchor=(1, 0.5),
                title="op type (variation)",
                title_fontsize=8,
                handlelength=1.5,
            )
        figure.supxlabel("step", fontsize=9)
        figure.supylabel("time over its mean", fontsize=9)
    return figure


def dominance(result: Dominance, ranks: int = 25) -> "Figure":
    """Draws the cumulative share of the op types, the heaviest first, one curve a workload."""
    with style():
        figure = new_figure(6.5, 4)
        axes = figure.subplots()
        axes.axvspan(5, 15, color="#EEEEEE", label="5 to 15 types (the paper)")
        axes.axhline(90, color=GREY, linewidth=0.8, linestyle="--")
        for curve in result.curves:
            percent = 100 * curve.cumulative[:ranks]
            axes.plot(
                np.arange(1, len(percent) + 1),
                percent,
                **look_of(curve.workload),
                markersize=4,
                linewidth=1,
                label=f"{curve.workload} ({curve.types_to(0.9)} to 90 %)",
            )
        axes.set(
            xlabel="op types, the heaviest first",
            ylabel="cumulative share of time in ops (%)",
            ylim=(0, 102),
            xlim=(0.5, ranks + 0.5),
        )
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure


def outside(result: FrameworkOverhead) -> "Figure":
    """Draws the share of each workload's step in which no op runs."""
    with style():
        figure = new_figure(6.5, 0.9 + 0.3 * len(result.workloads))
        axes = figure.subplots()
        rows = np.arange(len(result.workloads))
        bars = axes.barh(rows, 100 * result.share, color=BLUE, height=0.6)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.axvspan(1, 2, color=ORANGE, alpha=0.4, zorder=0, label="1-2 % (the paper)")
        axes.set_yticks(rows, result.workloads)
        axes.invert_yaxis()
        axes.set_xlim(0, max(3.0, 115 * result.share.max()))
        axes.set_xlabel("share of a step outside ops (%)")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure
