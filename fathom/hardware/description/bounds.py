"""The loop bounds of convolutions and products, from shapes alone; see ``Operation.bounds``.

The bounds of a convolution are those of Eyeriss and Timeloop: N examples, M output and C input
channels, R x S kernels, P x Q outputs; a product has M x N results of K terms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.results.description import Kind

Bounds = dict[str, int]
Sizes = Sequence[int]


@dataclass(frozen=True)
class Window:
    """How the kernel of a convolution moves over an image, by spatial axis; empty: 1, and 0."""

    strides: Sizes = ()
    dilations: Sizes = ()
    paddings: Sequence[tuple[int, int]] = ()  # before and after
    groups: int = 1


def convolution(image: Sizes, kernel: Sizes, outputs: Sizes, window: Window) -> tuple[Kind, Bounds]:
    """Returns the kind and bounds of a convolution over one, two or more axes.

    Over one axis it has kernels and outputs of one row. Over more than two, or none, it is the
    product of matrices by im2col, as often as there are groups.

    Args:
        image: [examples, input channels, sizes...].
        kernel: [output channels, input channels of a group, sizes...].
        outputs: their sizes, without examples and channels.
        window: how the kernel moves.
    """
    axes, groups = len(outputs), window.groups
    if axes not in (1, 2):
        pixels, terms = image[0] * math.prod(outputs), math.prod(kernel[1:])
        sizes_of_product = {"M": pixels, "N": kernel[0] // groups, "K": terms}
        return "matrix product", {"batch": groups, **sizes_of_product}
    lead = 2 - axes
    sizes, results = [1] * lead + list(kernel[2:]), [1] * lead + list(outputs)
    strides = [1] * lead + list(window.strides or [1] * axes)
    dilations = [1] * lead + list(window.dilations or [1] * axes)
    paddings = [(0, 0)] * lead + list(window.paddings or [(0, 0)] * axes)
    bounds = {"N": image[0], "M": kernel[0], "C": image[1], "R": sizes[0], "S": sizes[1]}
    bounds |= {"P": results[0], "Q": results[1], "stride_h": strides[0], "stride_w": strides[1]}
    sides = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    zeros = (*paddings[0], *paddings[1])
    bounds |= {name: max(0, size) for name, size in zip(sides, zeros, strict=True)}
    bounds |= {"dilation_h": dilations[0], "dilation_w": dilations[1]}
    return "convolution", bounds | {"groups": groups}


def same_paddings(
    image: Sizes, kernel: Sizes, outputs: Sizes, strides: Sizes, dilations: Sizes
) -> list[tuple[int, int]]:
    """Returns the zeros before and after each axis of an image that outputs of a size need."""
    needed = [
        (count - 1) * stride + (taps - 1) * dilation + 1
        for count, taps, stride, dilation in zip(outputs, kernel, strides, dilations, strict=True)
    ]
    totals = [max(0, reach - size) for reach, size in zip(needed, image, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def einsum(equation: str, shapes: Sequence[Sizes]) -> Bounds | None:
    """Returns the bounds of a product of two tensors by the axes that they share.

    Args:
        equation: such as ``bij,bjk->bik``; ``...`` are further axes, aligned from the right.
        shapes: of the tensors.

    Returns:
        None unless there are two tensors.
    """
    terms, _, result = equation.replace(" ", "").partition("->")
    operands = terms.split(",")
    if len(operands) != 2 or len(shapes) != 2:
        return None
    if not equation.count("->"):
        letters = "".join(operands).replace(".", "")
        result = "..." + "".join(each for each in letters if letters.count(each) == 1)
    sizes: dict[str, int] = {}
    named = []
    for term, shape in zip(operands, shapes, strict=True):
        before, dots, after = term.partition("...")
        more = len(shape) - len(before) - len(after)
        axes = [*before, *(f"...{place}" for place in range(more, 0, -1) if dots), *after]
        for axis, size in zip(axes, shape, strict=True):
            sizes[axis] = max(size, sizes.get(axis, 1))
        named.append(set(axes))
    left, right = named
    kept = set(result.replace("...", "")) | {axis for axis in sizes if axis.startswith("...")}
    both = left & right
    found = {"batch": both & kept, "M": left - right, "N": right - left, "K": both - kept}
    return {name: math.prod(sizes[axis] for axis in axes) for name, axes in found.items()}


def matmul(left: Sizes, right: Sizes) -> Bounds:
    """Returns the bounds of NumPy's product of [..., M, K] and [..., K, N].

    A right side of two axes is one matrix for all rows of the left side.
    """
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if len(right) == 2:
        return {"batch": 1, "M": math.prod(left[:-1]), "N": right[1], "K": left[-1]}
    depth = max(len(left), len(right)) - 2
    one = [[1] * (depth + 2 - len(shape)) + list(shape[:-2]) for shape in (left, right)]
    batch = math.prod(map(max, *one))
    return {"batch": batch, "M": left[-2], "N": right[-1], "K": left[-1]}


def macs(bounds: Bounds, kind: Kind) -> int:
    """Returns the multiply-accumulates of one execution."""
    if kind == "convolution":
        names = ("N", "M", "P", "Q", "C", "R", "S")
        return math.prod(bounds[name] for name in names) // bounds["groups"]
    if kind in ("matrix product", "recurrent product"):
        return bounds["batch"] * bounds["M"] * bounds["N"] * bounds["K"]
    return bounds["nonzeros"] * bounds["N"] if kind == "sparse product" else 0
