"""Operations as products of matrices and as single examples: what several formats share."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from fathom.errors import FathomError
from fathom.results.description import Description, Kind, Operation

TAKEN: tuple[Kind, ...] = ("convolution", "matrix product", "recurrent product")
"""The kinds that simulators of accelerators take."""


@dataclass(frozen=True)
class Product:
    """A product of matrices, [m, k] x [k, n]."""

    m: int  # sizes
    n: int  # sizes
    k: int  # sizes
    times: int  # how often it is computed in the step; a convolution's groups and a batch included


def taken(description: Description) -> list[Operation]:
    """Returns the operations of the kinds in ``TAKEN``.

    Raises:
        FathomError: there are none.
    """
    rows = [row for row in description.operations if row.kind in TAKEN]
    if not rows:
        raise FathomError(f"{description.workload} has no convolution and no product")
    return rows


def left_out(description: Description) -> tuple[str, ...]:
    """Returns a line for each kind of operation that is not in ``TAKEN``, with their number."""
    counts = Counter(row.kind for row in description.operations if row.kind not in TAKEN)
    return tuple(f"operations of kind {kind}: {count:,}" for kind, count in counts.items())


def repetitions(rows: Sequence[tuple[str, Operation, int]], first: str = "layer") -> str:
    """Returns a table of how often each operation is computed, by the name of its file or layer."""
    columns = [first, "operation", "phase", "times"]
    listed = [(name, op.name, op.phase, times) for name, op, times in rows]
    return pd.DataFrame(listed, columns=columns).to_csv(index=False, lineterminator="\n")


def is_layer(op: Operation) -> bool:
    """Says whether an operation is a forward convolution, which others are layers too."""
    return op.kind == "convolution" and op.phase == "forward"


def as_product(op: Operation) -> Product:
    """Returns an operation of ``taken`` as a product; a convolution as by im2col.

    The gradients of a convolution are products too: of the weights [M, N P Q] x [N P Q, R S C], of
    the input [N P Q, M] x [M, R S C].
    """
    size = op.bounds
    if op.kind != "convolution":
        return Product(size["M"], size["N"], size["K"], size["batch"] * op.repeats)
    pixels = size["N"] * size["P"] * size["Q"]
    window = size["R"] * size["S"] * size["C"] // size["groups"]
    filters = size["M"] // size["groups"]
    sizes = {
        "weight gradient": (filters, window, pixels),
        "input gradient": (pixels, window, filters),
    }.get(op.phase, (pixels, filters, window))
    return Product(*sizes, size["groups"] * op.repeats)


def padded(op: Operation) -> tuple[int, int]:
    """Returns the height and width of a convolution's input that its outputs need."""
    size = op.bounds
    height = (size["P"] - 1) * size["stride_h"] + (size["R"] - 1) * size["dilation_h"] + 1
    width = (size["Q"] - 1) * size["stride_w"] + (size["S"] - 1) * size["dilation_w"] + 1
    return height, width
