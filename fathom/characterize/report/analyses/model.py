"""Where in the model the time goes, and what each layer costs: analyses of our own."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fathom.characterize.report.analyses.table import Table
from fathom.results.profile import PHASES, Profile


@dataclass(frozen=True)
class LayerTimes:
    """The time of one workload's layers and roles, by phase.

    Attributes:
        workload: the workload's name.
        layers: layers and roles, the heaviest first.
        seconds: mean time a step, float64 [layers, phases]; the phases are ``profiles.PHASES``.
    """

    workload: str
    layers: tuple[str, ...]
    seconds: np.ndarray

    @property
    def ascribed(self) -> float:
        """Share of the time in ops that has a layer or a role, from 0 to 1."""
        known = [name not in ("", "unknown") for name in self.layers]
        return float(self.seconds[known].sum() / self.seconds.sum())

    @property
    def phase_shares(self) -> np.ndarray:
        """Share of each phase in the time in ops, float64 [phases]."""
        return self.seconds.sum(axis=0) / self.seconds.sum()


@dataclass(frozen=True)
class Layers:
    """The time of every workload's layers, forward, backward and optimizer apart."""

    workloads: tuple[LayerTimes, ...]

    def table(self) -> Table:
        """Returns one row a layer: what the figure is drawn from."""
        return Table.of(
            {
                "workload": each.workload,
                "layer or role": layer,
                **{f"{phase} (s)": float(s) for phase, s in zip(PHASES, seconds, strict=True)},
                "share": float(seconds.sum() / each.seconds.sum()),
            }
            for each in self.workloads
            for layer, seconds in zip(each.layers, each.seconds, strict=True)
        )

    def phases_table(self) -> Table:
        """Returns one row a workload: the share of each phase, and of what has a layer or role."""
        return Table.of(
            {
                "workload": each.workload,
                **dict(zip(PHASES, each.phase_shares.tolist(), strict=True)),
                "has a layer or role": each.ascribed,
            }
            for each in self.workloads
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        least = min(self.workloads, key=lambda times: times.ascribed)
        return (
            f"At least {least.ascribed:.1%} of the time in ops has a layer or a stated role "
            f"(the least in {least.workload})."
        )


def layers(profiles: Iterable[Profile]) -> Layers:
    """Adds the op times of each profile up by layer and phase."""
    return Layers(tuple(_layer_times(p) for p in profiles if p.op_seconds))


def _layer_times(profile: Profile) -> LayerTimes:
    seconds: dict[str, np.ndarray] = {}
    for op in profile.ops:
        of_layer = seconds.setdefault(op.layer, np.zeros(len(PHASES)))
        of_layer[PHASES.index(op.phase)] += op.seconds.mean()
    names = sorted(seconds, key=lambda name: (-seconds[name].sum(), name))
    return LayerTimes(profile.workload, tuple(names), np.array([seconds[n] for n in names]))
