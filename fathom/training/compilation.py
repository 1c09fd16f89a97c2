"""A workload's step, compiled for its shapes of batch, one step or several a call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

Step = Callable[..., Any]


def compile_step(step: Step, signatures: Sequence[Sequence[tf.TensorSpec]], xla: bool) -> Any:
    """Traces a step for each shape of batch; with ``xla`` all of it is compiled by XLA.

    Returns:
        a ``ConcreteFunction``, or a ``StepByShape`` where there are several signatures.
    """
    function = tf.function(step, autograph=False, jit_compile=xla)
    traced = {
        tuple(spec.shape for spec in signature): function.get_concrete_function(*signature)
        for signature in signatures
    }
    return StepByShape(traced) if len(traced) > 1 else next(iter(traced.values()))


class StepByShape:
    """A step that was traced for several shapes of batch, and picks the one that fits.

    Args:
        traced: ``ConcreteFunction``s by the shapes of their arguments.

    Attributes:
        graph, structured_outputs: those of the last one, the largest.
    """

    def __init__(self, traced: Mapping[tuple[tf.TensorShape, ...], Any]) -> None:
        self._traced = {tuple(map(tuple, shapes)): step for shapes, step in traced.items()}
        largest = list(traced.values())[-1]
        self.graph, self.structured_outputs = largest.graph, largest.structured_outputs

    def __call__(self, *batch: tf.Tensor) -> Any:
        """Runs the step for a batch."""
        return self._traced[tuple(tuple(tensor.shape) for tensor in batch)](*batch)


class Span:
    """Which steps of a block of batches a call runs: from ``begin`` to before ``end``."""

    def __init__(self) -> None:
        self._current = (0, 0)
        self._variable = tf.Variable([0, 0], dtype=tf.int32, name="span")

    def set(self, begin: int, end: int) -> None:
        """Chooses the steps of the next calls."""
        if (begin, end) != self._current:
            self._current = (begin, end)
            self._variable.assign([begin, end])

    def run(self, step: Any, *block: tf.Tensor) -> Any:
        """Runs steps one after another, in the graph that is being traced.

        Args:
            step: what ``compile_step`` returned for one batch.
            block: the batches, stacked: each tensor [steps, batch, ...].

        Returns:
            what the steps returned, stacked: [steps, ...]; 0 for the steps outside the span.
        """
        begin, end = tf.unstack(self._variable.read_value())

        def one_step(i: tf.Tensor, stacks: Any) -> tuple[tf.Tensor, Any]:
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
