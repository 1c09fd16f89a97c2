"""Rows of a description from what a format says of its operations: values and work."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from fathom.errors import FathomError
from fathom.hardware.description import bounds as loops
from fathom.results.description import PRODUCTS, Description, Kind, Operation

_NO_NUMBERS = ("string", "token", "resource", "variant")


@dataclass(frozen=True)
class Value:
    """A tensor."""

    shape: tuple[int, ...]  # sizes
    dtype: str  # type of its elements, by NumPy's name
    weight: bool = False  # a constant of the network, or a view of one
    producers: tuple[str, ...] = ()  # names of the operations that computed it

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements, of which those of less than 8 bits are packed."""
        return -(-self.elements * _bits(self.dtype) // 8)


@dataclass(frozen=True)
class Work:
    """What an operation, or a part of one, does each time."""

    kind: Kind  # of computation
    bounds: loops.Bounds  # the loop bounds; see ``Operation.bounds``
    flops: int = 0  # other than multiply-accumulates
    part: str = ""  # put after the operation's name, if it has several parts
    reads: Sequence[str] | None = None  # parts; None: the one before
    repeats: int = 1  # executions for each of the operation's
    keeps: int = 0  # bytes that results of all iterations fill at most, if they are kept
    reads_part: bool = False  # of its first input it reads as much as it writes
    inputs: Sequence[Value] | None = None  # of a part; None: the operation's
    outputs: Sequence[Value] | None = None  # of a part; None: the operation's


@dataclass(frozen=True)
class Place:
    """Name, type and layer of an operation, and how often the enclosing loops run."""

    name: str
    type: str
    layer: str
    repeats: int = 1


@dataclass
class Rows:
    """The rows so far, and the types of operations that no rule covers."""

    rows: list[Operation] = field(default_factory=list)
    without_rule: dict[str, None] = field(default_factory=dict)
    factors: dict[str, str] = field(default_factory=dict)  # their types, by the product's name

    def add(
        self, place: Place, works: Iterable[Work], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> tuple[str, ...]:
        """Adds an operation, a row for each part; returns the names that made its results."""
        parts: list[str] = []
        for work in works:
            if work.kind == "matrix product" and place.repeats > 1:  # in a loop
                work = replace(work, kind="recurrent product")
            empty = work.kind in PRODUCTS and not loops.macs(work.bounds, work.kind)
            if empty or not work.repeats:
                continue
            read = inputs if work.inputs is None else work.inputs
            before = parts[-1:]
            if work.reads is not None:
                before = [place.name + part for part in work.reads]
            written = outputs if work.outputs is None else work.outputs
            row = _row(place, work, read, written, before)
            self.rows.append(row)
            if work.kind in PRODUCTS:
                self.factors[row.name] = read[0].dtype
            parts.append(row.name)
        return tuple(parts[-1:])

    def end_loop(
        self, first: int, names: Sequence[str], results: Sequence[Value], times: int
    ) -> list[Value]:
        """Adds the edges from each iteration of a loop to the next, and keeps what it stacks.

        Args:
            first: place of the body's first row.
            names: what stands for the producers of each value that the loop carries.
            results: of the body, those values first, then what it stacks.
            times: iterations.

        Returns:
            the results, with the operations that computed them.
        """
        computed = (value.producers if times > 1 else () for value in results)
        carried = dict(zip(names, computed, strict=False))
        ends = [replace(each, producers=_computing(each.producers, carried)) for each in results]
        stacked = {name for each in ends[len(names) :] for name in each.producers}
        for place, row in enumerate(self.rows[first:], first):
            kept = (times if row.name in stacked else 1) * row.result_bytes
            update = {"producers": _computing(row.producers, carried), "result_bytes": kept}
            self.rows[place] = row.model_copy(update=update)
        return ends


def elementwise(inputs: Sequence[Value], outputs: Sequence[Value]) -> Work:
    """Returns the work of an operation for each element of the largest tensor."""
    count = max((value.elements for value in (*inputs, *outputs)), default=0)
    return Work("elementwise", {"elements": count}, count)


def reduction(inputs: Sequence[Value]) -> Work:
    """Returns the work of an operation for each element of the largest input."""
    count = max((value.elements for value in inputs), default=0)
    return Work("reduction", {"elements": count}, count)


def movement(inputs: Sequence[Value], outputs: Sequence[Value], reads_part: bool = False) -> Work:
    """Returns the work of moving data, without arithmetic."""
    count = max((value.elements for value in (*inputs, *outputs)), default=0)
    return Work("data movement", {"elements": count}, reads_part=reads_part)


def gather(inputs: Sequence[Value], outputs: Sequence[Value]) -> Work:
    """Returns the work of reading rows, [indices, width], of a weight or of other data."""
    table, indices, *_ = inputs
    if not table.weight:
        return movement(inputs, outputs, reads_part=True)
    count = indices.elements
    width = sum(value.elements for value in outputs) // max(1, count)
    return Work("look-up", {"indices": count, "width": width}, reads_part=True)


def finished(
    name: str, rows: Rows, inputs: Mapping[str, Value], parameters: int, held_bytes: int
) -> Description:
    """Returns the description of a network's inference.

    The first axis of the first input that has one is the batch. Inputs without elements are left
    out.

    Raises:
        FathomError: its numbers are larger than a description holds, or there are none.
    """
    shapes = {title: value.shape for title, value in inputs.items() if value.elements}
    first = next(filter(None, shapes.values()), (1,))
    try:
        return Description(
            workload=name,
            mode="infer",
            batch_size=first[0],
            precision=_precision(rows),
            inputs=shapes,
            parameters=parameters,
            held_bytes=held_bytes + sum(value.bytes for value in inputs.values()),
            operations=tuple(rows.rows),
            without_rule=tuple(sorted(rows.without_rule)),
        )
    except ValidationError as error:
        first_error = error.errors()[0]
        where = ".".join(str(each) for each in first_error["loc"])
        text = f"{where} {first_error['msg'].removeprefix('Value error, ')}".strip()
        raise FathomError(f"cannot describe {name}: {text}") from error


def _computing(names: Iterable[str], carried: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Returns the operations behind some names, of which a loop carries some."""
    found: dict[str, None] = {}
    left = list(names)
    while left:
        name = left.pop(0)
        if name not in found:
            found[name] = None
            left += carried.get(name, ())
    return tuple(name for name in found if name not in carried)


def _row(
    place: Place,
    work: Work,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    before: Sequence[str],
) -> Operation:
    read = sum(value.bytes for value in inputs if not value.weight)
    weights = sum(value.bytes for value in inputs if value.weight)
    written = sum(value.bytes for value in outputs)
    whole = read + weights + written
    if work.reads_part and inputs:
        unread = max(0, inputs[0].bytes - written)
        read, weights = (read, weights - unread) if inputs[0].weight else (read - unread, weights)
    repeats = place.repeats * work.repeats
    producers = dict.fromkeys(name for value in inputs for name in value.producers)
    kept = written * (1 if work.kind == "recurrent product" else work.repeats)
    counted = work.kind in PRODUCTS
    return Operation(
        name=place.name + work.part,
        type=place.type,
        layer=place.layer,
        phase="forward",
        kind=work.kind,
        dtype=outputs[0].dtype if outputs else "float32",
        bounds=work.bounds,
        repeats=repeats,
        macs=repeats * loops.macs(work.bounds, work.kind),
        flops=0 if counted else repeats * work.flops,
        input_bytes=repeats * read,
        weight_bytes=repeats * weights,
        output_bytes=repeats * written,
        producers=tuple(producers | dict.fromkeys(before)),
        result_bytes=max(kept, min(work.keeps, repeats * written)),
        footprint_bytes=whole,
    )


def _precision(rows: Rows) -> str:
    """Returns the type of most multiply-accumulates' factors; their sums may be wider."""
    sums: Counter[str] = Counter()
    for row in rows.rows:
        found = re.match(r"b?float\d+", rows.factors.get(row.name, row.dtype))
        sums[found[0] if found else "float32"] += row.macs
    return max(sums, key=lambda name: sums[name], default="float32")


def _bits(dtype: str) -> int:
    if dtype in _NO_NUMBERS:
        return 0
    found = re.search(r"[a-z](\d+)", dtype)
    return int(found[1]) if found else 8
