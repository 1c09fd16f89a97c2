"""Workloads of ZigZag 3: a YAML list of layers, each a nest of loops with its equation.

Convolutions keep their batch, groups, strides and dilation; gradients of convolutions are products.
Where an operation is computed several times in the step, ``repetitions.csv`` says how often.
"""

from fathom.exports.format import Exported, Format
from fathom.exports.products import as_product, is_layer, left_out, repetitions, taken
from fathom.hardware.accelerators.roofline import bits
from fathom.results.description import Description, Operation

_CONVOLUTION = "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]"
_PRODUCT = "O[d][k]+=I[d][c]*W[c][k]"


def _export(description: Description) -> Exported:
    width = bits(description.precision)
    layers, times = [], []
    for number, op in enumerate(taken(description)):
        lines, count = _convolution(op) if is_layer(op) else _product(op)
        layers += [f"# {op.name}", f"- id: {number}", *(f"  {line}" for line in lines)]
        # Each layer stands alone: between two of them lie operations that are no layers.
        layers += [f"  operand_source: {{I: {number}, W: {number}}}"]
        layers += [f"  operand_precision: {{I: {width}, W: {width}, O: {width}, O_final: {width}}}"]
        times.append((str(number), op, count))
    files = {"workload.yaml": "\n".join([*layers, ""]), "repetitions.csv": repetitions(times)}
    return Exported(files, ("which layer reads the results of which", *left_out(description)))


def _convolution(op: Operation) -> tuple[list[str], int]:
    size, groups = op.bounds, op.bounds["groups"]
    sizes = {"B": size["N"], "G": groups, "K": size["M"] // groups, "C": size["C"] // groups}
    sizes |= {"OY": size["P"], "OX": size["Q"], "FY": size["R"], "FX": size["S"]}
    relations = ", ".join(
        f"i{axis}={size[f'stride_{side}']}*o{axis}+{size[f'dilation_{side}']}*f{axis}"
        for axis, side in (("x", "w"), ("y", "h"))
    )
    lines = [f"dimension_relations: [{relations}]"]
    return [*_layer("Conv", _CONVOLUTION, sizes), *lines], op.repeats


def _product(op: Operation) -> tuple[list[str], int]:
    product = as_product(op)
    sizes = {"D": product.m, "K": product.n, "C": product.k}
    return [*_layer("Gemm", _PRODUCT, sizes), "dimension_relations: []"], product.times


def _layer(kind: str, equation: str, sizes: dict[str, int]) -> list[str]:
    return [
        f"operator_type: {kind}",
        f"equation: {equation}",
        f"loop_dims: [{', '.join(sizes)}]",
        f"loop_sizes: [{', '.join(map(str, sizes.values()))}]",
    ]


FORMAT = Format(
    about="workload of ZigZag 3: the loops of each convolution and product, and how often",
    export=_export,
)
