"""More threads and cores: the Fathom paper's Figure 6, the Minsky paper's Figure 2."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.characterize.profile import ops
from fathom.characterize.report.analyses.operations import seconds_by_type
from fathom.characterize.report.analyses.table import Table
from fathom.results.characterization import Run
from fathom.results.profile import Profile

_HEAVIEST = 7  # op types shown of a workload
_LAYERS_NAMED = 3


@dataclass(frozen=True)
class ThreadScaling:
    """The absolute time of one workload's heaviest op types by the threads inside an op.

    Attributes:
        workload: the workload's name.
        threads: ascending.
        op_types: those with the largest share of the time on any number of threads, the heaviest
            on the fewest threads first; so that a type is there which emerges with more of them.
        roles: what each type does in the model: the layers that take most of its time.
        seconds: mean time a step, float64 [op types, threads].
        step_seconds: mean time of all ops in a step, float64 [threads].
    """

    workload: str
    threads: tuple[int, ...]
    op_types: tuple[str, ...]
    roles: tuple[str, ...]
    seconds: np.ndarray
    step_seconds: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Share of the time of all ops, from 0 to 1, float64 [op types, threads]."""
        return self.seconds / self.step_seconds

    @property
    def speedups(self) -> np.ndarray:
        """Time on the fewest over time on the most threads, float64 [op types]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.seconds[:, 0] / self.seconds[:, -1]


@dataclass(frozen=True)
class Parallelism:
    """Figure 6: what parallelism inside ops does to each op type."""

    workloads: tuple[ThreadScaling, ...]

    def table(self) -> Table:
        """Returns one row a type and number of threads: what the figure is drawn from."""
        return Table.of(
            {
                "workload": each.workload,
                "op type": op_type,
                "role": role,
                "threads": threads,
                "time a step (s)": float(each.seconds[i, j]),
                "share of time in ops": float(each.shares[i, j]),
            }
            for each in self.workloads
            for i, (op_type, role) in enumerate(zip(each.op_types, each.roles, strict=True))
            for j, threads in enumerate(each.threads)
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        sentences = []
        for each in self.workloads:
            heaviest, gained = each.op_types[0], each.speedups[0]
            shares = each.shares
            grown = int((shares[:, -1] - shares[:, 0]).argmax())
            sentences.append(
                f"{each.workload}: from {each.threads[0]} to {each.threads[-1]} threads {heaviest} "
                f"becomes {gained:.2f} times as fast, and the share of {each.op_types[grown]} "
                f"goes from {shares[grown, 0]:.1%} to {shares[grown, -1]:.1%}."
            )
        return " ".join(sentences)


def parallelism(profiles: Iterable[Profile]) -> Parallelism:
    """Compares profiles of the same workloads with different numbers of threads inside an op.

    Args:
        profiles: in any order; a workload with one number of threads only is left out.
    """
    by_workload: dict[str, dict[int, Profile]] = {}
    for profile in profiles:
        by_workload.setdefault(profile.workload, {}).setdefault(profile.threads, profile)
    return Parallelism(
        tuple(
            _thread_scaling([by_threads[threads] for threads in sorted(by_threads)])
            for by_threads in by_workload.values()
            if len(by_threads) > 1
        )
    )


def _thread_scaling(profiles: Sequence[Profile]) -> ThreadScaling:
    """Compares profiles of one workload, in ascending order of their threads."""
    by_type = [
        {op_type: each.mean() for op_type, each in seconds_by_type(profile).items()}
        for profile in profiles
    ]
    step_seconds = np.array([sum(each.values()) for each in by_type])
    largest_share = {
        op_type: max(
            each.get(op_type, 0.0) / total
            for each, total in zip(by_type, step_seconds, strict=True)
        )
        for op_type in {op_type for each in by_type for op_type in each}
    }
    shown = sorted(largest_share, key=lambda name: (-largest_share[name], name))[:_HEAVIEST]
    op_types = sorted(shown, key=lambda name: (-by_type[0].get(name, 0.0), name))
    return ThreadScaling(
        workload=profiles[0].workload,
        threads=tuple(profile.threads for profile in profiles),
        op_types=tuple(op_types),
        roles=tuple(_role(profiles, op_type) for op_type in op_types),
        seconds=np.array([[each.get(op_type, 0.0) for each in by_type] for op_type in op_types]),
        step_seconds=step_seconds,
    )


def _role(profiles: Iterable[Profile], op_type: str) -> str:
    """Returns the layers that take most of a type's time, the heaviest first."""
    seconds: dict[str, float] = {}
    for op in itertools.chain.from_iterable(profile.ops for profile in profiles):
        if ops.paper_type(op.type) == op_type:
            seconds[op.layer] = seconds.get(op.layer, 0.0) + float(op.seconds.sum())
    heaviest = sorted(seconds, key=lambda layer: (-seconds[layer], layer))
    more = ", ..." if len(heaviest) > _LAYERS_NAMED else ""
    return ", ".join(heaviest[:_LAYERS_NAMED]) + more


@dataclass(frozen=True)
class CoreScaling:
    """The step time of one workload by the cores that it was allowed.

    Attributes:
        workload: the workload's name.
        cores: ascending, the first 1, int64 [n].
        seconds: median step time, float64 [n].
    """

    workload: str
    cores: np.ndarray
    seconds: np.ndarray

    @property
    def speedup(self) -> np.ndarray:
        """Time on one core over time on these, float64 [n]."""
        return self.seconds[0] / self.seconds

    @property
    def efficiency(self) -> np.ndarray:
        """Speed-up over the cores used, float64 [n]."""
        return self.speedup / self.cores


@dataclass(frozen=True)
class Efficiency:
    """Figure 2 of the Minsky paper: parallel efficiency, cores restricted by CPU affinity."""

    workloads: tuple[CoreScaling, ...]

    def table(self) -> Table:
        """Returns one row a workload and number of cores: what the figure is drawn from."""
        return Table.of(
            {
                "workload": each.workload,
                "cores": int(cores),
                "median step (s)": float(each.seconds[i]),
                "speed-up": float(each.speedup[i]),
                "efficiency": float(each.efficiency[i]),
            }
            for each in self.workloads
            for i, cores in enumerate(each.cores)
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        ends = [f"{e.workload} {e.efficiency[-1]:.2f} at {e.cores[-1]}" for e in self.workloads]
        return f"Efficiency on the most cores measured: {', '.join(ends)}."


def efficiency(runs: Iterable[Run]) -> Efficiency:
    """Compares the step times of runs that were allowed different numbers of cores.

    Args:
        runs: timing runs that are done; a workload without a run on one core, or with that alone,
            is left out. Of equal runs the median counts.
    """
    seconds: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        steps = run.result.steps
        if steps.measurements:
            seconds.setdefault(run.workload, {}).setdefault(run.cores, []).append(steps.median)
    return Efficiency(
        tuple(
            CoreScaling(
                workload,
                np.array(sorted(by_cores)),
                np.array([np.median(by_cores[cores]) for cores in sorted(by_cores)]),
            )
            for workload, by_cores in seconds.items()
            if 1 in by_cores and len(by_cores) > 1
        )
    )
