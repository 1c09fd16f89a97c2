"""Share of time by op type beside the paper's own table: Figure 3 of the Fathom paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.characterize.profile import ops
from fathom.characterize.report import published
from fathom.characterize.report.analyses.clustering import cosine_distance
from fathom.characterize.report.analyses.intervals import jackknife
from fathom.characterize.report.analyses.operations import seconds_by_type, shares
from fathom.characterize.report.analyses.table import Table
from fathom.results.profile import Profile

VISIBLE = 0.01  # share from which an op type has a column, as in the paper


@dataclass(frozen=True)
class Breakdown:
    """Figure 3: the share of each op type, and how far each row is from the paper's.

    Attributes:
        workloads: rows, in the order of the profiles.
        op_types: the paper's columns in its order, then ours above 1 % that it has not.
        classes: class of each column, A-G; ``""`` for a type without one.
        percent: share of the time in ops, float64 [workloads, op types], in percent.
        paper: the paper's percentages likewise; NaN in rows that it has not.
        distances: cosine distance of each row, all types counted, to the paper's; NaN likewise.
        intervals: 95 % interval of each distance over the profiled steps, float64 [workloads, 2];
            NaN likewise, and with too few steps.
        profiles: share of every op type by workload, also of those under 1 %.
    """

    workloads: tuple[str, ...]
    op_types: tuple[str, ...]
    classes: tuple[str, ...]
    percent: np.ndarray
    paper: np.ndarray
    distances: np.ndarray
    intervals: np.ndarray
    profiles: Mapping[str, Mapping[str, float]]

    def table(self) -> Table:
        """Returns one row a workload, ours and the paper's after each other."""
        rows = []
        for i, workload in enumerate(self.workloads):
            ours, theirs = self.percent[i], self.paper[i]
            distance = (float(self.distances[i]), *self.intervals[i].tolist())
            rows.append((workload, "measured", *ours.tolist(), float(100 - ours.sum()), *distance))
            if not np.isnan(theirs).any():
                others = float(100 - theirs.sum())
                rows.append((workload, "paper", *theirs.tolist(), others, None, None, None))
        columns = ("workload", "", *self.op_types, "others", "cosine distance", "from", "to")
        return Table(columns, tuple(rows))

    def classes_table(self) -> Table:
        """Returns the share of each class A-G, in percent; ``none`` for types without one."""
        letters = [*ops.CLASSES, ""]
        rows = []
        for workload, by_type in self.profiles.items():
            by_class = dict.fromkeys(letters, 0.0)
            for op_type, share in by_type.items():
                by_class[ops.op_class(op_type)] += 100 * share
            rows.append((workload, *by_class.values()))
        names = [f"{letter} {name} (%)" for letter, name in ops.CLASSES.items()]
        return Table(("workload", *names, "none (%)"), tuple(rows))

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        known = [
            f"{name} {distance:.3f}" + ("" if np.isnan(low) else f" ({low:.3f} to {high:.3f})")
            for name, distance, (low, high) in zip(
                self.workloads, self.distances, self.intervals, strict=True
            )
            if not np.isnan(distance)
        ]
        return (
            "Cosine distance to the paper's rows, with the 95 % interval from the steps: "
            f"{', '.join(known)}."
        )


def breakdown(profiles: Iterable[Profile]) -> Breakdown:
    """Puts the op types' shares into the paper's columns.

    Args:
        profiles: at least one, of different workloads.
    """
    profiles = list(profiles)
    paper_table = published.breakdown()
    measured = {profile.workload: shares(profile) for profile in profiles}
    workloads = tuple(measured)
    extra = {
        op_type
        for row in measured.values()
        for op_type, share in row.items()
        if share >= VISIBLE and op_type not in paper_table.op_types
    }
    op_types = (
        *paper_table.op_types,
        *sorted(extra, key=lambda t: (ops.op_class(t) or "Z", t)),
    )
    paper = {name: paper_table.row(name) for name in workloads if name in paper_table.workloads}
    return Breakdown(
        workloads=workloads,
        op_types=op_types,
        classes=tuple(ops.op_class(op_type) for op_type in op_types),
        percent=_matrix([measured[name] for name in workloads], op_types) * 100,
        paper=np.array([_row_or_nan(paper.get(name), op_types) for name in workloads]),
        distances=np.array(
            [
                cosine_distance(*_vectors(measured[name], paper[name])) if name in paper else np.nan
                for name in workloads
            ]
        ),
        intervals=np.array([_interval(p, paper.get(p.workload)) for p in profiles]),
        profiles=measured,
    )


