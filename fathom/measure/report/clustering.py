"""Cosine distance and centroid linkage, as in section V.C of the Fathom paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Distance = Callable[[np.ndarray, np.ndarray], float]


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Returns 1 - a.b / (|a||b|) of two vectors of the same size; NaN if one is zero."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(0.0, 1 - float(np.dot(a, b)) / lengths) if lengths else np.nan


@dataclass(frozen=True)
class Merge:
    """The merge of two clusters."""

    first: int  # number of a cluster: below n a vector, otherwise the merge ``first - n``
    second: int  # number of the other, larger than ``first``
    distance: float  # distance of their centroids
    members: tuple[int, ...]  # the vectors in the new cluster, ascending


def cluster(vectors: np.ndarray, distance: Distance = cosine_distance) -> list[Merge]:
    """Merges the two closest clusters until one is left (centroid linkage).

    The centroid of a cluster is the mean of all its vectors; ties go to the first pair.

    Args:
        vectors: float [n, dimensions].
        distance: between two vectors.

    Returns:
        The n - 1 merges in order.
    """
    members: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(vectors))}
    merges: list[Merge] = []
    while len(members) > 1:
        centroids = {number: vectors[list(each)].mean(axis=0) for number, each in members.items()}
        closest, first, second = min(
            (distance(centroids[a], centroids[b]), a, b) for a in members for b in members if a < b
        )
        together = tuple(sorted(members.pop(first) + members.pop(second)))
        members[len(vectors) + len(merges)] = together
        merges.append(Merge(first, second, closest, together))
    return merges


def linkage(merges: Sequence[Merge]) -> np.ndarray:
    """Returns the merges in SciPy's format, float64 [n - 1, 4], to draw a dendrogram."""
    rows = [[m.first, m.second, m.distance, len(m.members)] for m in merges]
    return np.array(rows, np.float64).reshape(-1, 4)
