"""Pictures as files, and sheets of many small images."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.system.files import atomic_write


def save(figure: Figure, path: Path, dpi: int = 100) -> Path:
    """Writes a figure as a PNG file; returns its path.

    Raises:
        FathomError: it cannot be written.
    """
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=dpi)
    return path


def save_sheet(images: np.ndarray, title: str, path: Path) -> Path:
    """Writes grey images [rows, columns, height, width], 0 to 1 as ink, in rows; as ``save``."""
    rows, columns, height, width = images.shape
    figure = Figure(figsize=(0.5 * columns, 0.5 * rows + 0.5), layout="constrained")
    axes = figure.subplots()
    sheet = images.swapaxes(1, 2).reshape(rows * height, columns * width)
    axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=1)
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()
    return save(figure, path)
