"""A picture of how well the recommendation model tells clicks apart."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.shared import pictures


def save(directory: Path, odds: np.ndarray, clicked: np.ndarray) -> Path:
    """Writes the ROC curve as a PNG file.

    Args:
        directory: of the file.
        odds: [n], the log-odds of a click.
        clicked: [n], 0 or 1.
    """
    found = clicked[np.argsort(-odds, kind="stable")]
    true, false = np.cumsum(found), np.cumsum(1 - found)
    figure = Figure(figsize=(4, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(false / max(1, false[-1]), true / max(1, true[-1]))
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.set_title("ROC curve of the test part", fontsize=9)
    return pictures.save(figure, directory / "dlrm-roc.png")
