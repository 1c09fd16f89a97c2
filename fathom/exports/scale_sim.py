"""Topologies of SCALE-Sim 3: convolutions as its layers, all other products as its GEMMs.

SCALE-Sim computes one example and has neither groups nor repetitions: each group is a row, and
``repetitions.csv`` says how often a row is computed in the step. It pads nothing, so that height
and width of an input are what its outputs need. The gradients of a convolution are products. Where
the zeros of weights are known, a last column has them as N:M, N of M values that are not zero: the
fewest that hold the density, as zeros are not in such an order by themselves.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fathom.exports.format import Exported, Format, sorted_out
from fathom.exports.products import TAKEN, as_product, is_layer, padded, taken
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
        return (
            "1:1" if self.density == 1 else f"{max(1, math.ceil(self.density * _BLOCK))}:{_BLOCK}"
        )


def _export(description: Description) -> Exported:
    operations = taken(description)
    convolutions = [row for op in operations for row in _as_convolutions(op)]
    products = [row for op in operations for row in _as_products(op)]
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
    return Exported(files, sorted_out(description, *TAKEN))


def _as_convolutions(op: Operation) -> Iterator[_Row]:
    """Yields a row for each group of a forward convolution."""
    size = op.bounds
    if not is_layer(op) or not _expressible(op):
        return
    height, width = padded(op)
    for group in range(size["groups"]):
        stride = size["stride_h"]
        channels, filters = size["C"] // size["groups"], size["M"] // size["groups"]
        sizes = (height, width, size["R"], size["S"], channels, filters, stride)
        yield _Row(_name(op, group), sizes, size["N"] * op.repeats, _density(op))


def _as_products(op: Operation) -> Iterator[_Row]:
    """Yields a row for a product, and for each group of a gradient of a convolution."""
    if is_layer(op) and _expressible(op):
        return
    product = as_product(op)
    groups = op.bounds.get("groups", 1)
    for group in range(groups):
        sizes = (product.m, product.n, product.k)
        yield _Row(_name(op, group), sizes, product.times // groups, _density(op))


def _density(op: Operation) -> float:
    return op.densities.get("weights", 1.0)


def _expressible(op: Operation) -> bool:
    """Says whether a convolution has one stride and no dilation; others are products."""
    size = op.bounds
    return size["stride_h"] == size["stride_w"] and size["dilation_h"] == size["dilation_w"] == 1


def _name(op: Operation, group: int) -> str:
    """Returns a unique name; SCALE-Sim takes DP in one for a depthwise convolution."""
    return f"{op.name}_{group}".replace(",", "_").replace("DP", "Dp")


FORMAT = Format(
    about="topology files of SCALE-Sim 3: convolutions, products, and how often each is computed",
    export=_export,
    has_densities=True,
)
