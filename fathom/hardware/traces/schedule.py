"""The order in which a step touches its tensors: a stated schedule, a cache line at a time.

Operations run in the graph's order, loops as often as they iterate. Within one:

- A product of [M, K] and [K, N] is computed in tiles of 64 x 64 x 64 elements: for each tile of the
  result, from left to right and down, the tiles of both operands along K, then the result's.
- A convolution runs image by image and row by row of its result: the rows of the image under the
  kernel, the kernel, the row of the result. Its gradients swap what is read and written; that of
  the kernel adds to it in memory at each row.
- A look-up takes its indices in turn: the index, the row, the row of the result. A sparse product
  takes its non-zeros in turn: place, value, row of the dense matrix, row of the result.
- All others stream: inputs and outputs advance together, from their first byte to their last.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.hardware.traces.block import LINE, LOAD, MODIFY, STORE, Block
from fathom.hardware.traces.tensors import Access, Use

_TILE = 64  # elements
_CHUNK = 1 << 15  # lines of a block, about

Numbered = tuple[int, Access]
Address = Callable[[Use], int]


class _Rows(NamedTuple):
    """Stretches of bytes, of which each step of an operation touches one: int [n], and how."""

    begin: np.ndarray
    bytes: int
    kind: int


def layers_of(accesses: Sequence[Access]) -> list[str]:
    """Returns the layers of a step by their numbers."""
    return list(dict.fromkeys(access.row.layer for access in accesses))


def blocks(accesses: Sequence[Access], addresses: Mapping[int, int]) -> Iterator[Block]:
    """Yields the accesses of a step, cache lines by their addresses.

    Args:
        accesses: of the step.
        addresses: of its storages, by ``id``.
    """
    numbered = list(enumerate(accesses))
    layers = layers_of(accesses)
    for number, access, turn in _in_order(numbered, 0, {}):

        def address(use: Use, access: Access = access, turn: Mapping[str, int] = turn) -> int:
            return addresses[id(use.storage)] + _part(use, access, turn)

        for lines, kind in _lines(access, address):
            place = np.full(len(lines), number, np.uint64)
            layer = np.full(len(lines), layers.index(access.row.layer), np.uint16)
            yield Block(lines.astype(np.uint64) * LINE, kind, place, layer)


def _in_order(
    group: Iterable[Numbered], depth: int, turn: Mapping[str, int]
) -> Iterator[tuple[int, Access, Mapping[str, int]]]:
    """Yields operations as they run, with the iteration of each loop that they are in."""
    for loop, members in itertools.groupby(
        group, lambda pair: pair[1].loops[depth] if len(pair[1].loops) > depth else None
    ):
        if loop is None:
            yield from ((number, access, turn) for number, access in members)
            continue
        body = list(members)
        for iteration in range(loop[1]):
            yield from _in_order(body, depth + 1, {**turn, loop[0]: iteration})


def _part(use: Use, access: Access, turn: Mapping[str, int]) -> int:
    """Returns where in a list of results an iteration's lies: in reverse in a loop of gradients."""
    storage, offset = use.storage, 0
    for depth, (name, count) in enumerate(storage.loops):
        iteration = turn.get(name)
        if iteration is None and depth < len(access.loops) and access.loops[depth][1] == count:
            iteration = count - 1 - turn[access.loops[depth][0]]
        offset = offset * count + (iteration or 0)
    return offset * storage.bytes


