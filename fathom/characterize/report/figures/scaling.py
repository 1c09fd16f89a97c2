"""Figure 6 of the Fathom paper and Figure 2 of the Minsky paper: more threads, more cores."""

from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.report.analyses.scaling import Efficiency, Parallelism
from fathom.characterize.report.figures.style import (
    GREY,
    HATCHES,
    legend_above,
    look_of,
    new_figure,
    panels,
    shortened,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def parallelism(result: Parallelism) -> "Figure":
    """Draws the absolute time of each op type by threads, with the layers that it serves."""
    import matplotlib

    numbers = sorted({threads for each in result.workloads for threads in each.threads})
    colours = matplotlib.colormaps["cividis"](np.linspace(0.1, 0.9, len(numbers)))
    names = [each.workload for each in result.workloads]
    with style():
        figure, axes = panels(names, columns=2, width=4.8, height=3)
        for each, panel in zip(result.workloads, axes, strict=True):
            height = 0.8 / len(each.threads)
            rows = np.arange(len(each.op_types))
            for j, threads in enumerate(each.threads):
                look = numbers.index(threads)
                panel.barh(
                    rows + (j - (len(each.threads) - 1) / 2) * height,
                    1e3 * each.seconds[:, j],
                    height=height,
                    color=colours[look],
                    edgecolor="white",
                    hatch=HATCHES[look % len(HATCHES)],
                    label=f"{threads} thread{'s' if threads > 1 else ''}",
                )
            labels = [
                f"{op_type}\n{shortened(role, 28)}"
                for op_type, role in zip(each.op_types, each.roles, strict=True)
            ]
            panel.set_yticks(rows, labels, fontsize=7.5)
            panel.invert_yaxis()
            panel.grid(axis="x")
        figure.supxlabel("time a step (ms)", fontsize=9)
        legend_above(figure, columns=8)
    return figure


def efficiency(result: Efficiency) -> "Figure":
    """Draws the speed-up over the cores used, against the cores."""
    with style():
        figure = new_figure(6.5, 3.6)
        axes = figure.subplots()
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
        for each in result.workloads:
            axes.plot(
                each.cores,
                each.efficiency,
                **look_of(each.workload),
                linewidth=1,
                label=each.workload,
            )
        axes.set_xticks(sorted({int(n) for each in result.workloads for n in each.cores}))
        axes.set(xlabel="cores", ylabel="speed-up over cores")
        axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure
