"""Walks a traced step: its operations in order, those of loops with their iterations."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.hardware.description.ops import paper_type
from fathom.system import private

_LOOPS = ("While", "StatelessWhile")
_CALLS = {
    "PartitionedCall": "f",
    "StatefulPartitionedCall": "f",
    "If": "then_branch",  # the usual case: a skipped update is the other one
    "StatelessIf": "then_branch",
}
_PRODUCTS = (  # by the paper's types
    *("MatMul", "SparseTensorDenseMatMul", "Conv2D", "Conv2DBackFilter", "Conv2DBackInput"),
    *("Conv3D", "Conv3DBackpropInputV2"),
)
_COMPILED = re.compile(r"^__inference_|_\d+$")
RAGGED = "RaggedMatMul"
"""The first word of the functions of ``fathom.core.ragged``, each of which is one product here."""
_OF_SHAPES = ("StridedSlice", "AddV2", "Sub", "Mul", "Minimum", "Maximum", "FloorDiv")
_SAME_VALUE = ("Identity", "ReadVariableOp", "Cast", "Reshape", "StopGradient", "Squeeze")
_VIEWS = (  # of their first input
    *("Identity", "ReadVariableOp", "Reshape", "StopGradient", "Squeeze", "ExpandDims"),
    *("EnsureShape", "PreventGradient", "TensorListGetItem", "TensorListPopBack"),
)
LISTS = ("TensorListSetItem", "TensorListPushBack")
"""Operations that keep a tensor in a list, one for each iteration of a loop."""


class Scope:
    """A graph and the values that its arguments stand for.

    Args:
        graph: of the step, or of a function that it calls.
        arguments: where the graph is a function's: the value of each argument in ``parent``, or
            None if it changes from one iteration to the next.
        parent: the scope of the call.
        prefix: put before the names of operations.
        repeats: how often the graph runs per step.
    """

    def __init__(
        self,
        graph: tf.Graph,
        arguments: Sequence[tf.Tensor | None] = (),
        parent: "Scope | None" = None,
        prefix: str = "",
        repeats: int = 1,
    ) -> None:
        self.graph, self.parent, self.prefix, self.repeats = graph, parent, prefix, repeats
        placeholders = [tensor.name for tensor in graph.inputs]
        self._arguments = dict(zip(placeholders, arguments, strict=bool(parent)))
        self._numbers = {name: number for number, name in enumerate(placeholders)}
        self._called: dict[str, Scope | None] = {}
        self.call: tf.Operation | None = None  # in the parent, of a function

    def origin(self, tensor: tf.Tensor) -> tuple[tf.Tensor, "Scope"]:
        """Follows a value through views, casts, reads and calls to the tensor that it comes from.

        Returns:
            that tensor, and the scope that it is in.
        """
        while True:
            if tensor.op.type in _SAME_VALUE:
                tensor = tensor.op.inputs[0]
            elif self.parent and (outer := self._arguments.get(tensor.name)) is not None:
                return self.parent.origin(outer)
            else:
                return tensor, self

    def constant(self, tensor: tf.Tensor) -> np.ndarray | None:
        """Returns the value of a tensor that follows from shapes and constants, else None."""
        value = tf.get_static_value(tensor)
        if value is not None:
            return np.asarray(value)
        source, scope = self.origin(tensor)
        op = source.op
        if op.type in _LOOPS and source.value_index == 0:  # its counter, when it is done
            return np.asarray(scope.iterations(op))
        if op.type in _OF_SHAPES:
            inputs = [scope.constant(tensor) for tensor in op.inputs]
            return None if any(each is None for each in inputs) else _compute(op, inputs)
        value = tf.get_static_value(source)
        return None if value is None else np.asarray(value)

    def iterations(self, loop: tf.Operation) -> int:
        """Returns how often a loop's body runs: at most, if it may end early.

        Raises:
            FathomError: the number does not follow from shapes and constants.
        """
        condition = Scope(private.called_graph(loop, "cond"), loop.inputs, self)
        body = self._body(loop, 1)
        places = {tensor.name: place for place, tensor in enumerate(condition.graph.inputs)}
        limits = []
        for op in condition.graph.get_operations():
            if op.type == "Less" and op.outputs[0].shape.rank == 0:
                first, last = (condition.constant(tensor) for tensor in op.inputs)
                if first is not None and last is not None:
                    stride = body._stride(places.get(_viewed(op.inputs[0]).name))
                    limits.append(-int((first - last) // stride))
        if not limits:
            raise FathomError(f"the number of iterations of {loop.name} is not known beforehand")
        return max(0, min(limits))

    def _stride(self, place: int | None) -> np.ndarray:
        """Returns what a loop's body adds to one of its values; 1 if that is not known."""
        if place is not None:
            counter, op = self.graph.inputs[place], _viewed(self.graph.outputs[place]).op
            terms = list(op.inputs) if op.type == "AddV2" else []
            others = [each for each in terms if _viewed(each) is not counter]
            stride = self.constant(others[0]) if len(others) == 1 else None
            if stride is not None and stride > 0:
                return stride
        return np.asarray(1)

    def calls(self, op: tf.Operation) -> "Scope | None":
        """Returns the scope of the function that an operation calls; None if it calls none."""
        if op.name not in self._called:
            self._called[op.name] = called = self._scope_of(op)
            if called is not None:
                called.call = op
        return self._called[op.name]

    def sources(self, tensor: tf.Tensor) -> "list[tuple[tf.Tensor, Scope]]":
        """Returns the values that a tensor is a view, a copy or a list of, one step back.

        An argument of a function is what the call gives, in a loop also what the last iteration
        left; the result of a call is the function's. Empty for what an operation computes.
        """
        op = tensor.op
        if called := self.calls(op):
            return [(called.graph.outputs[tensor.value_index], called)]
        if tensor.name in self._numbers and self.parent and self.call:
            number = self._numbers[tensor.name]
            given = self.call.inputs[number + self.call.type.endswith("If")]
            found = [(given, self.parent)]
            if self.call.type in _LOOPS:
                found.append((self.graph.outputs[number], self))
            return found
        if op.type == "IdentityN":
            return [(op.inputs[tensor.value_index], self)]
        seen = list(op.inputs[:1]) if op.type in (*_VIEWS, *LISTS) else []
        seen += op.inputs[-1:] if op.type in LISTS else []
        return [(each, self) for each in seen]

    def _scope_of(self, op: tf.Operation) -> "Scope | None":
        if op.type in _LOOPS:
            return self._body(op, self.iterations(op))
        if op.type in _CALLS and not _is_kernel(op):
            called = private.called_graph(op, _CALLS[op.type])
            given = op.inputs[1:] if op.type.endswith("If") else op.inputs
            return Scope(called, given, self, f"{self.prefix}{op.name}/", self.repeats)
        return None

    def _body(self, loop: tf.Operation, times: int) -> "Scope":
        """Returns the scope of a loop's body, with the values that no iteration changes."""
        body = private.called_graph(loop, "body")
        states = zip(loop.inputs, body.inputs, body.outputs, strict=True)
        given = [outer if _viewed(out) is into else None for outer, into, out in states]
        return Scope(body, given, self, f"{self.prefix}{loop.name}/body/", self.repeats * times)


