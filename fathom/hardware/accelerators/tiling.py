"""Design-space exploration of tiled convolutions (Zhang et al., FPGA 2015; Drumond et al., V).

A convolution with N input and M output maps of R x C values and K x K kernels is computed tile by
tile: an array of Tm x Tn elements takes Tn input maps to Tm output maps, pixel by pixel, for tiles
of Tr x Tc pixels that are double-buffered on the chip.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fathom.errors import FathomError
from fathom.hardware.accelerators.machine import Array, Machine
from fathom.results.description import Description, Operation

_MOST_DESIGNS = 10**7  # of a layer: about a gigabyte
_EXACT = 2.0**53  # below which a float is each integer


@dataclass(frozen=True)
class Convolution:
    """A convolution layer, or a product as a convolution with 1 x 1 kernels over its rows.

    Attributes:
        name: of the layer.
        inputs, outputs: maps N and M, of one group.
        rows, columns: R and C of an output map.
        kernel_rows, kernel_columns: K.
        stride: S, of rows.
        times: how often it is computed: examples, groups and iterations.
        stride_columns: S of columns; None: that of rows.
        dilation_rows, dilation_columns: distance of a kernel's values.
    """

    name: str
    inputs: int
    outputs: int
    rows: int
    columns: int
    kernel_rows: int = 1
    kernel_columns: int = 1
    stride: int = 1
    times: int = 1
    stride_columns: int | None = None
    dilation_rows: int = 1
    dilation_columns: int = 1

    @property
    def shape(self) -> "Convolution":
        """The same convolution without its name, once."""
        return dataclasses.replace(self, name="", times=1)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, of one time."""
        pixels = self.rows * self.columns * self.kernel_rows * self.kernel_columns
        return self.inputs * self.outputs * pixels


def convolutions(description: Description) -> tuple[list[Convolution], list[Operation]]:
    """Returns the forward convolutions and products of a step, and the operations left out.

    Left out is what has MACs and is no forward convolution or product: gradients, sparse products.
    Examples are computed one after the other.
    """
    taken, left = [], []
    for row in description.operations:
        if row.phase == "forward" and row.kind in _SHAPES:
            taken.append(_SHAPES[row.kind](row))
        elif row.macs:
            left.append(row)
    return taken, left


def _of_convolution(row: Operation) -> Convolution:
    size = row.bounds
    groups = size["groups"]
    return Convolution(
        row.layer,
        size["C"] // groups,
        size["M"] // groups,
        *(size["P"], size["Q"], size["R"], size["S"], size["stride_h"]),
        times=size["N"] * groups * row.repeats,
        stride_columns=size["stride_w"],
        dilation_rows=size["dilation_h"],
        dilation_columns=size["dilation_w"],
    )


def _of_product(row: Operation) -> Convolution:
    size = row.bounds
    times = size["batch"] * row.repeats
    return Convolution(row.layer, size["K"], size["N"], size["M"], 1, times=times)


_SHAPES = {
    "convolution": _of_convolution,
    "matrix product": _of_product,
    "recurrent product": _of_product,
}


def designs(layer: Convolution, machine: Machine, pairs: np.ndarray | None = None) -> pd.DataFrame:
    """Returns all designs of a convolution that the machine can hold.

    Of the Tr (or Tm, and so on) that give equally many tiles, only the smallest is of use.

    Args:
        layer: the convolution.
        machine: with ``array`` and ``on_chip_bytes``.
        pairs: the (Tm, Tn) to consider, int [pairs, 2]; None: ``unrollings`` of the layer.

    Returns:
        columns tm, tn, tr, tc, cycles, on_chip_bytes, traffic_bytes, intensity (FLOPs per byte),
        roof (FLOP/s of the array alone) and seconds, the attainable time: computing and moving data
        overlap, and the longer one counts. All of one execution.

    Raises:
        FathomError: the machine describes no array, or not one design fits, or too many are legal.
    """
    array, memory = _limits(machine)
    if pairs is None:
        pairs = unrollings([layer], array)
    limits = np.array([layer.outputs, layer.inputs])
    sizes = (_tile_sizes(layer.rows), _tile_sizes(layer.columns))
    _check_number(len(pairs) * len(sizes[0]) * len(sizes[1]), layer.name)
    index, tr, tc = (each.ravel() for each in np.meshgrid(np.arange(len(pairs)), *sizes))
    tm, tn = np.minimum(pairs, limits)[index].T.astype(float)  # integers might overflow
    words, traffic = _words(layer, tm, tn, tr, tc)
    frame = pd.DataFrame({"pair": index, "tm": tm, "tn": tn, "tr": tr, "tc": tc})
    frame["cycles"] = cycles(layer, tm, tn, array)
    frame["on_chip_bytes"] = words * array.word_bytes
    frame["traffic_bytes"] = traffic * array.word_bytes
    frame["intensity"] = 2 * layer.macs / frame.traffic_bytes
    frame["roof"] = 2 * layer.macs * array.clock_hz / frame.cycles
    moving = frame.traffic_bytes / machine.bandwidth
    frame["seconds"] = np.maximum(frame.cycles / array.clock_hz, moving)
    exact = frame[["cycles", "traffic_bytes"]].max(axis=1) < _EXACT
    legal = frame[exact & (frame.on_chip_bytes <= memory)]
    if legal.empty:
        raise FathomError(f"no tiling of {layer.name} fits into the memory of {machine.title}")
    return legal.reset_index(drop=True)


