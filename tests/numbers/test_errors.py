import keras
import numpy as np
import tensorflow as tf

from fathom.numbers.errors import by_layer
from fathom.numbers.simulation import Simulation
from fathom.options import FixedPoint

X = tf.constant(np.random.default_rng(0).normal(size=(6, 3)), tf.float32)


def network():
    inputs = keras.Input((3,), name="x")
    normal = keras.initializers.RandomNormal(stddev=1.0, seed=1)
    hidden = keras.layers.Dense(5, "tanh", kernel_initializer=normal, name="hidden")(inputs)
    dead = keras.layers.Dense(2, "relu", kernel_initializer="zeros", name="dead")(hidden)
    return keras.Model(inputs, dead)


def errors(fraction):
    simulated, step = network(), tf.Variable(0, False, dtype=tf.int64)
    kinds = ("weights", "activations")
    chosen = FixedPoint(16, fraction)
    simulation = Simulation(simulated, False, chosen, kinds, "saturate", step, None)
    simulation.begin()
    return by_layer(network(), simulated, [X])


def test_an_error_is_relative_to_float32_and_grows_through_the_layers():
    found = errors(6)
    rounded = np.round(X.numpy() * 64) / 64
    expected = np.sqrt(np.mean((rounded - X) ** 2) / np.mean(X**2))
    assert list(found) == ["x", "hidden", "dead"]
    assert abs(found["x"] - expected) < 1e-7
    assert found["hidden"] > 0
    assert found["dead"] == 0  # its output is 0 in both


def test_a_bit_less_doubles_the_errors():
    coarse, fine = errors(4), errors(8)
    for name in ("x", "hidden"):
        assert 8 < coarse[name] / fine[name] < 32
