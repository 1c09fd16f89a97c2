"""What an operation of TensorFlow computes: its kind and its loop bounds."""

import math

import tensorflow as tf

from fathom.errors import FathomError
from fathom.hardware.description import bounds as loops
from fathom.hardware.description.bounds import Bounds
from fathom.hardware.description.graph import RAGGED, Node
from fathom.hardware.description.ops import op_class, paper_type
from fathom.results.description import Kind

_DEPTHWISE = "DepthwiseConv2dNative"
_CONVOLUTIONS = (
    *("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"),
    *(_DEPTHWISE, f"{_DEPTHWISE}BackpropFilter", f"{_DEPTHWISE}BackpropInput"),
)
_VOLUMES = ("Conv3D", "Conv3DBackpropInputV2")  # products by im2col
_SPARSE = ("SparseTensorDenseMatMul",)
_SEVERAL = ("BlockLSTM", "LSTMBlockCell", "CudnnRNN", "SparseMatrix")  # products: no rule tells
_LOOKUPS = ("Gather", "GatherV2", "ResourceGather", "ResourceGatherNd")
_ROW_UPDATES = ("ResourceScatterAdd", "ResourceScatterSub", "ResourceSparseApply")
_FLOPS_OF_UPDATES = {  # for an element, by the rule's formula; a root or a division is one
    "ResourceApplyGradientDescent": 2,
    "ResourceApplyKerasMomentum": 4,
    "ResourceApplyAdagradV2": 7,
    "ResourceApplyAdam": 12,
    "ResourceApplyRMSProp": 11,
    "ResourceApplyCenteredRMSProp": 16,
}
_OVER_AXES = ("Sum", "Mean", "Max", "Min", "Prod")
_BY_CLASS: dict[str, Kind] = {
    "A": "elementwise",
    "B": "reduction",
    "C": "reduction",
    "E": "elementwise",
    "F": "elementwise",
    "G": "data movement",
}


def kind_of(node: Node) -> Kind:
    """Returns the kind of an operation."""
    name = node.type
    if name in _CONVOLUTIONS:
        return "convolution"
    if name in _SPARSE:
        return "sparse product"
    if name in _VOLUMES or (paper_type(name) == "MatMul" and not name.startswith(_SEVERAL)):
        return "recurrent product" if node.in_loop else "matrix product"
    if name.startswith(_ROW_UPDATES) or (name in _LOOKUPS and reads_table(node)):
        return "look-up"
    return _BY_CLASS.get(op_class(paper_type(name)), "elementwise")


def is_known(op_type: str) -> bool:
    """Says whether a rule tells what operations of a type compute, not their bytes alone."""
    known = (*_CONVOLUTIONS, *_VOLUMES, *_SPARSE, *_LOOKUPS)
    without = op_class(paper_type(op_type)) in ("", "D") or op_type.startswith(_SEVERAL)
    return op_type in known or not without


def reads_table(node: Node) -> bool:
    """Says whether a gather reads rows of a variable."""
    return node.scope.origin(node.op.inputs[0])[0].dtype == tf.resource


def bounds_of(node: Node, kind: Kind) -> Bounds:
    """Returns an operation's loop bounds; see ``Operation.bounds``."""
    if kind == "convolution":
        return _convolution(node.op)
    if kind in ("matrix product", "recurrent product"):
        return _ragged(node) if node.type.startswith(RAGGED) else _product(node.op)
    if kind == "sparse product":
        return _sparse_product(node.op)
    if kind == "look-up":
        return _lookup(node.op)
    tensors = [*node.op.inputs, *(() if kind == "reduction" else node.op.outputs)]
    found = {"elements": max((elements(shape_of(each)) for each in tensors), default=0)}
    return found | ({"width": kept} if kind == "reduction" and (kept := _kept(node.op)) else {})


def flops_of_element(node: Node) -> int:
    """Returns the floating-point operations for an element: 1, but for fused updates of weights."""
    nesterov = node.type == "ResourceApplyKerasMomentum" and node.op.get_attr("use_nesterov")
    return _FLOPS_OF_UPDATES.get(node.type, 1) + (2 if nesterov else 0)


