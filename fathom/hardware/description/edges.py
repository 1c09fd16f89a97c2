"""Which operations of a step read the results of which others, and the memory that they take."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from fathom.core.training.optimizers import Optimizer
from fathom.hardware.description import kinds
from fathom.hardware.description.graph import LISTS, Node, Scope

Sizes: TypeAlias = dict[str, int]  # bytes of what a graph reads from outside, by its argument

_SMALL = 16  # times smaller than all results, one of them is a detail


class Edges:
    """The edges of a step's graph, through views, lists, loops and calls of functions.

    Args:
        nodes: the operations of the step that compute or move data, by name.
        variables: bytes of each variable, as from ``held``.
    """

    def __init__(self, nodes: Mapping[str, Node], variables: Sizes) -> None:
        self._nodes, self._variables = nodes, variables

    def of(self, node: Node) -> dict[str, Any]:
        """Returns the fields of ``Operation`` that place an operation among the others."""
        bytes_of: Counter[str] = Counter()  # bytes read of each
        for tensor in node.op.inputs:
            for name, source in self._producers(tensor, node.scope):
                bytes_of[name] += size_of(source)
        bytes_of.pop(node.name, None)
        small = (name for name, size in bytes_of.items() if _SMALL * size < self._results(name))
        results = sum(size_of(tensor) for tensor in node.op.outputs)
        read = {tensor.name: self.size(tensor, node.scope) for tensor in node.op.inputs}
        return {
            "producers": tuple(bytes_of),
            "small_reads": tuple(small),
            "result_bytes": results * (node.scope.repeats if is_listed(node.op) else 1),
            "footprint_bytes": sum(read.values()) + results,
        }

    def size(self, tensor: tf.Tensor, scope: Scope) -> int:
        """Returns the bytes of a tensor, of a variable those of its value."""
        if tensor.dtype != tf.resource:
            return size_of(tensor)
        return self._variables.get(scope.origin(tensor)[0].name, 0)

    def _results(self, name: str) -> int:
        return sum(size_of(tensor) for tensor in self._nodes[name].op.outputs)

    def _producers(self, tensor: tf.Tensor, scope: Scope) -> list[tuple[str, tf.Tensor]]:
        """Returns the names of the operations that computed a tensor, and which result it is."""
        found, seen = [], set()
        left = [(tensor, scope)]
        while left:
            tensor, scope = left.pop()
            name = scope.prefix + tensor.op.name
            if name in self._nodes:
                found.append((name, tensor))
            elif (name, tensor.value_index) not in seen:
                seen.add((name, tensor.value_index))
                left += scope.sources(tensor)
        return found


def held(graph: tf.Graph, network: keras.Model, optimizer: Optimizer | None) -> tuple[Sizes, int]:
    """Returns what a step holds from its start to its end.

    Returns:
        the bytes of each variable and constant that the graph reads from outside, by the name of
        its argument; and the bytes of all variables, those of the optimizer's state included.
    """
    variables = [variable.value for variable in network.variables]
    variables += [*(optimizer.variables if optimizer else ()), *graph.variables]
    sizes = {id(v.handle): kinds.elements(v.shape) * v.dtype.size for v in variables}
    captured = {
        placeholder.name: sizes.get(id(value), 0)
        if value.dtype == tf.resource
        else size_of(placeholder)
        for value, placeholder in graph.captures
    }
    inside = {  # a graph that was loaded has its variables in it
        op.outputs[0].name: kinds.elements(tf.TensorShape(op.get_attr("shape")))
        * tf.as_dtype(op.get_attr("dtype")).size
        for op in graph.get_operations()
        if op.type == "VarHandleOp"
    }
    constants = sum(size_of(value) for value, _ in graph.captures)
    return captured | inside, sum((*sizes.values(), *inside.values())) + constants


def size_of(tensor: tf.Tensor) -> int:
    """Returns the bytes of a tensor; 0 of what is no numbers."""
    if tensor.dtype in (tf.resource, tf.variant, tf.string):
        return 0
    return kinds.elements(kinds.shape_of(tensor)) * tensor.dtype.size


def is_listed(op: tf.Operation) -> bool:
    """Says whether each iteration of a loop keeps what an operation computed."""
    return any(reader.type in LISTS for tensor in op.outputs for reader in tensor.consumers())
