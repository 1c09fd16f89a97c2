"""Tells whether a person can read a figure: texts within it, none over another."""

from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


def texts_of(figure):
    """Returns the texts that are drawn, with the boxes that they cover."""
    drawn = []
    draw = Text.draw

    def noted(text, renderer):
        if text.get_visible() and text.get_text().strip():
            drawn.append((text.get_text(), text.get_window_extent(renderer)))
        draw(text, renderer)

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # places everything
    with mock.patch.object(Text, "draw", noted):
        canvas.draw()
    return drawn


def assert_legible(figure):
    """Fails where a text leaves the figure or covers another one."""
    shown = texts_of(figure)
    for text, box in shown:
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= figure.bbox.width + 1, text
        assert box.y1 <= figure.bbox.height + 1, text
    for i, (text, box) in enumerate(shown):
        for other, covered in shown[i + 1 :]:
            wide = min(box.x1, covered.x1) - max(box.x0, covered.x0)
            high = min(box.y1, covered.y1) - max(box.y0, covered.y0)
            assert wide <= 1 or high <= 1, f"{text!r} covers {other!r}"


def labels_of(figure):
    return {text for text, _ in texts_of(figure)}
