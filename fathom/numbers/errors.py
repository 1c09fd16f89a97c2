"""Errors of fixed-point inference against float32, layer by layer."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from fathom.numbers.network import outputs_of, passed
from fathom.numbers.simulation import KEEPS_VALUES


def by_layer(
    plain: keras.Model, simulated: keras.Model, inputs: Sequence[tf.Tensor]
) -> dict[str, float]:
    """Returns how far each layer's output is from float32's, with the errors of those before it.

    Args:
        plain: the network in float32.
        simulated: the same network under a ``Simulation``, with rounded weights of its own.
        inputs: a batch, in the order of the networks' inputs.

    Returns:
        by layer or float32 input, in the network's order: root mean square of the difference over
        the root mean square in float32; 0 where float32's is 0. Of a layer that is called twice,
        at its first call.
    """
    exact, values = (_values(network, inputs) for network in (plain, simulated))
    # The graphs are alike, and with them the order of layers; names that Keras chose are not.
    return {
        name: _relative(value, expected)
        for (name, expected), (_, value) in zip(exact, values, strict=True)
    }


def _values(network: keras.Model, inputs: Sequence[tf.Tensor]) -> list[tuple[str, np.ndarray]]:
    """Returns the float32 inputs and outputs of a network's layers, as the next layers get them."""
    named, given = outputs_of(network, KEEPS_VALUES), passed(network, inputs)
    of_layers = keras.Model(network.inputs, [tensor for _, tensor in named])(given)
    names = [tensor.name for tensor in network.inputs] + [name for name, _ in named]
    tensors = [*given, *of_layers]
    return [
        (name, tensor.numpy())
        for name, tensor in zip(names, tensors, strict=True)
        if tensor.dtype == tf.float32
    ]


def _relative(value: np.ndarray, expected: np.ndarray) -> float:
    size = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    error = float(np.sqrt(np.mean(np.square(value.astype(np.float64) - expected))))
    return error / size if size else 0.0
