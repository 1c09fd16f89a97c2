"""Time, rate and energy of a step on several nodes (Drumond et al., III, IV and VI).

The time on n nodes is that of a node's share of the computation, and of the communication that is
not hidden behind it. With data parallelism the nodes share the examples, each reads and updates all
weights, and they reduce the gradients in a ring. With model parallelism they share each layer's
outputs and its weights, and exchange the activations that cross the cuts. Of convolutions they
share patches of the maps: all nodes have the weights, and reduce their gradients.
"""

import dataclasses
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
        memory_bytes: that a node holds at once, without scratch memory; None if unknown.
    """

    nodes: int
    compute_seconds: float
    communication_seconds: float
    seconds: float
    rate: float
    power_w: float | None
    area_mm2: float | None
    memory_bytes: int | None = None

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
        FathomError: a number of nodes is below 1 or above that of the examples which they share, or
            the machine lacks a field.
    """
    if min(nodes, default=0) < 1:
        raise FathomError("the number of nodes must be at least 1")
    if parallelism == "data" and max(nodes) > description.batch_size:
        raise FathomError(
            f"{max(nodes)} nodes cannot share {description.batch_size} examples: raise the batch "
            "size, or use fewer nodes"
        )
    if max(nodes) > 1:
        machine.require("link_bandwidth")
    found = []
    for count in nodes:
        moved = _bytes_moved(description, count, parallelism)
        communication = moved / machine.link_bandwidth if machine.link_bandwidth else 0.0
        share = _share(description, count, parallelism)
        compute = _compute_seconds(share, machine, precision)
        flops = description.total_flops
        each = scaled(machine, flops, compute, communication, count, overlap * compute)
        # What a node holds of the weights is not known where the nodes share them.
        known = parallelism == "data" or count == 1
        memory = roofline.memory_bytes(share, precision) if known else None
        found.append(dataclasses.replace(each, memory_bytes=memory))
    return found


def table(results: Sequence[Scaled]) -> pd.DataFrame:
    """Returns one row per number of nodes, with the efficiency against the first row."""
    names = ("nodes", "seconds", "compute_seconds", "communication_seconds", "rate")
    frame = pd.DataFrame({name: [getattr(each, name) for each in results] for name in names})
    frame["memory_bytes"] = pd.Series([each.memory_bytes for each in results], dtype="Int64")
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


def _compute_seconds(share: Description, machine: Machine, precision: str | None) -> float:
    """Returns the time of a node's operations; products reach only a share of the peak."""
    operations = roofline.table(share, machine, precision)
    products = operations.kind.isin(PRODUCTS)
    return float(
        (operations.seconds / machine.utilization).where(products, operations.seconds).sum()
    )


def _share(description: Description, nodes: int, parallelism: Parallelism) -> Description:
    """Returns the work of one node."""
    patched = _layers_of_convolutions(description)
    rows = [
        _with_own_weights(row, nodes)
        if parallelism == "model" and row.layer not in patched
        else _with_all_weights(row, nodes)
        for row in description.operations
    ]
    return description.model_copy(update={"operations": tuple(rows)})


def _with_all_weights(row: Operation, nodes: int) -> Operation:
    """Returns a node's part of an operation of which each node has all weights."""
    if row.phase == "update":
        return row
    divided = ["macs", "flops", "input_bytes"]
    divided += [] if row.phase == "weight gradient" else ["output_bytes", "result_bytes"]
    return _divided(row, nodes, divided)


def _with_own_weights(row: Operation, nodes: int) -> Operation:
    """Returns a node's part of an operation of which each node has a part of the weights."""
    return _divided(row, nodes, ["macs", "flops", "input_bytes", "weight_bytes", "output_bytes"])


def _divided(row: Operation, nodes: int, fields: Sequence[str]) -> Operation:
    return row.model_copy(update={name: -(-getattr(row, name) // nodes) for name in fields})


def _layers_of_convolutions(description: Description) -> set[str]:
    return {row.layer for row in description.operations if row.kind == "convolution"}


def _bytes_moved(description: Description, nodes: int, parallelism: Parallelism) -> float:
    """Returns the bytes that each node sends in a step."""
    if nodes == 1:
        return 0.0
    if parallelism == "model":
        crossing = sum(_crossing(row, nodes) for row in _products(description))
        return crossing + ring_bytes(_gradients_of_convolutions(description), nodes)
    if description.mode == "infer":
        return 0.0
    return ring_bytes(gradient_bytes(description), nodes)


def _gradients_of_convolutions(description: Description) -> int:
    """Returns the bytes of the gradients of the weights that all nodes have."""
    return sum(
        row.output_bytes
        for row in description.operations
        if row.kind == "convolution" and row.phase == "weight gradient"
    )


def _products(description: Description) -> list[Operation]:
    """Returns the products whose results other nodes need: not those within a head of attention."""
    return [
        row
        for row in description.operations
        if row.macs and row.phase != "weight gradient" and not _of_heads(row)
    ]


def _of_heads(row: Operation) -> bool:
    """Says whether an operation multiplies activations for each example and head on its own."""
    return row.bounds.get("batch", 1) > 1 and not row.weight_bytes


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
