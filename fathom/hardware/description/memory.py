"""The memory of a step: how long each result lives, and the most that is held at once.

The order is that of TensorFlow's executor with one thread, which goes on with what an operation has
enabled, the last of it first, before it turns to anything else. Updates begin when all
gradients are computed, as ``Optimizer.apply`` says. The results of an operation are held until the
last one that reads them has run, those that none reads until the step ends; of several results a
small one, such as a statistic, counts with the largest. An elementwise operation writes over an
input of its size that nothing reads later. Scratch memory within an operation is not known.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import pandas as pd

from fathom.results.description import Description, Operation


def peak_bytes(description: Description) -> int | None:
    """Returns the most memory that a step holds at once; None if an older file does not tell it."""
    if description.held_bytes is None:
        return None
    change: Counter[int] = Counter()
    for first, last, size in lifetimes(description)[["first", "last", "bytes"]].to_numpy().tolist():
        change[first] += size
        change[last + 1] -= size
    changes = (size for _, size in sorted(change.items()))
    return description.held_bytes + max(itertools.accumulate(changes, initial=0))


def batch_bytes(description: Description) -> int:
    """Returns the memory of a step's inputs and labels, of 4 bytes a value, if it is held."""
    values = sum(math.prod(shape) for shape in description.inputs.values())
    return min(4 * values, description.held_bytes or 0)


def lifetimes(description: Description) -> pd.DataFrame:
    """Returns when the results of each operation that has some are held, in order of execution.

    Returns:
        name; bytes; first, the turn of the operation in that order, from 0; last, that of the last
        operation which reads the results, or which is the step's last if none does.
    """
    rows = {row.name: row for row in description.operations}
    turns = {name: turn for turn, name in enumerate(schedule(description.operations))}
    last: dict[str, int] = {}
    for row in rows.values():
        last |= {name: max(last.get(name, 0), turns[row.name]) for name in _held_for(row)}
    for name, turn in turns.items():
        if taken := _written_over(rows, name, turn, last):
            last[taken] = turn - 1
    found = [
        (name, rows[name].result_bytes, turn, max(turn, last.get(name, len(turns) - 1)))
        for name, turn in turns.items()
        if rows[name].result_bytes
    ]
    return pd.DataFrame(found, columns=["name", "bytes", "first", "last"])


def _written_over(
    rows: dict[str, Operation], name: str, turn: int, last: dict[str, int]
) -> str | None:
    """Returns the operation whose results another writes over, if any."""
    row = rows[name]
    if row.kind != "elementwise" or not row.result_bytes:
        return None
    alike = [each for each in _held_for(row) if each in rows and _is_alike(rows[each], row)]
    return next((each for each in alike if last[each] == turn), None)


def _held_for(row: Operation) -> list[str]:
    """Returns the operations whose results are held until another has run: not for a detail."""
    return [name for name in row.producers if name not in (row.name, *row.small_reads)]


def _is_alike(one: Operation, other: Operation) -> bool:
    """Says whether results have the same size, but for details of the one."""
    return one.result_bytes - one.result_bytes // 16 < other.result_bytes <= one.result_bytes


def schedule(operations: Sequence[Operation]) -> list[str]:
    """Returns the names of operations in the order in which an executor with one thread runs them.

    What a loop carries from one iteration to the next, round in a circle, makes nothing wait.
    """
    places = {row.name: place for place, row in enumerate(operations)}
    # The update waits for all operations outside it whose results it reads.
    read = {name for row in operations if row.phase == "update" for name in row.producers}
    gradients = {row.name for row in operations if row.name in read and row.phase != "update"}
    readers: dict[str, list[str]] = defaultdict(list)
    waiting: Counter[str] = Counter()
    for row in operations:
        for name in {*row.producers, *(gradients if row.phase == "update" else ())}:
            if places.get(name, len(places)) < places[row.name]:
                readers[name].append(row.name)
                waiting[row.name] += 1
    ready = [name for name in reversed(places) if not waiting[name]]
    order = []
    while ready:
        order.append(name := ready.pop())
        for reader in readers[name]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return order
