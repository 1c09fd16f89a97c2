"""A workload's step, compiled for its batch shapes, with one or more steps per call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from fathom.errors import FathomError
from fathom.system import private

Batch = tuple[tf.Tensor, ...]
Nest: TypeAlias = Any  # a tensor, or tensors in tuples, lists and dictionaries
Step = Callable[..., Nest]
Signature = Sequence[tf.TensorSpec]
Shapes = tuple[tuple[int, ...], ...]  # of a batch's tensors
ConcreteFunction: TypeAlias = tf.types.experimental.ConcreteFunction


class CompiledStep:
    """A step, traced for each batch shape, and the call that runs it.

    Args:
        step: takes the tensors of one batch.
        signatures: the batch shapes, the largest last.
        steps_per_call: steps that a call runs in sequence; above 1 a call takes a block of stacked
            batches, each tensor [steps, batch, ...].
        xla: XLA compiles the whole call.
        call: runs one step in place of ``single``; None: ``single`` itself.

    Attributes:
        single: one step, a ``ConcreteFunction`` or a ``StepByShape``; its ``graph`` is that of the
            largest shape.
        unseen_shapes: if there are several batch shapes, those that have not run yet.
        call: the function to call; ``single`` itself unless a call runs several steps, or another
            function computes the same.
    """

    def __init__(
        self,
        step: Step,
        signatures: Sequence[Signature],
        steps_per_call: int,
        xla: bool,
        call: Step | None = None,
    ) -> None:
        self._declared, self._leading = signatures, 1 if steps_per_call == 1 else 2
        shapes = {_shapes(signature) for signature in signatures}
        self.unseen_shapes = shapes if len(shapes) > 1 else set()
        self.single = _trace(step, signatures, xla and steps_per_call == 1)
        self.call: Step = call or self.single
        if steps_per_call > 1:
            self._span = Span()
            blocks = [
                [tf.TensorSpec((steps_per_call, *s.shape), s.dtype, s.name) for s in signature]
                for signature in signatures
            ]
            self.call = _trace(lambda *block: self._span.run(self.single, *block), blocks, xla)

    def check(self, batch: Batch) -> None:
        """Raises FathomError if a batch has other types or shapes of examples than declared."""
        examples = _examples(batch, self._leading)
        declared = [_examples(signature, 1) for signature in self._declared]
        fits = (
            len(each) == len(examples)
            and all(map(tf.TensorSpec.is_compatible_with, each, examples))
            for each in declared
        )
        if not any(fits):
            raise FathomError(
                f"a batch has examples of {_described(examples)}: build_inputs and build_labels "
                f"declare {_described(declared[-1])}"
            )

    def choose(self, begin: int, end: int) -> None:
        """Selects the steps ``begin`` to ``end - 1`` of a block for the next calls."""
        self._span.set(begin, end)

    def note_shape(self, batch: Batch) -> bool:
        """Records a batch's shape; returns whether it is the first of one of several shapes.

        TensorFlow optimises the graph of a shape when it first runs.
        """
        shape = _shapes(batch)
        first = shape in self.unseen_shapes
        self.unseen_shapes.discard(shape)
        return first


class StepByShape:
    """A step traced for several batch shapes, which selects the matching one.

    Attributes:
        traced: ``ConcreteFunction``s by their argument shapes.
        graph, structured_outputs: those of the last one, the largest.
    """

    def __init__(self, traced: Mapping[Shapes, ConcreteFunction]) -> None:
        self.traced = traced
        largest = list(traced.values())[-1]
        self.graph, self.structured_outputs = largest.graph, largest.structured_outputs

    def __call__(self, *batch: tf.Tensor) -> Nest:
        """Runs the step for a batch."""
        return self.traced[_shapes(batch)](*batch)


def copied(step: "Traced") -> "Traced":
    """Returns a step of the same graphs with executors of its own."""
    if isinstance(step, StepByShape):
        return StepByShape({shapes: private.copied(each) for shapes, each in step.traced.items()})
    return private.copied(step)


class Span:
    """The steps of a block of batches that a call runs: ``begin`` to ``end - 1``."""

    def __init__(self) -> None:
        self._current = (0, 0)
        self._variable = tf.Variable([0, 0], dtype=tf.int64, name="span")

    def set(self, begin: int, end: int) -> None:
        """Selects the steps of the next calls."""
        if (begin, end) != self._current:
            self._current = (begin, end)
            with tf.device(self._variable.device):
                self._variable.assign([begin, end])

    def run(self, step: "Traced", *block: tf.Tensor) -> Nest:
        """Runs steps in sequence, within the graph being traced.

        Args:
            step: one step, as traced.
            block: the batches, stacked: each tensor [steps, batch, ...].

        Returns:
            the steps' results, stacked: [steps, ...]; 0 for steps outside the span.
        """
        begin, end = tf.unstack(tf.cast(self._variable.read_value(), tf.int32))

        def one_step(i: tf.Tensor, stacks: Nest) -> tuple[tf.Tensor, Nest]:
            values = step(*(tensor[i] for tensor in block))
            return i + 1, tf.nest.map_structure(
                lambda stack, value: stack.write(i, value), stacks, values
            )

        stacks = tf.nest.map_structure(
            lambda spec: tf.TensorArray(spec.dtype, block[0].shape[0], element_shape=spec.shape),
            step.structured_outputs,
        )
        _, stacks = tf.while_loop(lambda i, _: i < end, one_step, (begin, stacks))
        return tf.nest.map_structure(lambda stack: stack.stack(), stacks)


Traced: TypeAlias = "ConcreteFunction | StepByShape"


def _trace(step: Step, signatures: Sequence[Signature], xla: bool) -> Traced:
    """Traces a step for each signature; returns a ``ConcreteFunction`` or a ``StepByShape``."""
    function = tf.function(step, autograph=False, jit_compile=xla)
    traced = {
        _shapes(signature): function.get_concrete_function(*signature) for signature in signatures
    }
    return StepByShape(traced) if len(traced) > 1 else next(iter(traced.values()))


def _shapes(tensors: Sequence[tf.Tensor | tf.TensorSpec]) -> Shapes:
    return tuple(tuple(tensor.shape) for tensor in tensors)


def _examples(tensors: Sequence[tf.Tensor | tf.TensorSpec], leading: int) -> list[tf.TensorSpec]:
    """Returns types and shapes without the leading dimensions."""
    return [tf.TensorSpec(each.shape[leading:], each.dtype) for each in tensors]


def _described(specs: Signature) -> str:
    """Returns types and shapes in words."""
    return ", ".join(f"{spec.dtype.name} {[*spec.shape]}" for spec in specs)
