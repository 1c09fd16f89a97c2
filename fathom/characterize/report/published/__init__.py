"""What the Fathom and Minsky papers published, as numbers; published/README.md has the sources."""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np


@dataclass(frozen=True)
class PublishedBreakdown:
    """Figure 3 of the Fathom paper.

    Attributes:
        workloads: its rows, in its order.
        op_types: its columns, in its order.
        percent: share of execution time, float64 [workloads, op types], in percent; 0 also stands
            for shares under 1 %.
    """

    workloads: tuple[str, ...]
    op_types: tuple[str, ...]
    percent: np.ndarray

    def row(self, workload: str) -> dict[str, float]:
        """Returns a workload's percentages by op type.

        Raises:
            KeyError: the paper has no such workload.
        """
        if workload not in self.workloads:
            raise KeyError(workload)
        values = self.percent[self.workloads.index(workload)]
        return dict(zip(self.op_types, values.tolist(), strict=True))


@dataclass(frozen=True)
class GpuEfficiency:
    """A row of Table 1 of the Minsky paper, on one P100.

    Attributes:
        kernels_over_api: time in kernels over time in API calls.
        memcpy_share: time in copies over time in kernels, from 0 to 1.
    """

    kernels_over_api: float
    memcpy_share: float


@functools.cache
def breakdown() -> PublishedBreakdown:
    """Returns Figure 3 of the Fathom paper."""
    header, *rows = _read("fig3_op_type_percent.csv")
    percent = np.array([[float(value) for value in row[1:]] for row in rows])
    percent.setflags(write=False)
    return PublishedBreakdown(tuple(row[0] for row in rows), tuple(header[1:]), percent)


@functools.cache
def gpu_efficiency() -> Mapping[str, GpuEfficiency]:
    """Returns Table 1 of the Minsky paper by workload; speech is not in it."""
    _, *rows = _read("minsky_table1_gpu_efficiency.csv")
    return MappingProxyType(
        {name: GpuEfficiency(float(ratio), float(memcpy) / 100) for name, ratio, memcpy in rows}
    )


@functools.cache
def sections() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Returns Table 2 of the Minsky paper.

    Keys are (workload, ``"cpu"`` or ``"cpu+gpu"``); values are the times of ``init``, ``setup``,
    ``run``, ``main`` and ``wall`` over the workload's CPU-only wall time. speech is not in it.
    """
    header, *rows = _read("minsky_table2_sections.csv")
    return MappingProxyType(
        {
            (workload, device): MappingProxyType(
                dict(zip(header[2:], map(float, values), strict=True))
            )
            for workload, device, *values in rows
        }
    )


def _read(name: str) -> list[list[str]]:
    text = (importlib.resources.files(__package__) / name).read_text()
    return list(csv.reader(text.splitlines()))
