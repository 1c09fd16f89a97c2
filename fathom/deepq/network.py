"""The Q-network: Mnih et al. 2015, methods, "Model architecture"."""

import math
from collections.abc import Callable

import keras
from keras import layers

from fathom.deepq.hyperparameters import NETWORKS


def q_network(
    state: keras.KerasTensor, year: int, actions: int, new_seed: Callable[[], int]
) -> keras.KerasTensor:
    """Returns Q(s, a) for every action a: float32 [batch, actions].

    Args:
        state: uint8 [batch, 84, 84, 4].
        year: of the paper whose network is built, a key of ``NETWORKS``.
        actions: number of actions.
        new_seed: returns a seed for each initializer.
    """

    def initializers(fan_in: int) -> dict[str, keras.initializers.Initializer]:
        """Weights and biases are uniform within 1 / sqrt(fan in), as in the released code."""
        limit = 1 / math.sqrt(fan_in)
        return {
            name: keras.initializers.RandomUniform(-limit, limit, seed=new_seed())
            for name in ("kernel_initializer", "bias_initializer")
        }

    convolutions, hidden_units = NETWORKS[year]
    x = layers.Rescaling(1 / 255, name="scale")(state)
    for number, (filters, kernel, stride) in enumerate(convolutions, 1):
        fan_in, name = kernel * kernel * x.shape[-1], f"conv{number}"
        x = layers.Conv2D(
            filters, kernel, stride, activation="relu", name=name, **initializers(fan_in)
        )(x)
    x = layers.Flatten(name="flat")(x)
    x = layers.Dense(hidden_units, activation="relu", name="hidden", **initializers(x.shape[-1]))(x)
    return layers.Dense(actions, name="q_values", **initializers(x.shape[-1]))(x)
