"""Errors of fixed-point inference against float32, layer by layer."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from fathom.numbers.network import inserted
from fathom.numbers.rounder import Rounded
from fathom.numbers.simulation import KEEPS_VALUES


def by_layer(
    plain: keras.Model, simulated: keras.Model, inputs: Sequence[tf.Tensor]
) -> dict[str, float]:
    """Returns how far each layer's output is from float32's, with the errors of those before it.

    Args:
        plain: the network in float32.
        simulated: the network of ``Simulation``, with rounded weights of its own.
        inputs: a batch, in the order of the networks' inputs.

    Returns:
        by layer or float32 input, in the network's order: root mean square of the difference over
        the root mean square in float32; 0 where float32's is 0.
    """
    rounded = [layer for layer in simulated.layers if isinstance(layer, Rounded)]
    if not rounded:  # activations are not
        return {}
    noted = inserted(plain, _note, KEEPS_VALUES)
    # The graphs are alike, and with them the order of layers; names that Keras chose are not.
    exact = [layer for layer in noted.layers if isinstance(layer, _Noted)]
    values = keras.Model(simulated.inputs, [layer.output for layer in rounded])(inputs)
    expected = keras.Model(noted.inputs, [layer.output for layer in exact])(inputs)
    return {
        layer.name.removesuffix("_noted"): _relative(value.numpy(), tensor.numpy())
        for layer, value, tensor in zip(exact, values, expected, strict=True)
    }


class _Noted(keras.layers.Identity):
    """Marks a layer's output."""


def _note(tensor: keras.KerasTensor, name: str, is_input: bool) -> keras.KerasTensor:
    return _Noted(name=f"{name}_noted")(tensor)


def _relative(value: np.ndarray, expected: np.ndarray) -> float:
    size = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    error = float(np.sqrt(np.mean(np.square(value.astype(np.float64) - expected))))
    return error / size if size else 0.0
