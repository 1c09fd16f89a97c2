"""How every figure looks: colours for the colour-blind, shapes beside colours, sizes for print."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fathom.characterize.report import selection

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

# Okabe and Ito's palette; its yellow, too light for a line on white, gave way to a grey.
BLACK, ORANGE, SKY, GREEN, GREY, BLUE, RED, PURPLE = PALETTE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73", "#888888", "#0072B2", "#D55E00", "#CC79A7"),
)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "p", "h", "d", "8", "H", "+")
_MORE_COLOURS = ("#882255", "#999933", "#332288", "#117733", "#AA4499", "#661100", "#44AA99")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "fathom",  # the same figure gives the same file
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Makes figures that are drawn inside the block look alike."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Returns an empty figure of this size in inches; it belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def panels(names: Sequence[str], columns: int, width: float, height: float) -> tuple[Any, list]:
    """Returns a figure and one titled panel a name, ``columns`` in a row, sizes in inches each."""
    columns = min(columns, len(names))
    rows = math.ceil(len(names) / columns)
    figure = new_figure(columns * width, rows * height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, name in zip(axes, names, strict=False):
        panel.set_title(name)
    for unused in axes[len(names) :]:
        unused.set_visible(False)
    return figure, list(axes[: len(names)])


def look_of(workload: str) -> dict[str, Any]:
    """Returns colour and marker of a workload's curve, the same in every figure.

    The papers' eight have their own, and so have the next workloads of ``fathom.workloads``; one
    that it does not know looks like the one after them.
    """
    known, colours = selection.order(), (*PALETTE, *_MORE_COLOURS)
    i = known.index(workload) if workload in known else len(known)
    return {"color": colours[i % len(colours)], "marker": MARKERS[i % len(MARKERS)]}


def legend_above(figure: "Figure", columns: int) -> None:
    """Puts one legend over the whole figure, of what its axes label, each label once."""
    labelled: dict[str, Artist] = {}
    for each in figure.axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    figure.legend(
        list(labelled.values()), list(labelled), loc="outside upper center", ncols=columns
    )


def shortened(text: str, length: int) -> str:
    """Returns a text cut to a length, with an ellipsis where something is missing."""
    return text if len(text) <= length else text[: length - 1] + "…"
