"""Pictures of what the autoencoder has learned."""

from pathlib import Path

import numpy as np

from fathom.shared.pictures import save_sheet

_COLUMNS = 10
IMAGES = 3 * _COLUMNS  # test images with their reconstructions, at most
SAMPLES = 6 * _COLUMNS  # from the prior


def save(
    directory: Path, images: np.ndarray, reconstructions: np.ndarray, samples: np.ndarray
) -> list[Path]:
    """Writes reconstructions of test images, and samples from the prior; returns the paths.

    Args:
        directory: of the files.
        images: [at most ``IMAGES``, 784], from 0 to 1.
        reconstructions: of these images, of the same shape.
        samples: [``SAMPLES``, 784], from 0 to 1.
    """
    pairs = np.stack([_rows_of_ten(images), _rows_of_ten(reconstructions)], 1)
    pictures = {
        "reconstructions": (pairs, "Test images (odd rows) and their reconstructions (even rows)"),
        "samples": (samples, "Samples from the prior N(0, I)"),
    }
    return [
        save_sheet(shown.reshape(-1, _COLUMNS, 28, 28), title, directory / f"autoenc-{name}.png")
        for name, (shown, title) in pictures.items()
    ]


def _rows_of_ten(images: np.ndarray) -> np.ndarray:
    """Returns images [n, 784] as [rows, 10, 784]; the rest of the last row stays blank."""
    blank = np.zeros((-len(images) % _COLUMNS, images.shape[1]), images.dtype)
    return np.concatenate([images, blank]).reshape(-1, _COLUMNS, images.shape[1])
