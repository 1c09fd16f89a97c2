"""Addresses of a step's tensors."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fathom.hardware.traces.block import LINE
from fathom.hardware.traces.tensors import Access, Storage

LAYOUTS = ("arena", "plain")
_FIRST = 1 << 28  # above what a simulator may take for no address


def place(accesses: Sequence[Access], layout: str) -> pd.DataFrame:
    """Returns the addresses of the tensors of a step.

    Variables, constants and inputs come first, each its own memory. With ``plain``, so have all
    results. With ``arena``, results share memory if one is read for the last time before the other
    is written: the largest is placed first, each at the lowest address that is free in its time.

    Returns:
        name, address, bytes, held, first and last (the numbers of the operations between which it
        is in use), and ``storage``, the tensor's.
    """
    found: dict[int, list[int]] = {}
    storages: dict[int, Storage] = {}
    for number, access in enumerate(accesses):
        for use in (*access.reads, *access.writes):
            storages[id(use.storage)] = use.storage
            found.setdefault(id(use.storage), []).append(number)
    spans = _loops(accesses)
    rows = []
    for key, storage in storages.items():
        uses = [place for number in found[key] for place in spans[number]]
        first, last = (0, len(accesses)) if storage.held else (min(uses), max(uses))
        rows.append((storage.name, 0, storage.whole, storage.held, first, last, storage))
    columns = ["name", "address", "bytes", "held", "first", "last", "storage"]
    table = pd.DataFrame(rows, columns=columns)
    sizes = -(-table.bytes.to_numpy() // LINE) * LINE
    table["address"] = _FIRST + np.cumsum(sizes) - sizes
    if layout == "arena" and len(table):
        held = table.held.to_numpy()
        order = np.argsort(~held, kind="stable")
        table["address"] = 0
        table.iloc[order, 1] = _FIRST + np.cumsum(sizes[order]) - sizes[order]
        begin = _FIRST + int(sizes[held].sum())
        table.loc[~held, "address"] = begin + _arena(table[~held], sizes[~held])
    return table


def _loops(accesses: Sequence[Access]) -> list[tuple[int, int]]:
    """Returns for each operation the first and last of the outermost loop that it is in."""
    names = [access.loops[0][0] if access.loops else None for access in accesses]
    ends: dict[str | None, tuple[int, int]] = {}
    for number, name in enumerate(names):
        ends[name] = (ends.get(name, (number, 0))[0], number)
    return [(n, n) if name is None else ends[name] for n, name in enumerate(names)]


def _arena(table: pd.DataFrame, sizes: np.ndarray) -> np.ndarray:
    """Returns offsets, int [tensors], such that none overlap in time and place."""
    first, last = table["first"].to_numpy(), table["last"].to_numpy()
    offsets = np.full(len(table), -1)
    for each in np.argsort(-sizes, kind="stable"):
        at_once = (offsets >= 0) & (first <= last[each]) & (last >= first[each])
        begin = 0
        for other in sorted(np.flatnonzero(at_once), key=lambda n: offsets[n]):
            if begin + sizes[each] <= offsets[other]:
                break
            begin = max(begin, offsets[other] + sizes[other])
        offsets[each] = begin
    return offsets
