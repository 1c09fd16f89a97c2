"""Figure 3 of the Fathom paper: the share of time by op type."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fathom.characterize.report import published
from fathom.characterize.report.analyses.op_types import Breakdown
from fathom.characterize.report.figures.style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FULL = 60  # percent at which the colour is darkest
_LIGHT_TEXT = 40  # percent from which the number in a cell is white


def breakdown(result: Breakdown) -> "Figure":
    """Draws the heat map of our shares above the paper's, in the same columns."""
    paper_table = published.breakdown()
    missing = len(result.op_types) - len(paper_table.op_types)  # ours come after the paper's
    theirs = np.pad(paper_table.percent, ((0, 0), (0, missing)))
    rows = len(result.workloads), len(paper_table.workloads)
    with style():
        figure = new_figure(3 + 0.34 * len(result.op_types), 3.2 + 0.32 * sum(rows))
        measured, paper = figure.subplots(2, 1, sharex=True, height_ratios=rows)
        labels = [
            name if np.isnan(distance) else f"{name}   {distance:.3f}"
            for name, distance in zip(result.workloads, result.distances, strict=True)
        ]
        _heat_map(measured, result.percent, labels)
        measured.set_title(
            "measured, with the cosine distance to the paper's row", loc="left", pad=18
        )
        _heat_map(paper, theirs, paper_table.workloads)
        paper.set_title("the Fathom paper, Figure 3", loc="left")
        paper.set_xticks(range(len(result.op_types)), result.op_types, rotation=90)
        _mark_classes(measured, result.classes)
    return figure


def _heat_map(axes: "Axes", percent: np.ndarray, labels: Sequence[str]) -> None:
    shown = np.ma.masked_less(percent, 0.5)  # rounds to 0
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=_FULL, aspect="auto")
    for row, column in np.argwhere(~np.ma.getmaskarray(shown)):
        value = percent[row, column]
        color = "white" if value >= _LIGHT_TEXT else "black"
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8, color=color)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(percent.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.grid(which="minor", linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _mark_classes(axes: "Axes", classes: tuple[str, ...]) -> None:
    """Writes the class over each group of columns, and a line between groups in both heat maps."""
    starts = [i for i in range(len(classes)) if i == 0 or classes[i] != classes[i - 1]]
    for start, end in zip(starts, [*starts[1:], len(classes)], strict=True):
        axes.annotate(
            classes[start] or "none",
            ((start + end - 1) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
        )
        for each in axes.figure.axes:
            each.axvline(start - 0.5, color="black", linewidth=1)
