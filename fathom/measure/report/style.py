"""The style of all figures: colour-blind safe colours, distinct markers, sizes for print."""

import contextlib
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from fathom.hardware.description.ops import CLASSES
from fathom.measure.report import selection

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Plot: TypeAlias = "Figure"  # matplotlib's, which is imported when something is drawn
Panel: TypeAlias = "Axes"

# The Okabe-Ito palette, with grey instead of yellow, which is too light on white.
BLACK, ORANGE, SKY, GREEN, GREY, BLUE, RED, PURPLE = PALETTE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73", "#888888", "#0072B2", "#D55E00", "#CC79A7"),
)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "p", "h", "d", "8", "H", "+")
_MORE_COLOURS = ("#882255", "#999933", "#332288", "#117733", "#AA4499", "#661100", "#44AA99")
WIDTH = 9.2  # inches of a figure without panels: as wide as the page, with texts of its size
PANELS = "panels"  # label of a figure of one titled panel per name
ALWAYS_WHITE = "#FEFEFE"  # white that the report's page leaves white in dark mode
ALWAYS_BLACK = "#010101"  # and black that it leaves black
_TITLE = 12  # letters of a panel's title per inch of its width
_LETTER = 0.0085  # of the width of a slice's row
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||", "++++", "//")
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
    "svg.fonttype": "none",  # texts remain texts
}


@contextlib.contextmanager
def applied() -> Iterator[None]:
    """Applies the common style to figures drawn in the block, whatever matplotlib's own is."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def new_figure(width: float, height: float) -> Plot:
    """Returns an empty figure of this size in inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


@contextlib.contextmanager
def single(height: float) -> Iterator[tuple[Plot, Panel]]:
    """Gives a figure of common width and style, and its only panel; its height is in inches."""
    with applied():
        figure = new_figure(WIDTH, height)
        yield figure, figure.subplots()


@contextlib.contextmanager
def panels(
    names: Sequence[str], columns: int, width: float, height: float
) -> Iterator[tuple[Plot, list[Panel]]]:
    """Gives a figure of the common style and one titled panel per name, to be drawn in the block.

    A row has ``columns`` of them; width and height are those of a panel, in inches.
    """
    columns = min(columns, len(names))
    rows = math.ceil(len(names) / columns)
    with applied():
        figure = new_figure(columns * width, rows * height)
        figure.set_label(PANELS)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, name in zip(axes, names, strict=False):
            panel.set_title(textwrap.fill(name, round(_TITLE * width)))
        for unused in axes[len(names) :]:
            unused.set_visible(False)
        yield figure, list(axes[: len(names)])


def name_rows(panel: Panel, names: Sequence[str]) -> None:
    """Writes names beside the rows 0, 1, ..., the first at the top."""
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)


def scale_by_logarithm(panel: Panel, axis: str, base: int = 10) -> None:
    """Makes an axis, ``x`` or ``y``, logarithmic, with plain numbers at a few places.

    With base 10 these are 1, 2 and 5 times its powers.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    getattr(panel, f"set_{axis}scale")("log", base=base)
    scaled = getattr(panel, f"{axis}axis")
    subs = (1, 2, 5) if base == 10 else (1,)
    scaled.set_major_locator(LogLocator(base=base, subs=subs, numticks=6))
    scaled.set_major_formatter("{x:g}")
    scaled.set_minor_formatter(NullFormatter())


def look_of(workload: str) -> dict[str, Any]:
    """Returns the colour and marker of a workload, the same in every figure.

    The papers' eight and further workloads of ``fathom.workloads`` have their own; an unknown one
    gets the next style after these.
    """
    known, colours = selection.order(), (*PALETTE, *_MORE_COLOURS)
    i = known.index(workload) if workload in known else len(known)
    return {"color": colours[i % len(colours)], "marker": MARKERS[i % len(MARKERS)]}


def class_colour(letter: str) -> str:
    """Returns the colour of a class of op types, ``A`` to ``G``, or of none."""
    colours = dict(zip("ABCDEFG", (ORANGE, BLUE, SKY, GREEN, PURPLE, RED, GREY), strict=True))
    return colours.get(letter, "#BBBBBB")


def bars(
    panel: Panel,
    names: Sequence[str],
    series: Mapping[str, tuple[np.ndarray, str]],
    stacked: bool = False,
) -> None:
    """Draws horizontal bars: a row for each name from the top, a bar for each series in it.

    Args:
        panel: empty.
        names: of the rows.
        series: by label, the lengths [names] and the colour.
        stacked: the bars of a row follow each other, otherwise they are below each other.
    """
    rows, left = np.arange(len(names)), np.zeros(len(names))
    height = 0.8 if stacked else 0.8 / len(series)
    for j, (label, (lengths, colour)) in enumerate(series.items()):
        panel.barh(
            rows if stacked else rows + (j - (len(series) - 1) / 2) * height,
            lengths,
            height,
            left if stacked else 0,
            color=colour,
            hatch=HATCHES[j % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            label=label,
        )
        left = left + lengths
    panel.set_yticks(rows, names, fontsize=8)
    panel.invert_yaxis()
    panel.grid(axis="x")


def slices(panel: Panel, row: int, parts: pd.DataFrame, whole: float) -> None:
    """Draws the slices of a row, with their names in them where there is space.

    Args:
        panel: whose horizontal axis ends at ``whole``.
        row: from the top.
        parts: ``start``, ``length``, ``name``, ``letter``, the class of its op type, and ``label``,
            the text of its tooltip.
        whole: in the unit of start and length.
    """
    panel.barh(
        [row] * len(parts),
        parts.length,
        0.9,
        parts.start,
        color=parts.letter.map(class_colour),
        label=list(parts.label),
        edgecolor="white",
        linewidth=0.3,
    )
    wide = parts[parts.name.str.len() * _LETTER * whole < parts.length]
    for x, name in zip(wide.start + wide.length / 2, wide.name, strict=True):
        panel.text(x, row, name, ha="center", va="center", fontsize=7, color=ALWAYS_BLACK)


def legend_of_classes(figure: Plot, letters: Iterable[str]) -> None:
    """Adds a legend of the classes of op types above the whole figure."""
    known = sorted({*letters} & {*CLASSES})
    legend_of_colours(figure, {CLASSES[letter]: class_colour(letter) for letter in known})


def legend_of_colours(figure: Plot, colours: Mapping[str, str]) -> None:
    """Adds a legend of colours by their label above the whole figure."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=label) for label, colour in colours.items()]
    figure.legend(handles=patches, loc="outside upper center", ncols=4)


def legend_above(figure: Plot, columns: int) -> None:
    """Adds one legend above the whole figure, with each label of its axes once."""
    labelled: dict[str, Artist] = {}
    for each in figure.axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    figure.legend(
        list(labelled.values()), list(labelled), loc="outside upper center", ncols=columns
    )


def shortened(text: str, length: int) -> str:
    """Returns a text truncated to a length, with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
