"""Pictures of what the autoencoder has learned."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.autoenc.model import Autoenc

_COLUMNS = 10


def save(model: "Autoenc", directory: Path) -> list[Path]:
    """Writes two PNG files: reconstructions of test images, and samples from the prior.

    Returns:
        their paths.

    Raises:
        FathomError: they cannot be written.
    """
    rng = np.random.default_rng(model.execution.seed)
    observed = np.concatenate([batch[0].numpy() for batch in _first_batches(model)])
    count = min(3 * _COLUMNS, len(observed))
    chosen = observed[rng.choice(len(observed), count, replace=False)]
    mean = model.network(chosen, training=False).mean.numpy()
    pairs = np.stack([_rows_of_ten(chosen), _rows_of_ten(model.decode(mean))])
    latents = rng.standard_normal((6 * _COLUMNS, model.hyperparameters.latents), np.float32)
    pictures = {
        "reconstructions": (
            pairs.swapaxes(0, 1).reshape(-1, 28, 28),
            "Test images (odd rows) and their reconstructions (even rows)",
        ),
        "samples": (model.decode(latents).reshape(-1, 28, 28), "Samples from the prior N(0, I)"),
    }
    paths = []
    for name, (images, title) in pictures.items():
        paths.append(directory / f"autoenc-{name}.png")
        with atomic_write(paths[-1]) as temporary:
            _contact_sheet(images, title).savefig(temporary, format="png", dpi=100)
    return paths


def _rows_of_ten(images: np.ndarray) -> np.ndarray:
    """Returns images [n, 784] as [rows, 10, 784]; what is left of the last row stays blank."""
    blank = np.zeros((-len(images) % _COLUMNS, images.shape[1]), images.dtype)
    return np.concatenate([images, blank]).reshape(-1, _COLUMNS, images.shape[1])


def _first_batches(model: "Autoenc") -> list:
    """Returns test batches with enough images for the picture, or all that there are."""
    batches, images = [], 0
    for batch in model.evaluation_batches():
        batches.append(batch)
        images += len(batch[0])
        if images >= 3 * _COLUMNS:
            break
    return batches


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