def shape_of(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns a tensor's shape; of rows whose number depends on data, that of all that are given.

    Such are the rows of a batch without repetitions, and the places where a condition holds.
    """
    shape = tensor.shape
    if not shape.rank or shape[0] is not None:
        return shape
    given = [shape_of(each) for each in tensor.op.inputs]
    of_places = tensor.op.type == "Where"
    rows = [elements(each) if of_places else each[0] for each in given if each.rank]
    return tf.TensorShape([max(rows, default=1), *shape[1:]])


def elements(shape: tf.TensorShape) -> int:
    """Returns the number of elements; dimensions that are not known count as one."""
    return math.prod(size or 0 if size is not None else 1 for size in shape) if shape.rank else 1


def _convolution(op: tf.Operation) -> Bounds:
    """Returns the bounds of a convolution; over three axes, as a product by im2col."""
    image, kernel, result = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    dilations, padding = op.get_attr("dilations"), op.get_attr("padding")
    if dilated := _dilated(op):
        image, result, dilations = dilated
        padding = b"SAME"  # none where the outputs need none
    elif op.type.endswith("BackpropFilter"):
        kernel, result = result, op.inputs[2].shape
    elif op.type.endswith(("BackpropInput", "BackpropInputV2")):
        image, result = result, op.inputs[2].shape
    *window, per_group, outputs = kernel
    last = op.get_attr("data_format") in (b"NHWC", b"NDHWC")
    first, channels = (1, image[-1]) if last else (2, image[1])
    axes = slice(first, first + len(window))
    if op.type.startswith(_DEPTHWISE):  # a group for each channel
        per_group, outputs = 1, per_group * outputs
    results = list(result[axes])
    strides, dilations = op.get_attr("strides")[axes], dilations[axes]
    paddings: list[tuple[int, int]] = []
    if padding == b"EXPLICIT":
        given = op.get_attr("explicit_paddings")
        paddings = list(zip(given[::2], given[1::2], strict=True))[axes]
    elif padding == b"SAME":
        paddings = loops.same_paddings(image[axes], window, results, strides, dilations)
    way = loops.Window(strides, dilations, paddings, channels // per_group)
    images, kernels = (image[0], channels), (outputs, per_group, *window)
    return loops.convolution(images, kernels, results, way)[1]


def _dilated(op: tf.Operation) -> tuple[list[int], list[int], list[int]] | None:
    """Returns image, result and dilations of a convolution that TensorFlow dilates by batches.

    The pixels that a kernel meets become an image of their own, with zeros to fill it up.
    """
    before, after = op.inputs[0].op, op.outputs[0].consumers()
    if before.type == "ExpandDims" and len(after) == 1:  # over one axis
        before, after = before.inputs[0].op, after[0].outputs[0].consumers()
    if before.type != "SpaceToBatchND" or [each.type for each in after] != ["BatchToSpaceND"]:
        return None
    image, result = before.inputs[0].shape, after[0].outputs[0].shape
    block = tf.get_static_value(before.inputs[1])
    if block is None or len(block) != image.rank - 2:  # channels are before the sizes
        return None
    lead = [1] * (op.inputs[0].shape.rank - image.rank)
    of_image, of_result = ([shape[0], *lead, *shape[1:]] for shape in (image, result))
    return of_image, of_result, [1, *lead, *block.tolist(), 1]


def _product(op: tf.Operation) -> Bounds:
    if op.type in _VOLUMES:
        return _convolution(op)
    if op.type == "Einsum":
        equation, shapes = op.get_attr("equation").decode(), [tuple(t.shape) for t in op.inputs]
        if (sizes := loops.einsum(equation, shapes)) is None:
            raise FathomError(f"the einsum {op.name} is not of two tensors: {equation}")
        return sizes
    left, result = op.inputs[0].shape, op.outputs[0].shape
    transposed = op.get_attr("transpose_a" if "transpose_a" in op.node_def.attr else "adj_x")
    batch = math.prod(result[:-2])
    return {"batch": batch, "M": result[-2], "N": result[-1], "K": left[-2 if transposed else -1]}


def _kept(op: tf.Operation) -> int:
    """Returns the size of the last axis if a sum, mean or the like keeps it; 0 if not."""
    if op.type not in _OVER_AXES or (axes := tf.get_static_value(op.inputs[1])) is None:
        return 0
    shape = op.inputs[0].shape
    return 0 if {-1, len(shape) - 1} & set(axes.ravel().tolist()) else shape[-1] or 0


def _ragged(node: Node) -> Bounds:
    """Returns the bounds of the product of all rows, whichever groups they are in."""
    first, second = node.op.inputs[:2]
    if node.type == f"{RAGGED}Grad":  # of the matrices: the rows are added up
        return {"batch": 1, "M": first.shape[1], "N": second.shape[1], "K": first.shape[0]}
    return {"batch": 1, "M": first.shape[0], "N": node.op.outputs[0].shape[1], "K": first.shape[1]}


def _sparse_product(op: tf.Operation) -> Bounds:
    result, dense = op.outputs[0].shape, op.inputs[-1].shape
    depth = dense[1 if op.get_attr("adjoint_b") else 0]
    return {"M": result[0], "N": result[1], "K": depth, "nonzeros": elements(op.inputs[1].shape)}


def _lookup(op: tf.Operation) -> Bounds:
    """Returns the bounds of rows that are read, or updated by a gradient for each index."""
    places = shape_of(indices_of(op))
    count = elements(places[:-1] if op.type == "ResourceGatherNd" else places)
    return {"indices": count, "width": elements(shape_of(values_of(op))) // max(1, count)}


def indices_of(op: tf.Operation) -> tf.Tensor:
    """Returns the indices of a look-up."""
    return _inputs(op)["indices"]


def values_of(op: tf.Operation) -> tf.Tensor:
    """Returns what an operation computes, or what it changes a variable by."""
    if op.outputs:
        return op.outputs[0]
    given = _inputs(op)
    return given.get("grad", given.get("updates", op.inputs[-1]))


def _inputs(op: tf.Operation) -> dict[str, tf.Tensor]:
    names = [argument.name for argument in op.op_def.input_arg]
    return dict(zip(names, op.inputs, strict=False))
