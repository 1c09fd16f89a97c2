"""Where in the model the time goes, and the share of the machine's speed that it reaches."""

from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.report.analyses.cost import Utilization
from fathom.characterize.report.analyses.model import Layers
from fathom.characterize.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    ORANGE,
    SKY,
    legend_above,
    new_figure,
    panels,
    shortened,
    style,
)
from fathom.results.profile import PHASES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 9  # layers a workload; the others are one bar


def layers(result: Layers) -> "Figure":
    """Draws the time of each workload's heaviest layers, stacked by phase."""
    names = [each.workload for each in result.workloads]
    with style():
        figure, axes = panels(names, columns=2, width=4.6, height=2.7)
        for each, panel in zip(result.workloads, axes, strict=True):
            labels = [shortened(name or "without name", 24) for name in each.layers[:_SHOWN]]
            milliseconds = 1e3 * each.seconds[:_SHOWN]
            if len(each.layers) > _SHOWN:
                labels.append(f"{len(each.layers) - _SHOWN} others")
                others = 1e3 * each.seconds[_SHOWN:].sum(axis=0)
                milliseconds = np.vstack([milliseconds, others])
            left = np.zeros(len(labels))
            for j, (phase, color) in enumerate(
                zip(PHASES, (BLUE, ORANGE, GREEN, GREY), strict=True)
            ):
                panel.barh(
                    range(len(labels)),
                    milliseconds[:, j],
                    left=left,
                    color=color,
                    hatch=HATCHES[j],
                    edgecolor="white",
                    linewidth=0,
                    label=phase,
                )
                left += milliseconds[:, j]
            panel.set_yticks(range(len(labels)), labels, fontsize=8)
            panel.invert_yaxis()
            panel.set_xlim(0, 1.05 * left.max())
            panel.grid(axis="x")
        figure.supxlabel("time a step (ms)", fontsize=9)
        legend_above(figure, columns=len(PHASES))
    return figure


def efforts(result: Utilization) -> "Figure":
    """Draws achieved FLOP/s over those of a large matrix product, training and inference."""
    workloads = list(dict.fromkeys(work.workload for work in result.works))
    with style():
        figure = new_figure(6.5, 1.3 + 0.4 * len(workloads))
        axes = figure.subplots()
        axes.axvline(1, color=GREY, linewidth=0.8, linestyle="--")
        for j, (mode, color) in enumerate((("train", BLUE), ("infer", SKY))):
            works = [work for work in result.works if work.mode == mode and "cpu" in work.device]
            works = [work for work in works if not np.isnan(work.efficiency)]
            bars = axes.barh(
                [workloads.index(work.workload) + 0.4 * j - 0.2 for work in works],
                [work.efficiency for work in works],
                height=0.38,
                color=color,
                hatch=HATCHES[j],
                edgecolor="white",
                label="training" if mode == "train" else "inference",
            )
            axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
        axes.set_yticks(range(len(workloads)), workloads)
        axes.set_ylim(len(workloads) - 0.5, -0.5)
        axes.set_xlim(0, max(1.15, 1.1 * axes.get_xlim()[1]))
        axes.set_xlabel("achieved FLOP/s over those of a large matrix product")
        legend_above(figure, columns=2)
    return figure
