"""Figures as SVG elements of a page: in its colours, with a tooltip on each mark.

A figure of ``style.panels`` becomes one picture per panel, which a narrow screen stacks.
"""

import io
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias
from xml.etree import ElementTree

import numpy as np

from fathom.measure.report.page import shown
from fathom.measure.report.style import PANELS, applied

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import QuadMesh
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import BboxBase

_Part: TypeAlias = tuple[str, "BboxBase", str]  # id in the SVG, box in pixels, description
_COLOURS = {  # which the page's style sheet gives another value in dark mode
    "#000000": "currentColor",
    "#ffffff": "var(--page)",
    "#dddddd": "var(--grid)",
    "#eeeeee": "var(--band)",
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_SERIES = 8  # of a panel that its description names
_MARGIN = 4.0  # pixels around a panel: browsers draw texts a little wider or narrower


def rendered(figure: "Figure", form: str) -> bytes:
    """Returns a figure as the contents of a file, ``svg`` or ``png``."""
    content = io.BytesIO()
    metadata = _NO_METADATA if form == "svg" else {}
    with applied():
        figure.savefig(content, format=form, metadata=metadata, dpi=200)
    return content.getvalue()


def drawn(figure: "Figure", name: str, description: str) -> tuple[bytes, str]:
    """Returns a figure as the contents of an SVG file, and as HTML.

    Its name is unique on the page; its description is for those who cannot see it.
    """
    tooltips = list(_tooltips(figure))
    for number, (artist, _) in enumerate(tooltips):
        artist.set_gid(f"mark{number}")
    for number, artist in enumerate((*figure.legends, *figure.axes)):
        artist.set_gid(f"part{number}")
    svg = rendered(figure, "svg")
    drawing = _parsed(svg.decode())
    groups = {element.get("id", ""): element for element in drawing.iter("g")}
    for artist, texts in tooltips:
        if artist.get_gid() in groups:  # it is visible
            _add_tooltips(groups[str(artist.get_gid())], texts)
    rows = [
        [_picture(groups[part], box, figure, text) for part, box, text in row]
        for row in _rows(figure, description)
    ]
    rows[-1][0][:0] = [each for each in drawing if each.tag == "defs"]  # for all of them
    html = ["".join(ElementTree.tostring(each, "unicode") for each in row) for row in rows]
    divisions = "".join(f'<div class="figure">{each}</div>' for each in html)
    return svg, _with_unique_ids(divisions, name)


def _parsed(svg: str) -> ElementTree.Element:
    """Returns matplotlib's SVG without namespaces and fonts and with the page's colours."""
    svg = re.sub(r'<!DOCTYPE[^>]*>| xmlns(:\w+)?="[^"]*"|xlink:|font-family: [^;"]*;? ?', "", svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    drawing = ElementTree.fromstring(svg.partition("?>")[2])
    drawing.remove(drawing[0])  # a style sheet, which would apply to the whole page
    return drawing


def _with_unique_ids(html: str, name: str) -> str:
    used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', html))
    html = re.sub(r' id="([\w.-]+)"', lambda match: match[0] if match[1] in used else "", html)
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", html)


def _tooltips(figure: "Figure") -> Iterator[tuple["Artist", list[str]]]:
    """Yields bars, lines and heat maps with the text for each of their marks."""
    from matplotlib.collections import QuadMesh
    from matplotlib.container import BarContainer, ErrorbarContainer

    for axes in filter(lambda each: each.get_visible(), figure.axes):
        labels = {}
        for group in axes.containers:
            if isinstance(group, BarContainer):
                yield from ((bar, [_of_bar(axes, group, bar)]) for bar in group)
            elif isinstance(group, ErrorbarContainer):
                labels[group[0]] = group.get_label()
        for line in axes.lines:
            yield line, _of_line(axes, line, labels.get(line, line.get_label()))
        for mesh in axes.collections:
            if isinstance(mesh, QuadMesh):
                yield mesh, _of_cells(axes, mesh)


def _of_bar(axes: "Axes", bars: "BarContainer", bar: "Rectangle") -> str:
    label = bars.get_label() if str(bar.get_label()).startswith("_") else bar.get_label()
    if bars.orientation == "horizontal":
        return _text(axes, label, bar.get_width(), bar.get_y() + bar.get_height() / 2)
    return _text(axes, label, bar.get_x() + bar.get_width() / 2, bar.get_height())


def _of_line(axes: "Axes", line: "Line2D", label: object) -> list[str]:
    """Returns a text for each point, or one for a line without markers."""
    if line.get_marker() in ("None", ""):
        return [] if str(label).startswith("_") else [str(label)]
    points = np.asarray(line.get_xydata(), float)
    return [_text(axes, label, *each) for each in points[np.isfinite(points).all(axis=1)]]


def _of_cells(axes: "Axes", mesh: "QuadMesh") -> list[str]:
    values: np.ndarray = np.ma.getdata(np.ma.asarray(mesh.get_array()))
    return [
        f"{_text(axes, '', x, y)}\n{shown(float(values[y, x]))}"
        for y, x in np.ndindex(values.shape)
    ]


def _text(axes: "Axes", label: object, x: float, y: float) -> str:
    """Returns the text for a mark: its series, then its category or value on each axis."""
    series = "" if str(label).startswith("_") else str(label)
    return "\n".join(filter(None, [series, _place(axes.yaxis, y), _place(axes.xaxis, x)]))


def _place(axis: "Axis", value: float) -> str:
    """Returns the nearest tick's label on an axis of names, or the value with the axis' label."""
    from matplotlib.ticker import FuncFormatter

    names = axis.get_major_formatter()
    if isinstance(names, FuncFormatter):  # by ``set_ticks`` with labels
        ticks = np.asarray(axis.get_majorticklocs())
        nearest = int(np.abs(ticks - value).argmin())
        return re.sub(r"\s+", " ", names(ticks[nearest], nearest))
    return f"{axis.get_label().get_text()}: {shown(float(value))}"


def _add_tooltips(group: ElementTree.Element, texts: Sequence[str]) -> None:
    """Adds a text to each mark of a series, or to all of it if there is a single text."""
    marks = [group]
    if len(texts) > 1:
        marks = list(group.iter("use")) or group.findall("path")
    if len(marks) == len(texts):
        for mark, text in zip(marks, texts, strict=True):
            title = ElementTree.Element("title")
            title.text = text
            mark.insert(0, title)


def _rows(figure: "Figure", description: str) -> Iterator[list[_Part]]:
    """Yields the whole figure, or its legend and then its panels."""
    if figure.get_label() != PANELS:
        yield [("figure_1", figure.bbox, description)]
        return
    for legend in figure.legends:
        yield [(str(legend.get_gid()), legend.get_window_extent(), f"{description}: legend")]
    yield list(_panels(figure, description))


def _panels(figure: "Figure", description: str) -> Iterator[_Part]:
    """Yields panels as wide as their column and as high as their row, which aligns their axes."""
    from matplotlib.transforms import Bbox

    axes = [each for each in figure.axes if each.get_visible()]
    tight = [each.get_tightbbox() for each in axes]
    boxes = np.array([box.extents for box in tight if box])
    columns, rows = np.array([_column_and_row(each) for each in axes]).T
    for each, column, row in zip(axes, columns, rows, strict=True):
        across, along = boxes[columns == column], boxes[rows == row]
        box = Bbox.from_extents(
            *(across[:, 0].min(), along[:, 1].min(), across[:, 2].max(), along[:, 3].max())
        )
        yield str(each.get_gid()), box.padded(_MARGIN), _described(each, description)


def _described(panel: "Axes", description: str) -> str:
    """Returns what a panel shows: the figure's title, its own, its axes and its series."""
    series = [*dict.fromkeys(panel.get_legend_handles_labels()[1])][:_SERIES]
    axes = [each for each in (panel.get_ylabel(), panel.get_xlabel()) if each]
    parts = [f"{description.partition('. ')[0]}: {panel.get_title()}", ", by ".join(axes)]
    return ". ".join(filter(None, [*parts, ", ".join(series)]))


def _column_and_row(panel: "Axes") -> tuple[int, int]:
    place = panel.get_subplotspec()
    assert place is not None
    return place.colspan.start, place.rowspan.start


def _picture(
    content: ElementTree.Element, box: "BboxBase", figure: "Figure", description: str
) -> ElementTree.Element:
    """Returns the part of a drawing within a box, in the figure's pixels from the bottom left."""
    x, y, width, height = np.array([box.x0, figure.bbox.height - box.y1, box.width, box.height]) * (
        72 / figure.dpi
    )
    picture = ElementTree.Element("svg", role="img")
    picture.set("aria-label", description)
    picture.set("viewBox", f"{x:.1f} {y:.1f} {width:.1f} {height:.1f}")
    picture.set("style", f"--width: {width / 0.75:.0f}px")
    picture.append(content)
    return picture
