"""Time, rate and energy of a step on several nodes (Drumond et al., III, IV and VI).

The time on n nodes is that of the computation, divided among them, and of the communication that is
not hidden behind it. With data parallelism the nodes share the examples and reduce the gradients in
a ring; with model parallelism they share each layer's outputs and exchange the activations that
cross the cuts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fathom.errors import FathomError
from fathom.hardware.accelerators import roofline
from fathom.hardware.accelerators.machine import Machine
from fathom.results.description import PRODUCTS, Description, Operation
from fathom.results.distribution import ring_bytes

Parallelism = Literal["data", "model"]
_GRADIENT_BYTES = 4  # gradients are reduced in float32


@dataclass(frozen=True)
class Scaled:
    """A step on several nodes of one machine.

    Attributes:
        nodes: how many.
        compute_seconds: of a node.
        communication_seconds: of a node, all of it.
        seconds: of the step.
        rate: floating-point operations per second of all nodes.
        power_w: of all nodes.
        area_mm2: of all nodes; None if unknown.
    """

    nodes: int
    compute_seconds: float
    communication_seconds: float
    seconds: float
    rate: float
    power_w: float | None
    area_mm2: float | None

    @property
    def rate_per_mm2(self) -> float | None:
        """Operations per second and mm^2: the normalized performance of Table I."""
        return self.rate / self.area_mm2 if self.area_mm2 else None

    @property
    def operations_per_watt(self) -> float | None:
        """Operations per second and watt, which are operations per joule."""
        return self.rate / self.power_w if self.power_w else None


def scaled(
    machine: Machine,
    flops: float,
    compute_seconds: float,
    communication_seconds: float,
    nodes: int,
    hidden_seconds: float = 0.0,
) -> Scaled:
    """Returns a step whose computation and communication on a node are known.

    A node draws its full power while it computes, and ``idle_share`` of it while it waits.
    """
    seconds = step_seconds(compute_seconds, communication_seconds, hidden_seconds)
    busy = compute_seconds / seconds
    power = None
    if machine.power_w is not None:
        power = machine.power_w * (busy + (1 - busy) * machine.idle_share)
        power = nodes * (power + (machine.link_power_w if nodes > 1 else 0.0))
    area = None if machine.area_mm2 is None else nodes * machine.area_mm2
    return Scaled(
        nodes, compute_seconds, communication_seconds, seconds, flops / seconds, power, area
    )


def step_seconds(compute: float, communication: float, hidden: float = 0.0) -> float:
    """Returns the time of a step: the computation, and the communication that it does not hide."""
    return compute + max(0.0, communication - hidden)


def scale(
    description: Description,
    machine: Machine,
    nodes: Sequence[int],
    parallelism: Parallelism = "data",
    overlap: float = 0.0,
    precision: str | None = None,
) -> list[Scaled]:
    """Returns a step on each number of nodes.

    Args:
        description: of the step; its batch is shared among the nodes.
        machine: each node; with ``link_bandwidth`` if there are several.
        nodes: numbers of them, 1 or more.
        parallelism: what the nodes share.
        overlap: share of the computation behind which communication can hide, 0 to 1.
        precision: type of number, as in ``roofline.table``; None: the description's.

    Raises:
        FathomError: a number of nodes is below 1, or the machine lacks a field.
    """
    if min(nodes, default=0) < 1:
        raise FathomError("the number of nodes must be at least 1")
    if max(nodes) > 1:
        machine.require("link_bandwidth")
    alone = roofline.table(description, machine, precision)
    products = alone.kind.isin(PRODUCTS)
    on_one = float((alone.seconds / machine.utilization).where(products, alone.seconds).sum())
    found = []
    for count in nodes:
        moved = _bytes_moved(description, count, parallelism)
        communication = moved / machine.link_bandwidth if machine.link_bandwidth else 0.0
        compute = on_one / count
        flops = description.total_flops
        found.append(scaled(machine, flops, compute, communication, count, overlap * compute))
    return found


def table(results: Sequence[Scaled]) -> pd.DataFrame:
    """Returns one row per number of nodes, with the efficiency against the first row."""
    names = ("nodes", "seconds", "compute_seconds", "communication_seconds", "rate")
    frame = pd.DataFrame({name: [getattr(each, name) for each in results] for name in names})
    frame["rate_per_mm2"] = pd.Series([each.rate_per_mm2 for each in results], dtype=float)
    frame["operations_per_watt"] = pd.Series(
        [each.operations_per_watt for each in results], dtype=float
    )
    node_seconds = frame.nodes * frame.seconds
    frame["efficiency"] = node_seconds.iloc[0] / node_seconds
    return frame


def gradient_bytes(description: Description) -> int:
    """Returns the bytes of all gradients, reduced once per step."""
    return _GRADIENT_BYTES * description.parameters


def _bytes_moved(description: Description, nodes: int, parallelism: Parallelism) -> float:
    """Returns the bytes that each node sends in a step."""
    if nodes == 1:
        return 0.0
    if parallelism == "model":
        return sum(_crossing(row, nodes) for row in _products(description))
    if description.mode == "infer":
        return 0.0
    return ring_bytes(gradient_bytes(description), nodes)


def _products(description: Description) -> list[Operation]:
    return [row for row in description.operations if row.macs and row.phase != "weight gradient"]


def _crossing(row: Operation, nodes: int) -> float:
    """Returns the bytes of one operation's results that a node sends to others.

    The maps of a convolution are cut into patches, whose borders go to the neighbours; of any other
    product each node computes a part, which all others need.
    """
    bounds = row.bounds
    if row.kind != "convolution":
        return row.output_bytes / nodes * (nodes - 1)
    side = math.sqrt(bounds["P"] * bounds["Q"] / nodes)
    border = 4 * side * (max(bounds["R"], bounds["S"]) // 2)
    return row.output_bytes * min(border / (bounds["P"] * bounds["Q"]), 1 / nodes)
