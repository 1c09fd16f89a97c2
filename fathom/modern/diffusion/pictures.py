"""Pictures of what the network samples."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.modern.diffusion.process import as_pixels
from fathom.system.files import atomic_write


def save(directory: Path, name: str, images: np.ndarray, title: str) -> Path:
    """Writes rows of images as one PNG file.

    Args:
        directory: of the file.
        name: of the file, without its ending.
        images: [rows, columns, side, side, 1], from -1 to 1.
        title: of the picture.

    Returns:
        its path.

    Raises:
        FathomError: it cannot be written.
    """
    rows, columns, side = images.shape[:3]
    sheet = as_pixels(images[..., 0]).swapaxes(1, 2).reshape(rows * side, columns * side)
    figure = Figure(figsize=(0.5 * columns, 0.5 * rows + 0.3), layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=255)
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()
    path = directory / f"{name}.png"
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)
    return path
