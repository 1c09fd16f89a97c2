"""Operations that a compiler, or a kernel written by hand, runs as one.

Operations of one layer and phase become one where no other product lies between them: what they
pass on to each other does not go through the memory. Which products may be among them tells the
kind of fusion: none (``elementwise``), as in XLA's kernels and Megatron-LM's, or those of
activations alone (``attention``), as in FlashAttention (Dao et al. 2022), whose scores are never
written. What that computes a second time for the gradients is not counted.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from fathom.results.description import PRODUCTS, Description, Operation

Fusion = Literal["elementwise", "attention"]
_Key = tuple[str, str, int]  # layer, phase, products before
_FUSED = ("elementwise", "reduction", "data movement")


def fused(description: Description, fusion: Fusion) -> Description:
    """Returns a step whose operations are fused: without edges, all of a layer and phase."""
    rows = {row.name: row.without_zeros() for row in description.operations}
    groups: dict[_Key, list[Operation]] = defaultdict(list)
    depths: dict[str, int] = {}  # products before an operation, on the longest way
    alone = []
    for row in rows.values():
        passed = [(name, rows[name]) for name in row.producers if name in depths]
        depths[row.name] = max((depths[n] + (not _fuses(r, fusion)) for n, r in passed), default=0)
        if _fuses(row, fusion) and row.repeats == 1:
            groups[row.layer, row.phase, depths[row.name]].append(row)
        else:
            alone.append(row)
    kernels = _Kernels(rows, groups)
    within = {row.name: group[-1].name for group in groups.values() for row in group}
    ordered = [(depths[row.name], True, row) for row in alone]
    ordered += [(key[-1], False, kernels.of(key)) for key in groups]
    ordered.sort(key=lambda each: each[:2])
    fused = []
    for *_, row in ordered:
        read = dict.fromkeys(within.get(name, name) for name in kernels.read(row))
        read.pop(row.name, None)
        fused.append(row.model_copy(update={"producers": tuple(read)}))
    return description.model_copy(update={"operations": tuple(fused)})


def _fuses(row: Operation, fusion: Fusion) -> bool:
    if row.phase == "update":
        return False
    of_activations = row.kind in PRODUCTS and row.kind != "convolution" and not row.weight_bytes
    heads = of_activations and row.bounds.get("batch", 1) > 1
    return row.kind in _FUSED or (fusion == "attention" and heads)


class _Kernels:
    """Groups of operations as one each."""

    def __init__(self, rows: dict[str, Operation], groups: Mapping[_Key, list[Operation]]) -> None:
        self._rows, self._groups = rows, groups
        self._key = {row.name: key for key, group in groups.items() for row in group}
        self._readers: dict[str, set[str]] = defaultdict(set)
        for row in rows.values():
            for name in row.producers:
                self._readers[name].add(row.name)
        self._again = {
            row.name
            for group in groups.values()
            for row in group
            if any(each.macs for each in group) and self._is_computed_again(row)
        }

    def of(self, key: _Key) -> Operation:
        """Returns one operation that moves what a group reads of others, and they of it."""
        group = self._groups[key]
        given = self._given(key)
        products = [row for row in group if row.macs]
        written = [row for row in group if self._is_written(row, key)]
        return group[-1].model_copy(
            update={
                "kind": products[0].kind if products else "elementwise",
                "bounds": products[0].bounds if products else {},
                "macs": sum(row.macs for row in group),
                "flops": sum(row.flops for row in group),
                "input_bytes": min(given, sum(row.input_bytes for row in group)),
                "weight_bytes": sum(row.weight_bytes for row in group),
                "output_bytes": sum(row.output_bytes for row in written),
                "result_bytes": sum(row.result_bytes for row in written),
            }
        )

    def read(self, row: Operation) -> list[str]:
        """Returns the operations that one or a group's last reads."""
        key = self._key.get(row.name)
        group = [row] if key is None else self._groups[key]
        return [name for each in group for name in each.producers if name in self._rows]

    def _given(self, key: _Key) -> int:
        """Returns the bytes that a group reads, or those from which it computes them again."""
        names = {name for row in self._groups[key] for name in row.producers}
        read = {name for name in names if name in self._rows and self._key.get(name) != key}
        again = read & self._again
        given = sum(self._rows[name].output_bytes for name in read - again)
        given += sum(self._given(other) for other in {self._key[name] for name in again})
        return given + sum(row.input_bytes for row in self._groups[key] if not row.producers)

    def _is_written(self, row: Operation, key: _Key) -> bool:
        readers = self._readers[row.name]
        outside = any(self._key.get(name) != key for name in readers)
        return (outside or not readers) and row.name not in self._again

    def _is_computed_again(self, row: Operation) -> bool:
        """Says whether the gradients alone need a result, besides its own kernel."""
        key = self._key[row.name]
        others = [self._rows[n] for n in self._readers[row.name] if self._key.get(n) != key]
        gradients = all(each.phase.endswith("gradient") for each in others)
        return row.phase == "forward" and bool(others) and gradients
