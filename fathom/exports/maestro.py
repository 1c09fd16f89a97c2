"""Networks of MAESTRO: one layer for each convolution and product, with its dataflow.

A layer is one example of one group; ``repetitions.csv`` says how often it is computed in the step.
MAESTRO pads nothing and knows no dilation: inputs are as large as their outputs need, and dilated
convolutions are products, as are gradients.
"""

from fathom.exports.format import Exported, Format
from fathom.exports.products import as_product, is_layer, left_out, padded, repetitions, taken
from fathom.results.description import Description, Operation

CONVOLUTION = """\
SpatialMap(1,1) K;
TemporalMap(64,64) C;
TemporalMap(Sz(R),Sz(R)) R;
TemporalMap(Sz(S),Sz(S)) S;
TemporalMap(Sz(R),1) Y;
TemporalMap(Sz(S),1) X;
Cluster(64, P);
SpatialMap(1,1) C;
TemporalMap(Sz(R),1) Y;
TemporalMap(Sz(S),1) X;
TemporalMap(Sz(R),Sz(R)) R;
TemporalMap(Sz(S),Sz(S)) S;
"""
"""Weights stay; output maps are shared among clusters, 64 input maps within one (as by NVDLA)."""

PRODUCT = """\
TemporalMap(1,1) N;
SpatialMap(1,1) M;
TemporalMap(64,64) K;
Cluster(64, P);
TemporalMap(1,1) N;
TemporalMap(1,1) M;
SpatialMap(1,1) K;
"""
"""Rows are shared among clusters, 64 terms of a sum within one."""


def network(
    description: Description, convolution: str = CONVOLUTION, product: str = PRODUCT
) -> Exported:
    """Returns the network file of a step; the dataflows are in MAESTRO's language.

    Raises:
        FathomError: the step has no convolution and no product.
    """
    layers: list[str] = []
    times = []
    for number, op in enumerate(taken(description)):
        name = f"L{number:04d}"
        lines, count = _convolution(op) if _expressible(op) else _product(op)
        dataflow = convolution if _expressible(op) else product
        lines += _block("Dataflow {", dataflow.strip().splitlines())
        layers += _block(f"Layer {name} {{ // {op.name}", lines)
        times.append((name, op, count))
    text = "\n".join([*_block(f"Network {description.workload} {{", layers), ""])
    files = {"network.m": text, "repetitions.csv": repetitions(times)}
    return Exported(files, left_out(description))


def _expressible(op: Operation) -> bool:
    """Says whether MAESTRO has a layer for it: a forward convolution without dilation."""
    return is_layer(op) and op.bounds["dilation_h"] == op.bounds["dilation_w"] == 1


def _convolution(op: Operation) -> tuple[list[str], int]:
    size, (height, width) = op.bounds, padded(op)
    sizes = {"K": size["M"] // size["groups"], "C": size["C"] // size["groups"]}
    sizes |= {"R": size["R"], "S": size["S"], "Y": height, "X": width}
    stride = f"Stride {{ X: {size['stride_w']}, Y: {size['stride_h']} }}"
    return ["Type: CONV", stride, _sizes(sizes)], size["N"] * size["groups"] * op.repeats


def _product(op: Operation) -> tuple[list[str], int]:
    product = as_product(op)
    return ["Type: GEMM", _sizes({"K": product.k, "M": product.m, "N": product.n})], product.times


def _sizes(sizes: dict[str, int]) -> str:
    return f"Dimensions {{ {', '.join(f'{name}: {size}' for name, size in sizes.items())} }}"


def _block(head: str, lines: list[str]) -> list[str]:
    return [head, *(f"  {line}" for line in lines), "}"]


FORMAT = Format(
    about="network file of MAESTRO with a dataflow for each layer, and how often each is computed",
    export=network,
)
