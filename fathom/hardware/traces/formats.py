"""Traces in the formats of simulators, compressed as they are written."""

import gzip
import lzma
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fathom.hardware.traces.block import LOAD, STORE, Block

_INSTRUCTION = np.dtype(  # input_instr of ChampSim's inc/trace_instruction.h
    [
        ("ip", "<u8"),
        ("is_branch", "u1"),
        ("branch_taken", "u1"),
        ("destination_registers", "u1", 2),
        ("source_registers", "u1", 4),
        ("destination_memory", "<u8", 2),
        ("source_memory", "<u8", 4),
    ]
)
_CODE = 1 << 22  # where instructions begin that have only the number of an operation


@dataclass(frozen=True)
class TraceFormat:
    """A format of traces.

    Attributes:
        suffix: of files.
        create: opens a file of that name for writing.
        write: returns the bytes of a block, given the number of accesses before it.
    """

    suffix: str
    create: Callable[[Path], gzip.GzipFile | lzma.LZMAFile]
    write: Callable[[Block, int], bytes]


def _ramulator2(block: Block, _: int) -> bytes:
    """Returns lines of a LoadStoreTrace: ``LD 0x1000`` or ``ST 0x1000``."""
    rows = _loads_and_stores(block)
    return "".join(f"{'ST' if kind else 'LD'} {address:#x}\n" for address, kind in rows).encode()


def _dramsim3(block: Block, before: int) -> bytes:
    """Returns lines such as ``0x1000 READ 17``: offered at a cycle, one access in each."""
    return "".join(
        f"{address:#x} {'WRITE' if kind else 'READ'} {cycle}\n"
        for cycle, (address, kind) in enumerate(_loads_and_stores(block), before)
    ).encode()


def _champsim(block: Block, _: int) -> bytes:
    """Returns records of 64 bytes: an instruction that loads or stores, or both, for each access.

    Registers are not known: a load changes register 1, a store reads none, so that none waits.
    """
    found = np.zeros(len(block.address), _INSTRUCTION)
    numbered = block.place < _CODE
    found["ip"] = np.where(numbered, _CODE + 64 * block.place, block.place)
    loads, stores = block.kind != STORE, block.kind != LOAD
    found["source_memory"][:, 0] = np.where(loads, block.address, 0)
    found["destination_memory"][:, 0] = np.where(stores, block.address, 0)
    found["destination_registers"][:, 0] = loads & ~stores
    return found.tobytes()


def _loads_and_stores(block: Block) -> Iterator[tuple[int, int]]:
    """Yields address and whether it is a store; what modifies is a load and a store."""
    for address, kind in zip(block.address.tolist(), block.kind.tolist(), strict=True):
        if kind != STORE:
            yield address, LOAD
        if kind != LOAD:
            yield address, STORE


_GZIP = partial(gzip.GzipFile, mode="wb", compresslevel=1, mtime=0)  # the same bytes each time
_XZ = partial(lzma.LZMAFile, mode="wb", preset=0)

FORMATS = {
    "ramulator2": TraceFormat("txt.gz", _GZIP, _ramulator2),
    "dramsim3": TraceFormat("txt.gz", _GZIP, _dramsim3),
    "champsim": TraceFormat("xz", _XZ, _champsim),
}


def write(blocks: Iterable[Block], form: TraceFormat, path: Path) -> int:
    """Writes a trace; returns the number of its accesses, a modification being two."""
    count = 0
    with form.create(path) as file:
        for block in blocks:
            file.write(form.write(block, count))
            count += len(block.kind) + int((block.kind > STORE).sum())
    return count
