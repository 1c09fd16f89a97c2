from xml.etree import ElementTree

import numpy as np
import pytest

from fathom.measure.report import picture
from fathom.measure.report.style import applied, new_figure, panels


def parsed(figure):
    """Returns the figure's HTML as a tree."""
    return ElementTree.fromstring(f"<div>{picture.drawn(figure, 'x', 'A figure')[1]}</div>")


def tooltips(figure):
    return [each.text for each in parsed(figure).iter("title")]


@pytest.fixture
def axes():
    with applied():
        return new_figure(3, 3).subplots()


def test_a_point_says_its_series_and_both_its_values(axes):
    axes.plot([1, 2, 3], [0.5, np.nan, 1234.5], "o", label="vgg")
    axes.set(xlabel="cores", ylabel="speed-up")
    assert tooltips(axes.figure) == [
        "vgg\nspeed-up: 0.5\ncores: 1",
        "vgg\nspeed-up: 1,234\ncores: 3",
    ]


@pytest.mark.parametrize("drawing", ["barh", "bar"])
def test_a_bar_says_its_name_and_its_length(axes, drawing):
    getattr(axes, drawing)([0.1, 1.1], [3.0, 4.0], 0.2, label="training")
    length, place = ("x", "y") if drawing == "barh" else ("y", "x")
    getattr(axes, f"set_{place}ticks")([0, 1], ["vgg", "residual"])
    getattr(axes, f"set_{length}label")("ms")
    texts = [set(each.split("\n")) for each in tooltips(axes.figure)]
    assert texts == [{"training", "vgg", "ms: 3"}, {"training", "residual", "ms: 4"}]


def test_a_bar_with_a_label_of_its_own_says_it(axes):
    axes.barh([0, 0], [3.0, 4.0], left=[0, 3.0], label=["first", "second"])
    axes.set_xlabel("ms")
    assert [each.split("\n")[0] for each in tooltips(axes.figure)] == ["first", "second"]


def test_a_point_with_an_interval_says_its_series(axes):
    axes.errorbar([1.0], [2.0], xerr=[0.5], marker="o", label="vgg")
    (text,) = tooltips(axes.figure)
    assert text.startswith("vgg\n")


def test_a_cell_says_its_row_its_column_and_its_value(axes):
    values = np.ma.masked_less([[1.0, 0.1], [3.0, 4.0]], 0.5)
    axes.pcolormesh(np.arange(3) - 0.5, np.arange(3) - 0.5, values)
    axes.set_xticks([0, 1], ["Mul", "Add"])
    axes.set_yticks([0, 1], ["vgg", "residual"])
    assert [each.replace("\n", " ") for each in tooltips(axes.figure)] == [
        "vgg Mul 1",
        "vgg Add 0.1",
        "residual Mul 3",
        "residual Add 4",
    ]


def test_texts_are_texts_and_take_the_colours_of_the_page(axes):
    axes.set_title("A title")
    html = picture.drawn(axes.figure, "x", "A figure")[1]
    assert ">A title</text>" in html
    assert "font-family" not in html
    assert "#000000" not in html
    assert "#ffffff" not in html


def test_the_text_for_those_who_cannot_see_a_panel_has_its_axes_and_its_series():
    with panels(["vgg"], columns=1, width=3, height=2) as (figure, (panel,)):
        panel.plot([1, 2], [1, 2], label="Add (1 %)")
        panel.set(xlabel="step", ylabel="time")
    (shown,) = ElementTree.fromstring(picture.drawn(figure, "x", "Times. They vary.")[1])
    assert shown.get("aria-label") == "Times: vgg. time, by step. Add (1 %)"


def test_panels_become_pictures_below_their_legend_with_unique_references():
    with panels(["vgg", "residual", "deepq"], columns=2, width=3, height=2) as (figure, axes):
        for panel in axes:
            panel.plot([1, 2], [1, 2], "o", label="a")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center")
    tree = parsed(figure)
    labels = [each.get("aria-label") for each in tree.iter("svg")]
    assert labels[0] == "A figure: legend"
    assert labels[1:] == [f"A figure: {name}. a" for name in ("vgg", "residual", "deepq")]
    ids = [each.get("id") for each in tree.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    assert all(each.startswith("x-") for each in ids)
    assert {each.get("href") for each in tree.iter("use")} <= {f"#{each}" for each in ids}
    _, first, second, below = (each.get("viewBox").split() for each in tree.iter("svg"))
    assert first[1] == second[1]  # aligned in a row
    assert (first[0], first[2]) == (below[0], below[2])  # and in a column
