"""Operations that a compiler, or a kernel written by hand, runs as one.

Operations of one layer and phase become one where no other product lies between them: what they
pass on to each other does not go through the memory. Which products may be among them tells the
kind of fusion: none (``elementwise``), as in XLA's kernels and Megatron-LM's, or those of
activations alone (``attention``), as in FlashAttention (Dao et al. 2022), whose scores are never
written. What that computes a second time for the gradients is not counted.
"""

from collections import defaultdict
from typing import Literal, get_args

from fathom.results.description import PRODUCTS, Description, Operation

Fusion = Literal["elementwise", "attention"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
_FUSED = ("elementwise", "reduction", "data movement")


def fused(description: Description, fusion: Fusion) -> Description:
    """Returns a step whose operations are fused; one without edges stays as it is."""
    rows = {row.name: row for row in description.operations}
    groups: dict[tuple[str, str, int], list[Operation]] = defaultdict(list)
    depths: dict[str, int] = {}  # products before an operation, on the longest way
    alone = []
    for row in rows.values():
        passed = [(name, rows[name]) for name in row.producers if name in depths]
        depths[row.name] = max((depths[n] + (not _fuses(r, fusion)) for n, r in passed), default=0)
        if _fuses(row, fusion) and row.repeats == 1:
            groups[row.layer, row.phase, depths[row.name]].append(row)
        else:
            alone.append(row)
    readers: dict[str, set[str]] = defaultdict(set)
    for row in rows.values():
        for name in row.producers:
            readers[name].add(row.name)
    kernels = [_kernel(group, rows, readers) for group in groups.values()]
    return description.model_copy(update={"operations": (*alone, *kernels)})


def _fuses(row: Operation, fusion: Fusion) -> bool:
    if row.phase == "update":
        return False
    of_activations = row.kind in PRODUCTS and row.kind != "convolution" and not row.weight_bytes
    heads = of_activations and row.bounds.get("batch", 1) > 1
    return row.kind in _FUSED or (fusion == "attention" and heads)


def _kernel(
    group: list[Operation], rows: dict[str, Operation], readers: dict[str, set[str]]
) -> Operation:
    """Returns one operation that moves what the group reads of others, and what they read of it."""
    names = {row.name for row in group}
    read = {name for row in group for name in row.producers} - names
    given = sum(rows[name].output_bytes for name in read if name in rows)
    given += sum(row.input_bytes for row in group if not row.producers)
    written = [row for row in group if not readers[row.name] or readers[row.name] - names]
    last, products = group[-1], [row for row in group if row.macs]
    return last.model_copy(
        update={
            "kind": products[0].kind if products else "elementwise",
            "bounds": products[0].bounds if products else {},
            "macs": sum(row.macs for row in group),
            "flops": sum(row.flops for row in group),
            "input_bytes": min(given, sum(row.input_bytes for row in group)),
            "weight_bytes": sum(row.weight_bytes for row in group),
            "output_bytes": sum(row.output_bytes for row in written),
        }
    )
