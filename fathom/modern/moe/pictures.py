"""The picture of the experts' loads over training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.shared import pictures


def save_loads(
    directory: Path, history: Mapping[str, Sequence[tuple[int, float]]], layers: int
) -> Path:
    """Writes a panel for each block, with a line for each expert; returns the path.

    Args:
        directory: of the picture.
        history: (step, load) of each ``blockL_expertE_load``; a load of 1 is an equal part.
        layers: number of blocks.
    """
    figure = Figure(figsize=(2 * layers, 2.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, layers, sharey=True))
    for block, panel in enumerate(panels, 1):
        for name, points in history.items():
            if name.startswith(f"block{block}_expert"):
                panel.plot(*np.array(points).T, linewidth=1)
        panel.set_title(f"block {block}", fontsize=9)
        panel.tick_params(labelsize=7)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("load of an expert, equal part = 1", fontsize=8)
    figure.supxlabel("step", fontsize=8)
    return pictures.save(figure, directory / "moe-experts.png")
