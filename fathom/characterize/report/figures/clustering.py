"""Figure 4 of the Fathom paper: the hierarchy of the workloads."""

from typing import TYPE_CHECKING

from fathom.characterize.report.analyses.clustering import Similarity
from fathom.characterize.report.figures.style import BLUE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def similarity(measured: Similarity, paper: Similarity) -> "Figure":
    """Draws our dendrogram beside the one from the paper's Figure 3, distance on the x axis."""
    leaves = max(len(measured.workloads), len(paper.workloads))
    with style():
        figure = new_figure(9, 1.2 + 0.32 * leaves)
        ours, theirs = figure.subplots(1, 2, sharex=True)
        _dendrogram(ours, measured, "measured")
        _dendrogram(theirs, paper, "from the paper's table")
        figure.supxlabel("cosine distance of the centroids", fontsize=9)
    return figure


def _dendrogram(axes: "Axes", result: Similarity, title: str) -> None:
    from scipy.cluster.hierarchy import dendrogram

    tree = dendrogram(result.linkage(), labels=list(result.workloads), no_plot=True)
    for heights, distances in zip(tree["icoord"], tree["dcoord"], strict=True):
        axes.plot(distances, heights, color=BLUE, linewidth=1.4)
    axes.set_yticks([10 * i + 5 for i in range(len(tree["ivl"]))], tree["ivl"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 1)
    axes.grid(axis="x")
    axes.set_title(title)
