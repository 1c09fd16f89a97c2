"""Describes a traced step, one operation after the other."""

from collections.abc import Iterable, Iterator, Sequence

import keras
import tensorflow as tf

from fathom.core.training.optimizers import Optimizer
from fathom.hardware.description import bounds as loops
from fathom.hardware.description import kinds
from fathom.hardware.description.attribution import Attribution
from fathom.hardware.description.edges import Edges, held, size_of
from fathom.hardware.description.graph import RAGGED, Node, Scope, walk
from fathom.results.description import PRODUCTS, Kind, Operation, StepPhase

# Neither computes nor moves data: views, reads, lists that hold tensors, shapes, control.
_FREE = {
    *("Placeholder", "Const", "NoOp", "Identity", "IdentityN", "StopGradient", "PreventGradient"),
    *("Reshape", "ExpandDims", "Squeeze", "EnsureShape", "ReadVariableOp", "Assert"),
    *("Shape", "ShapeN", "Size", "Rank", "VariableShape", "BroadcastGradientArgs"),
    *("EmptyTensorList", "TensorListReserve", "TensorListGetItem", "TensorListSetItem"),
    *("TensorListPushBack", "TensorListPopBack", "TensorListLength", "TensorListElementShape"),
    *("AccumulatorV2", "OptionalNone", "VarIsInitializedOp", "VarHandleOp"),
}
READ_A_PART = {"Slice", "StridedSlice", "Gather", "GatherV2", "GatherNd"}
"""Types of operations that read of their first input as much as they write."""
_WRITE_A_PART = {"TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub"}  # in place
_LITTLE_WORK = ("data movement", "look-up")


def operations(
    graph: tf.Graph, network: keras.Model, optimizer: Optimizer | None = None
) -> tuple[Operation, ...]:
    """Returns the operations of a step that compute or move data, in the graph's order.

    Args:
        graph: the step, traced within ``attribution.scoped_gradients`` for known shapes.
        network: whose layers are meant.
        optimizer: that of a training step; None in inference.

    Raises:
        FathomError: a loop's number of iterations does not follow from the shapes.
    """
    attribution = Attribution(graph, network, optimizer)
    shapes = {layer.name: _shapes(layer.trainable_variables) for layer in network.layers}
    everything = _shapes(network.trainable_variables)
    nodes = {node.name: node for node in working(graph)}
    edges = Edges(nodes, held(graph, network, optimizer)[0])
    rows = []
    for name, node in nodes.items():
        layer, phase = attribution.place(name, node.op.type)
        of_weights = shapes.get(layer, everything)
        if phase == "forward":  # a layer may read weights of another, such as a tied matrix
            of_weights |= everything & _shapes(t for t in node.op.inputs if _is_weight(node, t))
        row = _row(node, layer, _PHASES.get(phase) or _gradient_phase(node, of_weights))
        rows.append(row.model_copy(update=edges.of(node)))
    return tuple(_without_coincidences(rows))


def _without_coincidences(rows: Sequence[Operation]) -> Iterable[Operation]:
    """Yields operations in order; what products of gradients read is no gradient of weights.

    The gradient of a layer's input may have the shape of its weights, as in a batch of their rows.
    """
    read: set[str] = set()
    for row in reversed(rows):
        of_gradients = row.phase in ("weight gradient", "input gradient")
        if of_gradients and (row.kind in PRODUCTS or row.name in read):
            read.update(row.producers)
    for row in rows:
        is_coincidence = row.phase == "weight gradient" and row.name in read
        yield row.model_copy(update={"phase": "input gradient"}) if is_coincidence else row


_PHASES: dict[str, StepPhase] = {"forward": "forward", "optimizer": "update", "other": "other"}


