"""Figure 4 of the Fathom paper: similarity of the workloads."""

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import published, selection, style
from fathom.measure.report.clustering import Merge, cluster, cosine_distance, linkage
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import Interval, combine
from fathom.measure.runs.folder import Folder


def distances(shares: pd.DataFrame) -> pd.DataFrame:
    """Returns the cosine distance of each pair of workloads."""
    rows = shares.to_numpy()
    pairs = [[cosine_distance(a, b) for b in rows] for a in rows]
    return pd.DataFrame(pairs, shares.index, shares.index.tolist()).reset_index()


def processes(ops: pd.DataFrame, shares: pd.DataFrame) -> dict[str, np.ndarray]:
    """Returns the shares of each workload's processes, float64 [op types, processes], in order."""
    return {
        workload: tables.shares_by_process(ops[ops.workload == workload])
        .reindex(shares.columns, fill_value=0.0)
        .to_numpy()
        for workload in shares.index
    }


def merges(
    shares: pd.DataFrame, by_process: Mapping[str, np.ndarray] | None = None
) -> pd.DataFrame:
    """Returns the hierarchy of the workloads, one row per merge, in order.

    Returns:
        ``merge``, its number; ``cosine distance`` of the two centroids, and ``from`` and ``to``,
        the limits of its 95 % interval between processes, from ``processes``, for the same
        clusters; ``workloads together``. Without processes there are no limits.
    """
    names = shares.index
    found = cluster(shares.to_numpy())
    table = pd.DataFrame(
        {
            "merge": number,
            "cosine distance": merge.distance,
            "workloads together": " ".join(names[list(merge.members)]),
        }
        for number, merge in enumerate(found, 1)
    )
    if by_process:
        known = combine([by_process[name] for name in names], lambda *rows: _heights(rows, found))
        limits = [each.clipped(0, 1) for each in known]
        table.insert(2, "from", [each.low for each in limits])
        table.insert(3, "to", [each.high for each in limits])
    return table


def _heights(rows: Sequence[np.ndarray], merges: Sequence[Merge]) -> np.ndarray:
    """Returns the distance of the two centroids of each merge, float64 [merges]."""
    members = [(i,) for i in range(len(rows))] + [merge.members for merge in merges]
    centroids = [np.mean([rows[i] for i in each], axis=0) for each in members]
    return np.array([cosine_distance(centroids[m.first], centroids[m.second]) for m in merges])


def is_closest(pair: Collection[str], by_process: Mapping[str, np.ndarray]) -> bool | None:
    """Returns whether two workloads are significantly closer than any other two; None: unknown."""
    names = list(by_process)
    others = [{a, b} for a, b in itertools.combinations(names, 2) if {a, b} != set(pair)]

    def margins(*rows: np.ndarray) -> np.ndarray:
        row = dict(zip(names, rows, strict=True))
        nearest = cosine_distance(*(row[name] for name in pair))
        return np.array([cosine_distance(*(row[n] for n in each)) - nearest for each in others])

    if not others:
        return None
    found = combine(list(by_process.values()), margins)
    return all(each.low > 0 for each in found) if all(each.known for each in found) else None


def summary(hierarchy: pd.DataFrame, by_process: Mapping[str, np.ndarray]) -> str:
    """Summarizes the merges in a sentence."""
    columns = [name for name in ("cosine distance", "from", "to") if name in hierarchy]
    first, last = (Interval(*hierarchy[columns].iloc[i]) for i in (0, -1))
    pair = hierarchy["workloads together"].iloc[0].split()
    nearest = f"{' and '.join(pair)} at {first.text('.3f')}"
    sentences = {
        True: f"The closest two are {nearest}, significantly closer than any other two",
        False: f"Which two are closest is within the noise: {nearest}",
        None: f"The first merge is of {nearest}",
    }
    closest = sentences[is_closest(pair, by_process)]
    return f"{closest}; the last two clusters join at {last.text('.2f')}."


def draw(shares: pd.DataFrame) -> style.Plot:
    """Draws our dendrogram and that of the paper's Figure 3, with distance on the x axis."""
    paper = published.breakdown()
    height = 1.2 + 0.32 * max(len(shares), len(paper))
    names = "measured", "from the paper's table"
    with style.panels(names, columns=2, width=4.5, height=height) as (figure, (ours, theirs)):
        dendrogram(ours, shares)
        dendrogram(theirs, paper)
    return figure


def dendrogram(axes: style.Panel, shares: pd.DataFrame) -> None:
    """Draws the hierarchy of the rows of a table of shares, with distance on the x axis."""
    from scipy.cluster.hierarchy import dendrogram

    merges = linkage(cluster(shares.to_numpy()))
    tree = dendrogram(merges, labels=list(shares.index), no_plot=True)
    for heights, distances in zip(tree["icoord"], tree["dcoord"], strict=True):
        label = f"{max(distances):.3f}"
        axes.plot(distances, heights, color=style.BLUE, linewidth=1.4, label=label)
    name_leaves(axes, [10 * i + 5 for i in range(len(tree["ivl"]))], tree["ivl"])


def name_leaves(axes: style.Panel, places: Sequence[int], names: Sequence[str]) -> None:
    """Writes the names of a dendrogram's leaves, and the distance below."""
    axes.set_yticks(places, names)
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
    by_process = processes(ops, shares)
    hierarchy = merges(shares, by_process)
    others = {
        "distances": distances(shares),
        "paper_merges": merges(paper),
        "paper_distances": distances(paper),
    }
    caveats = selection.caveats(selection.training_profiles(folder))
    found = f"{summary(hierarchy, by_process)}{caveats}"
    return Findings(found, draw(shares), hierarchy, others, gaps)


FIGURE = Figure(
    id="F4",
    order=40,
    title="Similarity of the workloads",
    meaning="The rows of the heat map as vectors of all types; cosine distance; the two "
    "closest clusters merge and the mean of all their rows replaces them (centroid linkage). A "
    "merge may be closer than the previous one: a centroid can be nearer to a third cluster "
    "than its parts were. Intervals are between processes, for the same clusters.",
    paper="Fathom, Figure 4, a picture without numbers, recomputed here from the numbers of its "
    "Figure 3 by the same routine: the convolutional networks merge first, and seq2seq with "
    "memnet joins speech with autoenc at about 0.4.",
    analyse=_analyse,
)
