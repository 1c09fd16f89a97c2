"""The tensors that each operation of a traced step reads and writes, and the memory they lie in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from fathom.core.training.optimizers import Optimizer
from fathom.hardware.description import kinds
from fathom.hardware.description.edges import Edges, held, is_listed, size_of
from fathom.hardware.description.graph import Node, Scope, needed_operations
from fathom.hardware.description.step import READ_A_PART, operations, updates, working
from fathom.results.description import Operation


@dataclass
class Storage:
    """Memory of one tensor.

    Attributes:
        name: of the operation that writes it, or of the variable, constant or input.
        bytes: of one execution of that operation.
        held: for the whole step: a variable, constant or input.
        loops: around the operation, if a list keeps its result of each iteration.
    """

    name: str
    bytes: int = 0
    held: bool = False
    loops: tuple[tuple[str, int], ...] = ()

    @property
    def whole(self) -> int:
        """Bytes of all iterations that are kept."""
        return self.bytes * int(np.prod([count for _, count in self.loops], dtype=int))


@dataclass(frozen=True)
class Use:
    """A tensor that an operation reads or writes.

    Attributes:
        storage: its memory.
        shape: None of a variable that is not read by its value, and where it is not known.
        item: bytes of an element.
        bytes: of the whole tensor.
    """

    storage: Storage
    shape: tuple[int, ...] | None
    item: int
    bytes: int


@dataclass(frozen=True)
class Access:
    """An operation with its tensors.

    Attributes:
        row: of the description.
        loops: around it, from the outermost: name and iterations.
        reads, writes: its tensors, in order; variables that it changes are in both.
        attributes: of TensorFlow's operation, those that tell the order of elements.
        indices: int [n], rows that a look-up reads or changes, or int [nonzeros, 2], the places of
            a sparse matrix; None where they are not known.
    """

    row: Operation
    loops: tuple[tuple[str, int], ...]
    reads: list[Use] = field(default_factory=list)
    writes: list[Use] = field(default_factory=list)
    attributes: dict[str, object] = field(default_factory=dict)
    indices: np.ndarray | None = None


def accesses(
    graph: tf.Graph,
    network: keras.Model,
    optimizer: Optimizer | None,
    values: Mapping[str, np.ndarray],
) -> list[Access]:
    """Returns the operations of a step with their tensors, in the graph's order.

    Args:
        graph: the step, as for ``operations``.
        network: whose layers are meant.
        optimizer: that of a training step; None in inference.
        values: of tensors of indices, as from ``indices``, by the operation's name.
    """
    rows = operations(graph, network, optimizer)
    nodes = {node.name: node for node in working(graph)}
    found = _Tensors(nodes, Edges(nodes, held(graph, network, optimizer)[0]))
    return [found.of(nodes[row.name], row, values.get(row.name)) for row in rows]


class _Tensors:
    def __init__(self, nodes: Mapping[str, Node], edges: Edges) -> None:
        self._nodes, self._edges = nodes, edges
        self._storages: dict[tuple[str, int], Storage] = {}

    def of(self, node: Node, row: Operation, indices: np.ndarray | None) -> Access:
        """Returns an operation with its tensors."""
        op, changed = node.op, updates(node)
        access = Access(row, _loops(node.scope), indices=indices)
        for name in ("transpose_a", "transpose_b", "adj_x", "adj_y", "adjoint_a", "data_format"):
            if name in op.node_def.attr:
                access.attributes[name] = op.get_attr(name)
        for tensor in op.inputs:
            size = self._edges.size(tensor, node.scope)
            if not size:
                continue
            use = self._use(tensor, node.scope, size)
            if op.type != "AssignVariableOp" or tensor.dtype != tf.resource:
                access.reads.append(use)
            if changed and tensor.dtype == tf.resource:
                access.writes.append(use)
        for tensor in op.outputs:
            if size := size_of(tensor):
                access.writes.append(self._use(tensor, node.scope, size))
        if op.type in READ_A_PART and row.kind != "look-up" and access.reads and access.writes:
            whole, written = access.reads[0], sum(use.bytes for use in access.writes)
            if whole.bytes > written:  # where it begins is not known: at the first
                access.reads[0] = Use(whole.storage, None, whole.item, written)
        return access

    def _use(self, tensor: tf.Tensor, scope: Scope, size: int) -> Use:
        storage = self._storage(tensor, scope)
        storage.bytes = max(storage.bytes, size)
        if tensor.dtype == tf.resource:
            return Use(storage, None, 4, size)
        shape = None if tensor.shape.rank is None else tuple(tensor.shape)
        return Use(storage, shape, tensor.dtype.size, size)

    def _storage(self, tensor: tf.Tensor, scope: Scope) -> Storage:
        """Returns the memory that a tensor, or what it is a view of, lies in."""
        seen, left = set(), [(tensor, scope)]
        while left:
            tensor, scope = left.pop()
            key = (scope.prefix + tensor.op.name, tensor.value_index)
            if key in seen:
                continue
            seen.add(key)
            if node := self._nodes.get(key[0]):
                if size_of(tensor):
                    kept = _loops(scope) if is_listed(node.op) else ()
                    return self._storages.setdefault(key, Storage(key[0], loops=kept))
                left += [(each, scope) for each in tensor.op.inputs[:1]]
            elif sources := scope.sources(tensor):
                left += sources
            else:
                return self._storages.setdefault(key, Storage(key[0], held=True))
        return self._storages.setdefault(key, Storage(key[0], held=True))


def _loops(scope: Scope) -> tuple[tuple[str, int], ...]:
    """Returns the loops around a scope, from the outermost, with their iterations."""
    if scope.parent is None:
        return ()
    outer = _loops(scope.parent)
    if scope.call is None or "While" not in scope.call.type:
        return outer
    return (*outer, (scope.prefix, scope.repeats // scope.parent.repeats))


def has_indices(graph: tf.Graph) -> bool:
    """Says whether a step looks up rows or multiplies a sparse matrix."""
    return any(_tensor_of_indices(node) is not None for node in working(graph))


def indices(
    traced: "tf.types.experimental.ConcreteFunction", batch: Sequence[tf.Tensor]
) -> dict[str, np.ndarray]:
    """Runs what computes the indices of look-ups and sparse products, for a batch.

    Args:
        traced: the step.
        batch: its inputs.

    Returns:
        the indices by the operation's name, without those computed within loops and functions.
    """
    graph = traced.graph
    wanted: dict[str, tf.Tensor] = {}
    for node in working(graph):
        tensor = _tensor_of_indices(node)
        if tensor is not None:
            origin, scope = node.scope.origin(tensor)
            if scope.parent is None:
                wanted[node.name] = origin
    if not wanted:
        return {}
    definition = graph.as_graph_def()
    needed = needed_operations(graph, [tensor.op for tensor in wanted.values()])
    nodes = [node for node in definition.node if node.name in needed]
    del definition.node[:]
    definition.node.extend(nodes)
    given = [*batch, *traced.captured_inputs]

    @tf.function(autograph=False)
    def compute() -> list[tf.Tensor]:
        feeds = {
            inner.name: tf.identity(value)
            for inner, value in zip(traced.inputs, given, strict=True)
            if inner.op.name in needed
        }
        return tf.graph_util.import_graph_def(
            definition, input_map=feeds, return_elements=[t.name for t in wanted.values()]
        )

    return {name: each.numpy() for name, each in zip(wanted, compute(), strict=True)}


def _tensor_of_indices(node: Node) -> tf.Tensor | None:
    if node.op.type == "SparseTensorDenseMatMul":
        return node.op.inputs[0]
    rows = kinds.kind_of(node) == "look-up" and node.op.type != "ResourceGatherNd"
    return kinds.indices_of(node.op) if rows else None