def working(graph: tf.Graph) -> Iterator[Node]:
    """Yields the operations that compute or move data when the step runs.

    Those of constants alone are left out: TensorFlow computes them once.
    """
    constant: set[str] = set()
    for node in walk(Scope(graph)):
        op, inputs = node.op, [node.scope.prefix + tensor.op.name for tensor in node.op.inputs]
        folded = bool(inputs) and not op.op_def.is_stateful and constant.issuperset(inputs)
        if folded or (op.outputs and tf.get_static_value(op.outputs[0]) is not None):
            constant.add(node.name)
        elif op.type not in _FREE and (op.outputs or updates(node)):
            yield node


def _row(node: Node, layer: str, phase: StepPhase) -> Operation:
    kind = kinds.kind_of(node)
    bounds = kinds.bounds_of(node, kind)
    macs = loops.macs(bounds, kind)
    read, weights, written = _bytes(node, kind, bounds)
    repeats = node.scope.repeats
    counted = kind in PRODUCTS or kind in _LITTLE_WORK
    return Operation(
        name=node.name,
        type=node.type,
        layer=layer,
        phase=phase,
        kind=kind,
        dtype=kinds.values_of(node.op).dtype.base_dtype.name,
        bounds=bounds,
        repeats=repeats,
        macs=repeats * macs,
        flops=0 if counted else repeats * kinds.flops_of_element(node) * bounds["elements"],
        input_bytes=repeats * read,
        weight_bytes=repeats * weights,
        output_bytes=repeats * written,
    )


def _gradient_phase(node: Node, shapes_of_weights: set[tuple[int, ...]]) -> StepPhase:
    """Tells gradients of weights, which have a weight's shape, from those of the layer's input."""
    if any(_is_weight(node, tensor) for tensor in node.op.inputs):
        return "input gradient"
    shapes = {tuple(tensor.shape) for tensor in node.op.outputs if tensor.shape.rank}
    return "weight gradient" if shapes & shapes_of_weights else "input gradient"


def _bytes(node: Node, kind: Kind, bounds: loops.Bounds) -> tuple[int, int, int]:
    """Returns the bytes of inputs, weights and outputs of one execution."""
    read = sum(size_of(t) for t in node.op.inputs if not _is_weight(node, t))
    weights = sum(size_of(t) for t in node.op.inputs if _is_weight(node, t))
    written = sum(size_of(t) for t in node.op.outputs)
    if node.type.startswith(RAGGED) and weights:  # no more matrices than rows
        matrices = sum(_is_weight(node, t) for t in node.op.inputs)
        return read, weights * min(matrices, bounds["M"]) // matrices, written
    if kind == "look-up" and node.op.outputs:  # only the rows that are looked up
        return read, written, written
    if node.op.type in READ_A_PART:
        whole = node.op.inputs[0]
        if _is_weight(node, whole):
            return read, written, written
        return read - size_of(whole) + min(size_of(whole), written), weights, written
    if node.op.type in _WRITE_A_PART and not _is_weight(node, node.op.inputs[0]):
        return read - size_of(node.op.inputs[0]), weights, size_of(node.op.inputs[2])
    variables = updates(node)
    if variables:
        updated = variables * max(size_of(tensor) for tensor in node.op.inputs)
        plain = node.op.type == "AssignVariableOp"
        return read, weights + (0 if plain else updated), written + updated
    return read, weights, written


def updates(node: Node) -> int:
    """Returns the number of variables that an operation changes."""
    reads = node.op.type.startswith("ResourceGather")
    if node.op.type.startswith(("Resource", "Assign")) and not reads:
        return sum(tensor.dtype == tf.resource for tensor in node.op.inputs)
    return 0


def _is_weight(node: Node, tensor: tf.Tensor) -> bool:
    """Says whether a tensor is a variable's value, perhaps in another type."""
    return node.scope.origin(tensor)[0].dtype == tf.resource and tensor.dtype != tf.resource


def _shapes(tensors: Iterable[keras.Variable | tf.Tensor]) -> set[tuple[int, ...]]:
    return {tuple(tensor.shape) for tensor in tensors}
