"""Time, rate and energy of a step on many nodes, by a plan of parallelism.

A node takes the time of its share's operations, by the roofline and the machine's utilization, and
that of the messages which nothing hides. Sums for tensor parallelism and the exchange of experts
stop it; messages between stages do; sums of gradients hide behind a share of the computation. A
pipeline takes the time of its slowest stage, and as much more as the bubble says: with p stages, m
parts of the batch and v parts of the layers a stage, (p - 1) / (v m) (Narayanan et al. 2021).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from fathom.hardware.accelerators.fusion import Fusion
from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.accelerators.network import Transfer
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.rank import MASTER_BYTES, Work
from fathom.hardware.accelerators.stages import Step
from fathom.hardware.description.memory import batch_bytes
from fathom.results.description import Description, Operation


@dataclass(frozen=True)
class Scaled:
    """A step on several nodes of one machine.

    Attributes:
        nodes: how many.
        compute_seconds: of a node.
        communication_seconds: of a node, all of it.
        seconds: of the step.
        rate: floating-point operations per second of all nodes, what is computed again left out.
        power_w: of all nodes.
        area_mm2: of all nodes; None if unknown.
        memory_bytes: that a node holds at once, without scratch memory; None if unknown.
        bubble_seconds: that a node waits for the other stages.
        examples: of the step.
        transfers: what a node of the slowest stage sends, by purpose.
    """

    nodes: int
    compute_seconds: float
    communication_seconds: float
    seconds: float
    rate: float
    power_w: float | None
    area_mm2: float | None
    memory_bytes: int | None = None
    bubble_seconds: float = 0.0
    examples: int = 1
    transfers: dict[str, Transfer] = field(default_factory=dict)

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
    bubble_seconds: float = 0.0,
) -> Scaled:
    """Returns a step whose computation and communication on a node are known.

    A node draws its full power while it computes, and ``idle_share`` of it while it waits.
    """
    seconds = step_seconds(compute_seconds, communication_seconds, hidden_seconds) + bubble_seconds
    busy = compute_seconds / seconds
    power = None
    if machine.power_w is not None:
        power = machine.power_w * (busy + (1 - busy) * machine.idle_share)
        power = nodes * (power + (machine.link_power_w if nodes > 1 else 0.0))
    area = None if machine.area_mm2 is None else nodes * machine.area_mm2
    return Scaled(
        *(nodes, compute_seconds, communication_seconds, seconds, flops / seconds, power, area),
        bubble_seconds=bubble_seconds,
    )


def step_seconds(compute: float, communication: float, hidden: float = 0.0) -> float:
    """Returns the time of a step: the computation, and the communication that it does not hide."""
    return compute + max(0.0, communication - hidden)


def scale(
    description: Description,
    machine: Machine,
    plan: Plan,
    overlap: float = 0.0,
    precision: str | None = None,
    fusion: Fusion | None = None,
) -> Scaled:
    """Returns a step on the nodes of a plan.

    Args:
        description: of the step, with the examples of all nodes.
        machine: each node; with ``links`` if there are several.
        plan: what the nodes share.
        overlap: share of the computation behind which sums of gradients can hide, 0 to 1.
        precision: type of number, as in ``roofline.table``; None: the description's.
        fusion: of the operations of a layer; None: each goes through the memory.

    Raises:
        FathomError: the nodes, or the parts of the batch, are more than the examples; the machine
            lacks a field or its links join fewer; there are more stages than layers.
    """
    step = Step(Work(description, plan, fusion), machine, precision)
    stages = map(step.stage, range(plan.pipeline))
    compute, waits = max(stages, key=lambda e: e[0] + sum(t.seconds for t in e[1].values()))
    sums, update = max(map(step.sums, range(plan.pipeline)), key=lambda e: e[0].seconds + e[1])
    transfers = {name: each for name, each in {**waits, "gradients": sums}.items() if each.seconds}
    blocking = sum(each.seconds for each in waits.values())
    compute_seconds = compute + update
    found = scaled(
        *(machine, description.total_flops, compute_seconds, blocking + sums.seconds, plan.nodes),
        hidden_seconds=min(sums.seconds, overlap * compute_seconds),
        bubble_seconds=plan.bubble * (compute + blocking),
    )
    memory = step.work.memory_bytes(precision)
    return dataclasses.replace(
        found, memory_bytes=memory, examples=description.batch_size, transfers=transfers
    )


def grown(description: Description, times: int) -> Description:
    """Returns a step with several times as many examples."""
    held, size = description.held_bytes, description.batch_size
    return description.model_copy(
        update={
            "batch_size": times * size,
            "inputs": {
                name: (times * size, *shape[1:]) if shape[:1] == (size,) else shape
                for name, shape in description.inputs.items()
            },
            "held_bytes": held and held + (times - 1) * batch_bytes(description),
            "operations": tuple(_grown(row, times) for row in description.operations),
        }
    )


def _grown(row: Operation, times: int) -> Operation:
    if row.phase == "update":
        return row
    names = ["macs", "flops", "input_bytes"] + ["weight_bytes"] * (row.kind == "look-up")
    names += [] if row.phase == "weight gradient" else ["output_bytes", "result_bytes"]
    return row.model_copy(update={name: times * getattr(row, name) for name in names})


def table(results: Sequence[Scaled]) -> pd.DataFrame:
    """Returns a row for each step, with its efficiency: a node's rate over the first's."""
    names = ["nodes", "seconds", "compute_seconds", "communication_seconds", "bubble_seconds"]
    unknown = {"memory_bytes": "Int64", "rate_per_mm2": float, "operations_per_watt": float}
    columns = [*names, "rate", *unknown]
    frame = pd.DataFrame({name: [getattr(each, name) for each in results] for name in columns})
    frame = frame.astype(unknown)  # where they may be None
    node_seconds = frame.nodes * frame.seconds / [each.examples for each in results]
    frame["efficiency"] = node_seconds.iloc[0] / node_seconds
    return frame


def messages(result: Scaled) -> pd.DataFrame:
    """Returns what a node sends in a step: purpose, level of the network, bytes; and seconds."""
    rows = [
        {"purpose": purpose, "level": level, "bytes": size, "seconds": each.spent[level]}
        for purpose, each in result.transfers.items()
        for level, size in each.sent.items()
    ]
    return pd.DataFrame(rows, columns=["purpose", "level", "bytes", "seconds"])


def gradient_bytes(description: Description) -> int:
    """Returns the bytes of all gradients, reduced once per step."""
    return MASTER_BYTES * description.parameters
