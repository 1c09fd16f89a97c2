"""How well the GPU is used: Table 1 of the Minsky paper."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fathom.characterize.report import published
from fathom.characterize.report.analyses.table import Table
from fathom.results.profile import GpuTime, Profile


@dataclass(frozen=True)
class GpuUse:
    """Table 1 of the Minsky paper: how well kernels use the GPU.

    Attributes:
        workloads: names of those that were measured here or in the paper.
        kernels_over_api: time in kernels over time in API calls, float64 [workloads]; NaN where
            nothing was measured, or no kernel ran.
        memcpy_share: time in copies over time in kernels, from 0 to 1, float64 [workloads]; NaN
            likewise.
        measured: names of the workloads that ran on a GPU.
    """

    workloads: tuple[str, ...]
    kernels_over_api: np.ndarray
    memcpy_share: np.ndarray
    measured: tuple[str, ...]

    def table(self) -> Table:
        """Returns one row a workload, ours and the paper's beside each other."""
        paper_table = published.gpu_efficiency()
        rows = []
        for i, workload in enumerate(self.workloads):
            paper = paper_table.get(workload)
            theirs = (paper.kernels_over_api, paper.memcpy_share) if paper else (None, None)
            ours = (float(self.kernels_over_api[i]), float(self.memcpy_share[i]))
            rows.append((workload, *ours, *theirs))
        columns = ("kernels / API calls", "copies / kernels")
        return Table(("workload", *columns, *(f"{name}, paper" for name in columns)), tuple(rows))

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        if not self.measured:
            return "Nothing was measured on a GPU: the figures are the paper's."
        if np.isnan(self.kernels_over_api).all():
            return "The GPU ran no kernels."
        best = int(np.nanargmax(self.kernels_over_api))
        return (
            f"{self.workloads[best]} uses the GPU best: its kernels take "
            f"{self.kernels_over_api[best]:.2f} of the time of its API calls."
        )


def gpu_use(profiles: Iterable[Profile]) -> GpuUse:
    """Sets kernels, API calls and copies of training profiles on a GPU in relation.

    Args:
        profiles: those without a GPU are left out.
    """
    times = {profile.workload: profile.gpu for profile in profiles if profile.gpu}
    there = {*times, *published.gpu_efficiency()}
    workloads = tuple(name for name in published.breakdown().workloads if name in there)
    nothing = GpuTime(kernel_seconds=0.0, api_seconds=0.0, memcpy_seconds=0.0)
    in_order = [times.get(workload, nothing) for workload in workloads]
    return GpuUse(
        workloads=workloads,
        kernels_over_api=np.array([_ratio(t.kernel_seconds, t.api_seconds) for t in in_order]),
        memcpy_share=np.array([_ratio(t.memcpy_seconds, t.kernel_seconds) for t in in_order]),
        measured=tuple(name for name in workloads if name in times),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else np.nan
