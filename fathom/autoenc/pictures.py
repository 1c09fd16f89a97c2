"""Pictures of what the autoencoder has learned."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.system.files import atomic_write

_COLUMNS = 10
IMAGES = 3 * _COLUMNS  # test images with their reconstructions, at most
SAMPLES = 6 * _COLUMNS  # from the prior


def save(
    directory: Path, images: np.ndarray, reconstructions: np.ndarray, samples: np.ndarray
) -> list[Path]:
    """Writes two PNG files: reconstructions of test images, and samples from the prior.

    Args:
        directory: of the files.
        images: [at most ``IMAGES``, 784], from 0 to 1.
        reconstructions: of these images, of the same shape.
        samples: [``SAMPLES``, 784], from 0 to 1.

    Returns:
        their paths.

    Raises:
        FathomError: they cannot be written.
    """
    pairs = np.stack([_rows_of_ten(images), _rows_of_ten(reconstructions)])
    pictures = {
        "reconstructions": (
            pairs.swapaxes(0, 1).reshape(-1, 28, 28),
            "Test images (odd rows) and their reconstructions (even rows)",
        ),
        "samples": (samples.reshape(-1, 28, 28), "Samples from the prior N(0, I)"),
    }
    paths = []
    for name, (shown, title) in pictures.items():
        paths.append(directory / f"autoenc-{name}.png")
        with atomic_write(paths[-1]) as temporary:
            _contact_sheet(shown, title).savefig(temporary, format="png", dpi=100)
    return paths


def _rows_of_ten(images: np.ndarray) -> np.ndarray:
    """Returns images [n, 784] as [rows, 10, 784]; the rest of the last row stays blank."""
    blank = np.zeros((-len(images) % _COLUMNS, images.shape[1]), images.dtype)
    return np.concatenate([images, blank]).reshape(-1, _COLUMNS, images.shape[1])


def _contact_sheet(images: np.ndarray, title: str) -> Figure:
    """Returns a figure of images [n, 28, 28], from 0 to 1, in rows of ten."""
    rows = len(images) // _COLUMNS
    sheet = images.reshape(rows, _COLUMNS, 28, 28).swapaxes(1, 2).reshape(rows * 28, _COLUMNS * 28)
    figure = Figure(figsize=(5, 0.5 * rows + 0.5), layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=1)
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()
    return figure
