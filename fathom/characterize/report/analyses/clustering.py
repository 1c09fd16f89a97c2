"""How alike the workloads are: Figure 4 of the Fathom paper."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fathom.characterize.report import published
from fathom.characterize.report.analyses.operations import shares
from fathom.characterize.report.analyses.table import Table
from fathom.results.profile import Profile

Distance = Callable[[np.ndarray, np.ndarray], float]


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Returns 1 - a.b / (|a||b|) of two vectors of the same length; NaN if one has no length."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(0.0, 1 - float(np.dot(a, b)) / lengths) if lengths else np.nan


@dataclass(frozen=True)
class Merge:
    """Two clusters that became one.

    Attributes:
        first: number of a cluster: below n a vector, from n on the merge ``first - n``.
        second: number of the other, larger than ``first``.
        distance: distance of their centroids.
        members: the vectors in the new cluster, ascending.
    """

    first: int
    second: int
    distance: float
    members: tuple[int, ...]


def cluster(vectors: np.ndarray, distance: Distance = cosine_distance) -> list[Merge]:
    """Merges the two closest clusters until one is left: centroid linkage.

    The centroid of a cluster is the mean of all its vectors; of equal distances the first counts.

    Args:
        vectors: float [n, dimensions].
        distance: between two vectors.

    Returns:
        The n - 1 merges in order.
    """
    members = {number: (number,) for number in range(len(vectors))}
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


@dataclass(frozen=True)
class Similarity:
    """Figure 4: a hierarchy of the workloads by the cosine distance of their profiles.

    Attributes:
        workloads: names, [n].
        distances: cosine distance of each pair, float64 [n, n].
        merges: the n - 1 merges, the closest first.
    """

    workloads: tuple[str, ...]
    distances: np.ndarray
    merges: tuple[Merge, ...]

    def names(self, merge: Merge) -> tuple[str, ...]:
        """Returns the workloads that are together after a merge."""
        return tuple(self.workloads[i] for i in merge.members)

    def linkage(self) -> np.ndarray:
        """Returns the merges as SciPy writes them, float64 [n - 1, 4], to draw a dendrogram."""
        rows = [[m.first, m.second, m.distance, len(m.members)] for m in self.merges]
        return np.array(rows, np.float64).reshape(-1, 4)

    def table(self) -> Table:
        """Returns one row a merge: what the figure is drawn from."""
        return Table(
            ("merge", "cosine distance", "workloads together"),
            tuple(
                (number + 1, merge.distance, " ".join(self.names(merge)))
                for number, merge in enumerate(self.merges)
            ),
        )

    def distances_table(self) -> Table:
        """Returns the distance of each pair of workloads."""
        return Table(
            ("workload", *self.workloads),
            tuple(
                (name, *row)
                for name, row in zip(self.workloads, self.distances.tolist(), strict=True)
            ),
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        first = self.merges[0]
        return (
            f"{' and '.join(self.names(first))} are closest, at {first.distance:.3f}; "
            f"the last two clusters join at {self.merges[-1].distance:.2f}."
        )


def similarity(profiles: Iterable[Profile]) -> Similarity:
    """Clusters workloads by the shares of their op types.

    Args:
        profiles: at least two, of different workloads.
    """
    return _similarity({profile.workload: shares(profile) for profile in profiles})


def published_similarity() -> Similarity:
    """Clusters the rows of the Fathom paper's Figure 3."""
    table = published.breakdown()
    return _similarity({name: table.row(name) for name in table.workloads})


def _similarity(profiles: Mapping[str, Mapping[str, float]]) -> Similarity:
    op_types = dict.fromkeys(op_type for profile in profiles.values() for op_type in profile)
    vectors = np.array(
        [[profile.get(op_type, 0.0) for op_type in op_types] for profile in profiles.values()]
    )
    return Similarity(
        workloads=tuple(profiles),
        distances=np.array([[cosine_distance(a, b) for b in vectors] for a in vectors]),
        merges=tuple(cluster(vectors)),
    )
