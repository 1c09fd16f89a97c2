"""The network's forward pass, or its parts, as functions of named tensors."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from fathom.core.training.compilation import ConcreteFunction, Signature
from fathom.errors import FathomError
from fathom.exports.format import ExportOptions
from fathom.model.workload import Part
from fathom.nn import NeuralNetworkModel

RANDOM = "the random numbers are those of one step, the same at every call"


def signature(model: NeuralNetworkModel, options: ExportOptions) -> Signature:
    """Returns the network's inputs with their names; None where any size is taken.

    Raises:
        FathomError: there is no such length.
    """
    declared = model.signatures()[-1]
    specs = declared if options.length is None else model.signature_of_length(options.length)
    inputs = specs if model.forward_only else specs[: len(keras.tree.flatten(model.inputs))]
    return [with_batch(spec, options.batch) for spec in inputs]


def parts(model: NeuralNetworkModel, options: ExportOptions) -> dict[str, Part]:
    """Returns what is exported by name: the ``network``, or the parts that infer word by word.

    Raises:
        FathomError: there is no such length, or inference has no parts.
    """
    if not options.stepwise:
        return {"network": Part(_inference(model), signature(model, options))}
    found = model.parts(options.length)
    if not found:
        raise FathomError(f"inference of {model.name} has no steps: omit --stepwise")
    return {
        name: Part(function, [with_batch(spec, options.batch) for spec in inputs])
        for name, (function, inputs) in found.items()
    }


def with_batch(spec: tf.TensorSpec, batch: int | None) -> tf.TensorSpec:
    """Returns an input with another number of examples; None: any."""
    return tf.TensorSpec((batch, *spec.shape[1:]), spec.dtype, spec.name)


def forward(model: NeuralNetworkModel, inputs: Signature, compiled: bool = False) -> Any:
    """Returns the forward pass of a built model as a ``tf.function`` that gives outputs by name."""
    return tf.function(
        _inference(model), input_signature=inputs, autograph=False, jit_compile=compiled
    )


def _inference(model: NeuralNetworkModel) -> Callable[..., dict[str, tf.Tensor]]:
    def infer(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        with model.device.placement():
            return named(model.forward(*tensors))

    return infer


def named(outputs: Any) -> dict[str, tf.Tensor]:
    """Returns the network's outputs by name: ``output``, unless they are a named tuple."""
    if hasattr(outputs, "_asdict"):
        return dict(outputs._asdict())
    flat = keras.tree.flatten(outputs)
    return {"output" if len(flat) == 1 else f"output_{i}": each for i, each in enumerate(flat)}


def draws_random_numbers(traced: ConcreteFunction) -> bool:
    """Says whether an operation of the graph, or of a function it calls, draws random numbers."""
    definition = traced.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return any(node.op.startswith(("StatelessRandom", "StatelessTruncated")) for node in nodes)


def variables(model: NeuralNetworkModel, traced: ConcreteFunction) -> dict[str, tf.Variable]:
    """Returns the variables of the step by different names."""
    found = {variable.path: variable.value for variable in model.network.variables}
    found |= model.optimizer.named_variables() if model.optimizer else {}
    known = {id(variable.handle) for variable in found.values()}
    order = [id(captured) for captured in traced.captured_inputs]
    others = [v for v in traced.graph.variables if id(v.handle) not in known]
    for variable in sorted(others, key=lambda other: order.index(id(other.handle))):
        name = variable.name.partition(":")[0]
        found[name if name not in found else f"other_{name}"] = variable
    return found