def _lines(access: Access, address: Address) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the lines of an operation and how each is accessed."""
    row, reads, writes = access.row, access.reads, access.writes
    if row.kind in ("matrix product", "recurrent product") and _is_plain(access):
        yield from _product(access, address)
    elif row.kind == "convolution" and access.attributes["data_format"] == b"NHWC":
        yield from _convolution(access, address)
    elif row.kind == "look-up":
        yield from _look_up(access, address)
    elif row.type == "SparseTensorDenseMatMul" and access.indices is not None:
        yield from _sparse(access, address)
    else:
        ranges = [(address(use), use.bytes, LOAD) for use in reads]
        yield from _stream([*ranges, *((address(use), use.bytes, STORE) for use in writes)])


def _stream(ranges: list[tuple[int, int, int]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields ranges of (address, bytes, kind) side by side, each by the same share at a time."""
    spans = [(begin // LINE, -(-(begin + size) // LINE), kind) for begin, size, kind in ranges]
    parts = max(1, sum(end - begin for begin, end, _ in spans) // _CHUNK)
    for part in range(parts):
        lines, kinds, turns = [], [], []
        for begin, end, kind in spans:
            count = end - begin
            taken = np.arange(count * part // parts, count * (part + 1) // parts)
            lines.append(begin + taken)
            kinds.append(np.full(len(taken), kind, np.uint8))
            turns.append((taken + 0.5) / count)
        if lines:
            order = np.argsort(np.concatenate(turns), kind="stable")
            yield np.concatenate(lines)[order], np.concatenate(kinds)[order]


def _turns(*given: _Rows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the lines of rows in turn: the first of each, the second of each, and so on."""
    count = max(1, sum(rows.bytes // LINE + 2 for rows in given))
    step = max(1, _CHUNK // count)
    for start in range(0, len(given[0].begin), step):
        lines, legal, kinds = [], [], []
        for rows in given:
            begin = rows.begin[start : start + step]
            first, last = begin // LINE, (begin + max(rows.bytes, 1) - 1) // LINE
            grid = first[:, None] + np.arange(int((last - first).max()) + 1)
            lines.append(grid)
            legal.append(grid <= last[:, None])
            kinds.append(np.full(grid.shape, rows.kind, np.uint8))
        mask = np.concatenate(legal, axis=1)
        yield np.concatenate(lines, axis=1)[mask], np.concatenate(kinds, axis=1)[mask]


def _is_plain(access: Access) -> bool:
    """Says whether a product's three tensors are matrices, or as many matrices each."""
    size, uses = access.row.bounds, [*access.reads, *access.writes]
    if len(access.reads) != 2 or len(access.writes) != 1:
        return False
    values = [use.bytes // use.item for use in uses]
    left, right, result = (size["M"] * size["K"], size["K"] * size["N"], size["M"] * size["N"])
    return values == [size["batch"] * each for each in (left, right, result)]


def _product(access: Access, address: Address) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    size, given = access.row.bounds, access.attributes
    left, right, result = (*access.reads, *access.writes)
    swapped = (
        given.get("transpose_a", given.get("adj_x", False)),
        given.get("transpose_b", given.get("adj_y", False)),
    )
    base = [address(use) for use in (left, right, result)]
    rows, columns, depth = size["M"], size["N"], size["K"]
    for batch in range(size["batch"]):
        a = (base[0] + batch * rows * depth * left.item, rows, depth, left.item, swapped[0])
        b = (base[1] + batch * depth * columns * right.item, depth, columns, right.item, swapped[1])
        c = (base[2] + batch * rows * columns * result.item, rows, columns, result.item, False)
        for m, n in itertools.product(range(0, rows, _TILE), range(0, columns, _TILE)):
            for k in range(0, depth, _TILE):
                yield _tile(a, m, k, LOAD)
                yield _tile(b, k, n, LOAD)
            yield _tile(c, m, n, STORE)


def _tile(
    matrix: tuple[int, int, int, int, object], row: int, column: int, kind: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lines of a tile of a matrix: address, rows, columns, bytes, is transposed."""
    begin, rows, columns, item, transposed = matrix
    if transposed:
        rows, columns, row, column = columns, rows, column, row
    width = min(_TILE, columns - column) * item
    starts = begin + (np.arange(row, min(row + _TILE, rows)) * columns + column) * item
    lines = np.concatenate([each for each, _ in _turns(_Rows(starts, width, kind))])
    lines = lines[np.diff(lines, prepend=-1) != 0]  # short rows share a line
    return lines, np.full(len(lines), kind, np.uint8)


def _convolution(access: Access, address: Address) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    size = access.row.bounds
    big = [use for use in access.reads if len(use.shape or ()) == 4]  # without sizes and biases
    if access.row.type.endswith("Filter"):
        image, kernel, result = big[0], access.writes[0], big[-1]
    elif access.row.type.endswith("Input"):
        image, kernel, result = access.writes[0], big[0], big[-1]
    else:
        image, kernel, result = big[0], big[1], access.writes[0]
    written = access.writes[0]
    assert image.shape is not None
    height = image.shape[1]
    wide, narrow = image.bytes // (size["N"] * height), result.bytes // (size["N"] * size["P"])
    reach = (size["R"] - 1) * size["dilation_h"] + 1
    stride, above = size["stride_h"], size.get("pad_top", 0)
    to_image = written is image
    for n, p in itertools.product(range(size["N"]), range(size["P"])):
        low = p * stride - above
        high = min(height, low + (stride if to_image else reach))
        if to_image and p == size["P"] - 1:
            high = height
        low = 0 if to_image and p == 0 else max(0, low)
        rows = (address(image) + (n * height + low) * wide, max(0, high - low) * wide)
        line = (address(result) + (n * size["P"] + p) * narrow, narrow)
        whole = (address(kernel), kernel.bytes)
        for use, (begin, count) in ((image, rows), (kernel, whole), (result, line)):
            kind = LOAD if use is not written else MODIFY if use is kernel else STORE
            if count:
                yield from _stream([(begin, count, kind)])


def _look_up(access: Access, address: Address) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    size = access.row.bounds
    count, width = size["indices"], size["width"]  # at most; a batch may have fewer
    tables = [use for use in access.reads if use.shape is None] or access.reads[:1]
    others = [use for use in access.reads if use not in tables and use.bytes >= 4 * count]
    row = width * 4 if not access.writes else width * access.writes[0].item
    if access.indices is not None:
        taken = access.indices.reshape(-1).astype(np.int64)
    else:  # not known: spread evenly
        taken = np.arange(count) * max(1, tables[0].bytes // row) // max(1, count)
    changes = any(use.storage is tables[0].storage for use in access.writes)
    turns = []
    turn = np.arange(len(taken))
    for use in others:
        step = use.bytes // max(1, count)
        turns.append(_Rows(address(use) + turn * step, step, LOAD))
    kind = MODIFY if changes else LOAD
    turns += [_Rows(address(table) + taken * row, row, kind) for table in tables]
    if not changes:
        turns += [_Rows(address(use) + turn * row, row, STORE) for use in access.writes]
    if len(taken):
        yield from _turns(*turns)


def _sparse(access: Access, address: Address) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    assert access.indices is not None
    places, values, *_, dense = access.reads
    (result,) = access.writes
    assert result.shape is not None
    assert dense.shape is not None
    if not len(access.indices):
        return
    to, of = access.indices.T[::-1] if access.attributes.get("adjoint_a") else access.indices.T
    row, steps = result.bytes // result.shape[0], np.arange(len(to))
    width = dense.bytes // dense.shape[0]
    yield from _turns(
        _Rows(address(places) + 16 * steps, 16, LOAD),
        _Rows(address(values) + values.item * steps, values.item, LOAD),
        _Rows(address(dense) + width * of, width, LOAD),
        _Rows(address(result) + row * to, row, MODIFY),
    )