def cycles(layer: Convolution, tm: np.ndarray, tn: np.ndarray, array: Array) -> np.ndarray:
    """Returns the cycles of a convolution, once: ceil(M/Tm) ceil(N/Tn) (R C K^2 + P)."""
    pixels = layer.rows * layer.columns * layer.kernel_rows * layer.kernel_columns
    rounds = _ceil(layer.outputs, tm) * _ceil(layer.inputs, tn)
    return rounds * (pixels + array.pipeline_depth)


def unrollings(layers: Sequence[Convolution], array: Array) -> np.ndarray:
    """Returns the (Tm, Tn) of use that the array has elements for, int [pairs, 2].

    Of those that cut the maps of every layer into equally many tiles only the smallest is.
    """
    outputs = [_tile_sizes(layer.outputs) for layer in layers]
    inputs = [_tile_sizes(layer.inputs) for layer in layers]
    sizes = [np.unique(np.concatenate(each)) for each in (outputs, inputs)]
    _check_number(len(sizes[0]) * len(sizes[1]), layers[0].name)
    tm, tn = np.meshgrid(*sizes, indexing="ij")
    fits = tm * tn <= array.elements
    return np.stack([tm[fits], tn[fits]], axis=1)


def common_unrolling(layers: Sequence[Convolution], machine: Machine) -> tuple[int, int]:
    """Returns the (Tm, Tn) that is best for all layers together: in time, then in traffic."""
    array, _ = _limits(machine)
    pairs = unrollings(layers, array)
    total = pd.DataFrame({"seconds": 0.0, "traffic_bytes": 0.0}, index=range(len(pairs)))
    for shape, layer in _distinct(layers).items():
        best = _best_first(designs(layer, machine, pairs)).groupby("pair").first()
        times = sum(layer.times for layer in layers if layer.shape == shape)
        total += times * best[["seconds", "traffic_bytes"]]
    total = total.dropna()
    if total.empty:
        raise FathomError(f"no tiling of all layers fits into the memory of {machine.title}")
    tm, tn = pairs[_best_first(total).index[0]]
    return int(tm), int(tn)


def explore(layers: Sequence[Convolution], machine: Machine) -> pd.DataFrame:
    """Returns each layer's best design, and its best one under the best common unrolling.

    The best design has the highest attainable rate, then the least traffic.

    Returns:
        two rows per layer, with the columns of ``designs``, and layer, design (``own`` or
        ``common``) and times.

    Raises:
        FathomError: the machine describes no array, or a layer has no legal tiling.
    """
    if not layers:
        raise FathomError("there is no convolution and no product to tile")
    chosen = np.array([common_unrolling(layers, machine)])
    best = {
        (shape, design): _best_first(designs(layer, machine, pairs)).iloc[0].drop("pair")
        for shape, layer in _distinct(layers).items()
        for design, pairs in (("own", None), ("common", chosen))
    }
    rows = [
        {"layer": layer.name, "design": name, "times": layer.times, **best[layer.shape, name]}
        for layer in layers
        for name in ("own", "common")
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(_WHOLE, int))


_WHOLE = ("tm", "tn", "tr", "tc", "cycles", "on_chip_bytes", "traffic_bytes")


def _distinct(layers: Sequence[Convolution]) -> dict[Convolution, Convolution]:
    """Returns the first layer of each shape; layers of one shape have the same designs."""
    return {layer.shape: layer for layer in reversed(layers)}


def _best_first(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["seconds", "traffic_bytes"], kind="stable")


def _limits(machine: Machine) -> tuple[Array, float]:
    machine.require("array", "on_chip_bytes")
    assert machine.array is not None
    assert machine.on_chip_bytes is not None
    return machine.array, machine.on_chip_bytes


def _tile_sizes(length: int) -> np.ndarray:
    """Returns the smallest tile for each number of tiles that a length can be cut into."""
    root = math.isqrt(length)
    _check_number(root, f"a length of {length:,}")
    few = np.arange(1, root + 2)
    return np.unique(np.concatenate([_ceil(length, few), few[:-1]]))


def _check_number(designs: int, what: str) -> None:
    if designs > _MOST_DESIGNS:
        raise FathomError(f"{what} has more than {_MOST_DESIGNS:,} tilings: describe less")


def _ceil(total: int, parts: np.ndarray) -> np.ndarray:
    return -(-total // parts)


def _words(
    layer: Convolution, tm: np.ndarray, tn: np.ndarray, tr: np.ndarray, tc: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the words on chip, double-buffered, and those moved to and from the memory.

    Outputs stay on the chip until all inputs were added to them.
    """
    across = layer.stride_columns or layer.stride
    height = layer.stride * (tr - 1) + (layer.kernel_rows - 1) * layer.dilation_rows + 1
    width = across * (tc - 1) + (layer.kernel_columns - 1) * layer.dilation_columns + 1
    inputs = tn * height * width
    weights = tm * tn * layer.kernel_rows * layer.kernel_columns
    outputs = tm * tr * tc
    written = _ceil(layer.outputs, tm) * _ceil(layer.rows, tr) * _ceil(layer.columns, tc)
    read = written * _ceil(layer.inputs, tn)
    return 2 * (inputs + weights + outputs), read * (inputs + weights) + written * outputs