@dataclass(frozen=True)
class Node:
    """An operation of a step and the scope that it runs in."""

    op: tf.Operation
    scope: Scope

    @property
    def name(self) -> str:
        """Name in the step, with those of the enclosing calls and loops."""
        return self.scope.prefix + cast(str, self.op.name)

    @property
    def type(self) -> str:
        """Op type; of a function that XLA compiles into one kernel, its name, as in a profile.

        That of a product of ragged groups has its name, too.
        """
        return _called_name(self.op) if _is_kernel(self.op) else cast(str, self.op.type)

    @property
    def in_loop(self) -> bool:
        """Whether it is in the body of a loop."""
        return "/body/" in f"/{self.scope.prefix}"


def walk(scope: Scope) -> Iterator[Node]:
    """Yields the operations that contribute to a step, in the order of the graph."""
    needed = needed_operations(scope.graph)
    for op in scope.graph.get_operations():
        if op.name not in needed:
            continue
        called = scope.calls(op)
        if called is None:
            yield Node(op, scope)
        elif called.repeats:
            yield from walk(called)


def needed_operations(graph: tf.Graph, wanted: Sequence[tf.Operation] | None = None) -> set[str]:
    """Returns the names of the operations that lead to a result or change a variable.

    If ``wanted`` are given, of those that lead to these alone.
    """
    left = list(wanted or [tensor.op for tensor in graph.outputs])
    if wanted is None:
        stateful = [op for op in graph.get_operations() if op.op_def.is_stateful]
        left += [op for op in stateful if op.type != "Placeholder"]
    needed: set[str] = set()
    while left:
        op = left.pop()
        if op.name not in needed:
            needed.add(op.name)
            left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return needed


def _is_kernel(op: tf.Operation) -> bool:
    """Says whether a call is one operation: XLA compiles it, without products in it; or ragged."""
    if not op.type.endswith("PartitionedCall"):
        return False
    if _called_name(op).startswith(RAGGED):
        return True
    if not private.is_compiled(op):
        return False
    inner = {paper_type(each.type) for each in private.called_graph(op, "f").get_operations()}
    return not inner & {*_LOOPS, *_CALLS, *_PRODUCTS}


def _called_name(op: tf.Operation) -> str:
    return _COMPILED.sub("", op.get_attr("f").name)


def _compute(op: tf.Operation, inputs: list[np.ndarray | None]) -> np.ndarray:
    """Runs one operation on known values."""
    names = [argument.name for argument in op.op_def.input_arg]
    masks = {each.name: op.get_attr(each.name) for each in op.op_def.attr if each.type == "int"}
    return getattr(tf.raw_ops, op.type)(**dict(zip(names, inputs, strict=True)), **masks).numpy()


def _viewed(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor that another one is a copy of."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor
