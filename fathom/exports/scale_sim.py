"""Topologies of SCALE-Sim 3: convolutions as its layers, all other products as its GEMMs.

SCALE-Sim computes one example and has neither groups nor repetitions: each group is a row, and
``repetitions.csv`` says how often a row is computed in the step. It pads nothing, so that height
and width of an input are what its outputs need. The gradients of a convolution are products, as in
im2col: of the weights [M, N P Q] x [N P Q, R S C], of the input [N P Q, M] x [M, R S C].
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fathom.errors import FathomError
from fathom.exports.format import Exported, Format, sorted_out
from fathom.results.description import Description, Operation

_CONVOLUTIONS = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
    "Strides,"
)
_PRODUCTS = "Layer, M, N, K,"


@dataclass(frozen=True)
class _Row:
    name: str
    sizes: tuple[int, ...]
    times: int


def _export(description: Description) -> Exported:
    convolutions = [row for op in description.operations for row in _as_convolutions(op)]
    products = [row for op in description.operations for row in _as_products(op)]
    if not convolutions and not products:
        raise FathomError(f"{description.workload} has no convolution and no product")
    files = {}
    for name, header, rows in (
        ("convolutions.csv", _CONVOLUTIONS, convolutions),
        ("products.csv", _PRODUCTS, products),
    ):
        if rows:
            lines = [", ".join([row.name, *map(str, row.sizes)]) + "," for row in rows]
            files[name] = "\n".join([header, *lines, ""])
    times = [f"{row.name},{row.times}" for row in (*convolutions, *products)]
    files["repetitions.csv"] = "\n".join(["layer,times", *times, ""])
    taken = ("convolution", "matrix product", "recurrent product")
    return Exported(files, sorted_out(description, *taken))


def _as_convolutions(op: Operation) -> Iterator[_Row]:
    """Yields a row for each group of a forward convolution."""
    size = op.bounds
    if op.kind != "convolution" or op.phase != "forward" or not _expressible(op):
        return
    for group in range(size["groups"]):
        stride = size["stride_h"]
        height = (size["P"] - 1) * stride + size["R"]
        width = (size["Q"] - 1) * stride + size["S"]
        channels, filters = size["C"] // size["groups"], size["M"] // size["groups"]
        sizes = (height, width, size["R"], size["S"], channels, filters, stride)
        yield _Row(_name(op, group), sizes, size["N"] * op.repeats)


def _as_products(op: Operation) -> Iterator[_Row]:
    """Yields a row for a product, and for each group of a gradient of a convolution."""
    size = op.bounds
    if op.kind in ("matrix product", "recurrent product"):
        yield _Row(_name(op, 0), (size["M"], size["N"], size["K"]), size["batch"] * op.repeats)
    elif op.kind == "convolution" and not (op.phase == "forward" and _expressible(op)):
        pixels = size["N"] * size["P"] * size["Q"]
        window = size["R"] * size["S"] * size["C"] // size["groups"]
        filters = size["M"] // size["groups"]
        sizes = {
            "weight gradient": (filters, window, pixels),
            "input gradient": (pixels, window, filters),
        }.get(op.phase, (pixels, filters, window))
        for group in range(size["groups"]):
            yield _Row(_name(op, group), sizes, op.repeats)


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
)
