"""A figure of our own: the hierarchy of the eight, with further workloads placed in it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fathom import workloads
from fathom.measure.profile import tables
from fathom.measure.report import selection, style
from fathom.measure.report.clustering import Merge, cluster, cosine_distance, linkage
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.figures import f4
from fathom.measure.report.intervals import Interval, combine
from fathom.measure.runs.folder import Folder

Members = tuple[str, ...]
_Top = tuple[float, float]  # of a cluster in the drawing: distance and row


def clusters(shares: pd.DataFrame) -> tuple[list[Members], list[Merge]]:
    """Returns the clusters of a hierarchy, workloads first, then its merges; and the merges."""
    merges = cluster(shares.to_numpy())
    names = tuple(shares.index)
    together = [tuple(names[i] for i in merge.members) for merge in merges]
    return [*((name,) for name in names), *together], merges


def places(shares: pd.DataFrame, by_process: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Places each further workload at the cluster of the eight that is nearest to it.

    Returns:
        one row per further workload: ``workload``; ``joins``, the workloads of the cluster;
        ``cosine distance`` to its centroid, and ``from`` and ``to``, the limits of its 95 %
        interval between processes, from ``f4.processes``, for the same cluster; ``nearest``, of the
        eight, and ``at``.
    """
    eight = shares[shares.index.isin(workloads.EIGHT)]
    found, rows = clusters(eight)[0], []
    centroids = [shares.loc[list(each)].to_numpy().mean(axis=0) for each in found]
    for name, own in shares.drop(index=eight.index).iterrows():
        distances = [cosine_distance(own.to_numpy(), each) for each in centroids]
        nearest = int(np.argmin(distances[: len(eight)]))
        joined = found[int(np.argmin(distances))]
        interval = _interval(str(name), joined, by_process)
        rows.append(
            {
                "workload": name,
                "joins": " ".join(joined),
                "cosine distance": min(distances),
                "from": interval.low,
                "to": interval.high,
                "nearest": found[nearest][0],
                "at": distances[nearest],
            }
        )
    return pd.DataFrame(rows)


def _interval(name: str, joined: Members, by_process: Mapping[str, np.ndarray]) -> Interval:
    """Returns the distance of a workload to a cluster's centroid, with its interval."""
    rows = [by_process[each] for each in (name, *joined)]
    (found,) = combine(rows, lambda own, *others: cosine_distance(own, np.mean(others, axis=0)))
    return found.clipped(0, 1)


def summary(placed: pd.DataFrame) -> str:
    """Says in a sentence where each further workload is."""
    texts = [
        f"{row['workload']} joins {row['joins'].replace(' ', ', ')} at "
        f"{Interval(row['cosine distance'], row['from'], row['to']).text('.3f')}"
        for row in placed.to_dict("records")
    ]
    return f"{'; '.join(texts)}."


def draw(shares: pd.DataFrame, placed: pd.DataFrame) -> style.Plot:
    """Draws the dendrogram of the eight, and each further workload at the cluster it joins."""
    from scipy.cluster.hierarchy import leaves_list

    eight = shares[shares.index.isin(workloads.EIGHT)]
    found, merges = clusters(eight)
    rows = _rows(list(eight.index[leaves_list(linkage(merges))]), placed)
    tops: list[_Top] = [(0.0, rows.index(name)) for name in eight.index]
    with style.single(1.2 + 0.32 * len(rows)) as (figure, axes):
        for merge in merges:
            a, b = tops[merge.first], tops[merge.second]
            _bracket(axes, a, b, merge.distance, style.BLUE, "the eight")
            tops.append((merge.distance, (a[1] + b[1]) / 2))
        for row in placed.to_dict("records"):
            own, joined = rows.index(row["workload"]), found.index(tuple(row["joins"].split()))
            label, distance = "placed in their hierarchy", row["cosine distance"]
            _bracket(axes, (0.0, own), tops[joined], distance, style.ORANGE, label)
        f4.name_leaves(axes, range(len(rows)), rows)
        style.legend_above(figure, columns=2)
    return figure


def _rows(leaves: list[str], placed: pd.DataFrame) -> list[str]:
    """Returns the leaves with each further workload next to those it joins."""
    rows = list(leaves)
    for name, joined in zip(placed["workload"], placed["joins"], strict=True):
        rows.insert(1 + max(rows.index(each) for each in joined.split()), name)
    return rows


def _bracket(axes: style.Panel, a: _Top, b: _Top, distance: float, colour: str, label: str) -> None:
    """Draws two branches from their clusters to the distance at which they join."""
    x, y = [a[0], distance, distance, b[0]], [a[1], a[1], b[1], b[1]]
    axes.plot(x, y, color=colour, linewidth=1.4, label=label)


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    there = set(ops.workload)
    if len(there & set(workloads.EIGHT)) < 2:
        return Findings(gaps=[*gaps, "at least two of the eight are needed"])
    if there <= set(workloads.EIGHT):
        return Findings(gaps=[*gaps, "no workload beside the eight was profiled"])
    shares = tables.shares(ops)
    placed = places(shares, f4.processes(ops, shares))
    found = f"{summary(placed)}{selection.caveats(selection.training_profiles(folder))}"
    return Findings(found, draw(shares, placed), placed, gaps=gaps)


FIGURE = Figure(
    id="today",
    order=41,
    title="Today's workloads in the hierarchy of the eight",
    meaning="The eight alone are merged as in F4. Each further workload joins the workload or "
    "merged cluster of them whose centroid is nearest, by cosine distance over all op types; it "
    "does not change their hierarchy. Intervals are between processes, for the same cluster.",
    paper="A figure of our own: the paper's eight end in 2015.",
    analyse=_analyse,
)
