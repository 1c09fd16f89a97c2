"""A picture of what the graph convolutional network has learned."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.modern.gcn.cora import Cora
from fathom.shared import pictures


def save(directory: Path, hidden: np.ndarray, graph: Cora) -> Path:
    """Writes the test nodes, placed by their hidden representations, as a PNG file.

    Args:
        directory: of the file.
        hidden: [test nodes, units], of which the two principal components are drawn.
        graph: whose classes give the colours.
    """
    hidden = np.asarray(hidden, np.float32)
    centred = np.pad(hidden - hidden.mean(axis=0), (0, 1))  # has two components, even of one unit
    components = np.linalg.svd(centred, full_matrices=False)[2]
    x, y = (centred @ components[:2].T)[:-1].T
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(graph.class_names):
        chosen = graph.classes[graph.test] == i
        axes.scatter(x[chosen], y[chosen], s=6, label=name)
    axes.set_title("Test nodes by hidden representation (principal components)", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    figure.legend(loc="outside right upper", fontsize=7, frameon=False, markerscale=2)
    return pictures.save(figure, directory / "gcn-hidden.png")
