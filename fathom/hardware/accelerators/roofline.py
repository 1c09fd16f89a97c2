"""The roofline: the least time that a machine needs for each operation (Drumond et al., V-A).

An operation takes at least the time of its arithmetic at the machine's peak, and at least that of
its bytes at the memory's bandwidth; the longer of the two bounds it. Its bytes are those of its
working set: an operation reads each of its inputs and weights at least once from memory, unless an
earlier operation left them in a cache, which is not modelled. A loop reads its weights again in
each iteration if together they exceed the memory on the chip, or if the size of that is not known.
What passes a level of that memory bounds an operation too, where the level's bandwidth is known: it
reads its inputs and weights in each iteration, but for the weights that the level inside it holds.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fathom.errors import FathomError
from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.description.memory import peak_bytes
from fathom.results.description import PRODUCTS, Description, Operation

COMPUTE, MEMORY = "compute", "memory"


def table(
    description: Description, machine: Machine, precision: str | None = None, parts: int = 1
) -> pd.DataFrame:
    """Returns the bound of each operation of a step.

    Args:
        description: of the step; where it has densities, the machine skips zeros.
        machine: that would run it.
        precision: type of number, such as ``fixed16``, instead of the description's; the bytes are
            scaled by its bits, but for the updates of the float32 weights, what is quantised, and
            results that have these bits already.
        parts: of the batch, each of which reads the weights.

    Returns:
        one row per operation: name, type, layer, phase, kind, FLOPs (two per multiply-accumulate),
        bytes from memory, intensity (FLOPs per byte), ``NAME bytes`` for each level on the chip
        whose bandwidth is known, attainable (FLOP/s), seconds (the least time) and bound
        (``compute``, ``memory`` or a level's name).

    Raises:
        FathomError: the machine has no rate for the precision.
    """
    peak = machine.peak(precision or description.precision)
    scale = bits(precision) / bits(description.precision) if precision else 1.0
    rows = [row.without_zeros() for row in description.operations]
    named = ("name", "type", "layer", "phase", "kind")
    frame = pd.DataFrame({name: [getattr(row, name) for row in rows] for name in named})
    frame["flops"] = [row.total_flops for row in rows]
    width = bits(precision or description.precision)
    scales = np.array([1.0 if _keeps_bytes(row, width) else scale for row in rows])
    frame["bytes"] = scales * _bytes(rows, scales, machine.on_chip_bytes or 0.0, parts)
    seconds = {COMPUTE: frame.flops / peak, MEMORY: frame["bytes"] / machine.bandwidth}
    inside = (0.0, *(level.size_bytes for level in machine.levels))  # of the level further in
    for level, kept in reversed([*zip(machine.levels, inside, strict=False)]):
        if level.bandwidth:
            frame[f"{level.name} bytes"] = moved = scales * _bytes(rows, scales, kept, parts)
            seconds[level.name] = moved / level.bandwidth
    times = pd.DataFrame(seconds)
    frame["intensity"] = frame.flops / frame["bytes"].clip(lower=1)
    frame["seconds"] = times.max(axis=1)
    frame["attainable"] = frame.flops / frame.seconds.where(frame.seconds > 0)
    frame["bound"] = times.idxmax(axis=1)
    return frame


def _bytes(rows: Sequence[Operation], scales: np.ndarray, kept: float, parts: int) -> np.ndarray:
    """Returns the bytes that operations move, [operations], in the description's precision.

    A loop's weights stay in the memory behind this one if they fit into its ``kept`` bytes.
    """
    in_loops: Counter[str] = Counter()  # bytes of weights, once, by the loop's name
    for row, scale in zip(rows, scales, strict=True):
        in_loops[_loop(row)] += scale * row.weight_bytes // (row.repeats * parts)
    stays = [in_loops[_loop(row)] <= kept for row in rows]
    once = np.array([row.working_set_bytes for row in rows], float)
    return np.where(stays, once, np.array([row.traffic_bytes for row in rows], float))


def _keeps_bytes(row: Operation, width: int) -> bool:
    """Says whether a precision of some bits changes nothing.

    That is so of updates, whole numbers of a network, and results that have these bits already.
    """
    sums = row.kind in PRODUCTS and "int" in row.dtype
    same = re.fullmatch(rf"u?int[248]|b?float{width}(\D.*)?", row.dtype)
    return row.phase == "update" or sums or bool(same)


def _loop(row: Operation) -> str:
    """Returns the name of the outermost loop around an operation."""
    return row.name.partition("/body/")[0] if row.repeats > 1 else row.name


def bits(precision: str) -> int:
    """Returns the bits of a type of number: the first number in its name, as in ``float8_e5m2``.

    Raises:
        FathomError: its name has no number of bits.
    """
    found = re.match(r"[a-z]+:?(\d+)", precision)
    if not found:
        raise FathomError(f"{precision} is no type of number, such as float32 or fixed16")
    return int(found[1])


def memory_bytes(description: Description, precision: str | None = None) -> int | None:
    """Returns the most memory that a step holds at once, without scratch memory within operations.

    Args:
        description: of the step.
        precision: as of ``table``; weights that are trained stay in float32.

    Returns:
        bytes; None if an older file does not tell them.
    """
    most, held = peak_bytes(description), description.held_bytes
    if most is None or held is None:
        return None
    scale = bits(precision) / bits(description.precision) if precision else 1.0
    return round((most - held) * scale + held * (1 if description.mode == "train" else scale))


def layers(operations: pd.DataFrame) -> pd.DataFrame:
    """Returns the sums of ``table`` by layer, in the network's order.

    A layer's bound is the one that its operations are bound by for most of their time.
    """
    sums = operations.groupby("layer", sort=False)[["flops", "bytes", "seconds"]].sum()
    by_bound = operations.groupby(["layer", "bound"]).seconds.sum().unstack(fill_value=0)
    sums["intensity"] = sums.flops / sums["bytes"].clip(lower=1)
    sums["attainable"] = sums.flops / sums.seconds.where(sums.seconds > 0)
    sums["bound"] = by_bound.idxmax(axis=1)
    return sums.reset_index()
