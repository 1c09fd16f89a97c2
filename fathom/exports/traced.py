"""The network's forward pass as one function of named tensors."""

from typing import Any

import keras
import tensorflow as tf

from fathom.exports.format import ExportOptions
from fathom.nn import NeuralNetworkModel
from fathom.training.compilation import ConcreteFunction, Signature

RANDOM = "the random numbers are those of one step, the same at every call"


def signature(model: NeuralNetworkModel, options: ExportOptions) -> Signature:
    """Returns the network's inputs with their names; None where any size is taken.

    Raises:
        FathomError: there is no such length.
    """
    declared = model.signatures()[-1]
    specs = declared if options.length is None else model.signature_of_length(options.length)
    return [
        tf.TensorSpec((options.batch, *spec.shape[1:]), spec.dtype, spec.name)
        for spec in specs[: len(keras.tree.flatten(model.inputs))]
    ]


def forward(model: NeuralNetworkModel, inputs: Signature, compiled: bool = False) -> Any:
    """Returns the forward pass of inference as a ``tf.function``.

    Args:
        model: built.
        inputs: the network's.
        compiled: XLA compiles it.

    Returns:
        of the inputs' tensors, to a dictionary of outputs by name.
    """

    def infer(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        nest = keras.tree.pack_sequence_as(model.inputs, list(tensors))
        with tf.device(model.device):
            return named(model.network(nest, training=False))

    return tf.function(infer, input_signature=inputs, autograph=False, jit_compile=compiled)


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
