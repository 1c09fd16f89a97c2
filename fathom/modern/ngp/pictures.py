"""Pictures of what the network of an image has learned."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.shared import pictures


def save(
    directory: Path, small: Mapping[int, np.ndarray], now: np.ndarray, image: np.ndarray
) -> Path:
    """Writes the image during training, as it is now, and its errors as a PNG file.

    Args:
        directory: of the file.
        small: pictures by step, [height, width, 3] in [0, 1].
        now: the network's image, [height, width, 3] in [0, 1].
        image: the true one.
    """
    panels = {f"after {step} step{'s' * (step > 1)}": each for step, each in small.items()}
    panels |= {"now": now, "the image": image}
    figure = Figure(figsize=(2.2 * (len(panels) + 1), 2.5), layout="constrained")
    axes = figure.subplots(1, len(panels) + 1)
    for each, (title, picture) in zip(axes, panels.items(), strict=False):
        each.imshow(picture)
        each.set_title(title, fontsize=9)
    error = np.abs(now - image).mean(axis=2)
    drawn = axes[-1].imshow(
        error, cmap="magma", vmin=0, vmax=max(float(np.quantile(error, 0.99)), 1e-6)
    )
    axes[-1].set_title("absolute error", fontsize=9)
    figure.colorbar(drawn, ax=axes[-1], shrink=0.7)
    for each in axes:
        each.set_xticks([])
        each.set_yticks([])
    return pictures.save(figure, directory / "ngp-image.png")
