"""Figure 4 of the Fathom paper: similarity of the workloads."""

from typing import TYPE_CHECKING

import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.profile import tables
from fathom.characterize.report import published, selection
from fathom.characterize.report.clustering import cluster, cosine_distance, linkage
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import BLUE, panels, style

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def distances(shares: pd.DataFrame) -> pd.DataFrame:
    """Returns the cosine distance of each pair of workloads.

    Args:
        shares: one row per workload, one column per op type.
    """
    rows = shares.to_numpy()
    pairs = [[cosine_distance(a, b) for b in rows] for a in rows]
    return pd.DataFrame(pairs, shares.index, shares.index.tolist()).reset_index()


def merges(shares: pd.DataFrame) -> pd.DataFrame:
    """Returns the hierarchy of the workloads, one row per merge, in order."""
    names = shares.index
    return pd.DataFrame(
        {
            "merge": number,
            "cosine distance": merge.distance,
            "workloads together": " ".join(names[list(merge.members)]),
        }
        for number, merge in enumerate(cluster(shares.to_numpy()), 1)
    )


def summary(hierarchy: pd.DataFrame) -> str:
    """Summarizes the merges in a sentence."""
    first, last = hierarchy.iloc[0], hierarchy.iloc[-1]
    return (
        f"{first['workloads together'].replace(' ', ' and ')} are closest, at "
        f"{first['cosine distance']:.3f}; the last two clusters join at "
        f"{last['cosine distance']:.2f}."
    )


def draw(shares: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws our dendrogram and that of the paper's Figure 3, with distance on the x axis."""
    paper = published.breakdown()
    with style():
        height = 1.2 + 0.32 * max(len(shares), len(paper))
        names = "measured", "from the paper's table"
        figure, (ours, theirs) = panels(names, columns=2, width=4.5, height=height)
        _dendrogram(ours, shares)
        _dendrogram(theirs, paper)
    return figure


def _dendrogram(axes: "matplotlib.axes.Axes", shares: pd.DataFrame) -> None:
    from scipy.cluster.hierarchy import dendrogram

    merges = linkage(cluster(shares.to_numpy()))
    tree = dendrogram(merges, labels=list(shares.index), no_plot=True)
    for heights, distances in zip(tree["icoord"], tree["dcoord"], strict=True):
        label = f"{max(distances):.3f}"
        axes.plot(distances, heights, color=BLUE, linewidth=1.4, label=label)
    axes.set_yticks([10 * i + 5 for i in range(len(tree["ivl"]))], tree["ivl"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 1)
    axes.grid(axis="x")
    axes.set_xlabel("cosine distance of the centroids")


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.workload.nunique() < 2:
        return Findings(gaps=[*gaps, "at least two workloads are needed"])
    shares, paper = tables.shares(ops), published.breakdown()
    hierarchy = merges(shares)
    others = {
        "distances": distances(shares),
        "paper_merges": merges(paper),
        "paper_distances": distances(paper),
    }
    return Findings(summary(hierarchy), draw(shares), hierarchy, others, gaps)


FIGURE = Figure(
    id="F4",
    order=4,
    title="Similarity of the workloads",
    meaning="The rows of the heat map as vectors of all types; cosine distance; the two "
    "closest clusters merge and the mean of all their rows replaces them (centroid linkage). A "
    "merge may be closer than the previous one: a centroid can be nearer to a third cluster "
    "than its parts were.",
    paper="Fathom, Figure 4, a picture without numbers, recomputed here from the numbers of its "
    "Figure 3 by the same routine: the convolutional networks merge first, and seq2seq with "
    "memnet joins speech with autoenc at about 0.4.",
    analyse=_analyse,
)