@dataclass(frozen=True)
class Difference:
    """One op type's part in the distance of a workload's row to the paper's.

    Attributes:
        op_type: the paper's name of the type.
        measured: our share in percent.
        paper: the paper's; 0 also for shares under 1 %, and for types that it has not.
        part: the type's part of the distance; over all types they add up to 1.
        kernels: the types that TensorFlow's profiler names, the heaviest first.
        layers: the layers in which ours takes most time, at most three, the heaviest first.
        count: how often ours runs in a step.
    """

    op_type: str
    measured: float
    paper: float
    part: float
    kernels: tuple[str, ...]
    layers: tuple[str, ...]
    count: float

    @property
    def reason(self) -> str:
        """What the profile itself shows of why the shares differ."""
        if not self.count:
            return "no such op runs in this step"
        if not self.paper:
            named = self.op_type in published.breakdown().op_types
            return "under 1 % in the paper" if named else "not in the paper's table"
        return f"{self.measured / self.paper:.2g} times the paper's share"


@dataclass(frozen=True)
class Differences:
    """What the distance of a workload's row to the paper's is made of.

    With both rows scaled to length 1 the cosine distance is half the squared length of their
    difference, so that each op type has its part in it.

    Attributes:
        workload: the workload's name.
        distance: cosine distance of the rows.
        parts: the op types, the largest part first.
    """

    workload: str
    distance: float
    parts: tuple[Difference, ...]

    def table(self) -> Table:
        """Returns one row an op type."""
        return Table.of(
            {
                "op type": each.op_type,
                "class": ops.op_class(each.op_type),
                "measured (%)": each.measured,
                "paper (%)": each.paper,
                "part of distance": each.part,
                "calls/step": each.count,
                "why": each.reason,
                "kernels": " ".join(each.kernels),
                "layers": " ".join(each.layers),
            }
            for each in self.parts
        )


def differences(profile: Profile, heaviest: int = 10) -> Differences:
    """Splits the distance of a profile to the paper's row of the same workload by op type.

    Raises:
        KeyError: the paper has no such workload.
    """
    measured, paper = shares(profile), published.breakdown().row(profile.workload)
    op_types = list(dict.fromkeys([*paper, *measured]))
    ours, theirs = _matrix([measured, paper], op_types)
    parts = (ours / np.linalg.norm(ours) - theirs / np.linalg.norm(theirs)) ** 2
    order = [i for i in np.argsort(-parts, kind="stable")[:heaviest] if parts[i]]
    return Differences(
        profile.workload,
        cosine_distance(ours, theirs),
        tuple(
            _difference(profile, op_types[i], ours[i], theirs[i], parts[i] / parts.sum())
            for i in order
        ),
    )


def _difference(
    profile: Profile, op_type: str, share: float, paper: float, part: float
) -> Difference:
    mine = [op for op in profile.ops if ops.paper_type(op.type) == op_type]
    heaviest_first = sorted(mine, key=lambda op: -op.seconds.sum())
    return Difference(
        op_type=op_type,
        measured=float(100 * share),
        paper=float(paper),
        part=float(part),
        kernels=tuple(dict.fromkeys(op.type for op in heaviest_first)),
        layers=tuple(dict.fromkeys(op.layer for op in heaviest_first))[:3],
        count=float(sum(op.count for op in mine)),
    )


def _interval(profile: Profile, paper: Mapping[str, float] | None) -> np.ndarray:
    """Returns the interval of the distance to the paper's row, float64 [2]."""
    if paper is None:
        return np.full(2, np.nan)
    seconds = seconds_by_type(profile)
    op_types = list(dict.fromkeys([*seconds, *paper]))
    by_step = np.array([seconds.get(t, np.zeros(profile.steps)) for t in op_types])
    theirs = np.array([paper.get(op_type, 0.0) for op_type in op_types])

    def distances(ours: np.ndarray) -> np.ndarray:
        return 1 - theirs @ ours / (np.linalg.norm(theirs) * np.linalg.norm(ours, axis=0))

    return np.maximum(0, jackknife(by_step, distances).interval())


def _matrix(rows: Iterable[Mapping[str, float]], op_types: Iterable[str]) -> np.ndarray:
    op_types = list(op_types)
    return np.array([[row.get(op_type, 0.0) for op_type in op_types] for row in rows])


def _row_or_nan(row: Mapping[str, float] | None, op_types: Sequence[str]) -> list[float]:
    return [row.get(t, 0.0) for t in op_types] if row else [np.nan] * len(op_types)


def _vectors(first: Mapping[str, float], second: Mapping[str, float]) -> np.ndarray:
    return _matrix([first, second], dict.fromkeys([*first, *second]))
