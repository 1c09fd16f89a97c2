"""Topologies of SCALE-Sim 3: convolutions as its layers, all other products as its GEMMs.

SCALE-Sim computes one example and has neither groups nor repetitions: each group is a row, and
``repetitions.csv`` says how often a row is computed in the step. It pads nothing, so that height
and width of an input are what its outputs need. The gradients of a convolution are products. Where
the zeros of weights are known, a last column has them as N:M, N of M values that are not zero: the
fewest that hold the density, as zeros are not in such an order by themselves.
"""

import math
from dataclasses import dataclass

from fathom.exports.format import Exported, Format
from fathom.exports.products import as_product, is_layer, left_out, padded, taken
from fathom.results.description import Description, Operation

_CONVOLUTIONS = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
    "Strides,"
)
_PRODUCTS = "Layer, M, N, K,"
_BLOCK = 8  # values, M of N:M, as in SCALE-Sim's configurations


@dataclass(frozen=True)
class _Row:
    name: str
    sizes: tuple[int, ...]
    times: int
    density: float = 1.0  # of the weights

    @property
    def ratio(self) -> str:
        """Values that are not zero of those in a block."""
        kept = max(1, math.ceil(self.density * _BLOCK))
        return "1:1" if self.density == 1 else f"{kept}:{_BLOCK}"


def _export(description: Description) -> Exported:
    operations = taken(description)
    convolutions = [row for op in operations if _is_convolution(op) for row in _rows(op)]
    products = [row for op in operations if not _is_convolution(op) for row in _rows(op)]
    sparse = any(row.densities for row in description.operations)
    files = {}
    for name, header, rows in (
        ("convolutions.csv", _CONVOLUTIONS, convolutions),
        ("products.csv", _PRODUCTS, products),
    ):
        if rows:
            cells = [[row.name, *map(str, row.sizes), *[row.ratio] * sparse] for row in rows]
            lines = [", ".join(each) + "," for each in cells]
            files[name] = "\n".join([header + " Sparsity," * sparse, *lines, ""])
    times = [f"{row.name},{row.times}" for row in (*convolutions, *products)]
    files["repetitions.csv"] = "\n".join(["layer,times", *times, ""])
    return Exported(files, left_out(description))


def _rows(op: Operation) -> list[_Row]:
    """Returns a row for each group of a convolution or of its gradient; one for a product."""
    size, groups = op.bounds, op.bounds.get("groups", 1)
    sizes: tuple[int, ...]
    if _is_convolution(op):
        window, maps = (size["R"], size["S"]), (size["C"] // groups, size["M"] // groups)
        sizes, times = (*padded(op), *window, *maps, size["stride_h"]), size["N"] * op.repeats
    else:
        product = as_product(op)
        sizes, times = (product.m, product.n, product.k), product.times // groups
    density = op.densities.get("weights", 1.0)
    return [_Row(_name(op, group), sizes, times, density) for group in range(groups)]


def _is_convolution(op: Operation) -> bool:
    """Says whether it is a forward one with one stride and no dilation; others are products."""
    size = op.bounds
    even = is_layer(op) and size["stride_h"] == size["stride_w"]
    return even and size["dilation_h"] == size["dilation_w"] == 1


def _name(op: Operation, group: int) -> str:
    """Returns a unique name; SCALE-Sim takes DP in one for a depthwise convolution."""
    return f"{op.name}_{group}".replace(",", "_").replace("DP", "Dp")


FORMAT = Format(
    about="topology files of SCALE-Sim 3: convolutions, products, and how often each is computed",
    export=_export,
    has_densities=True,
)
