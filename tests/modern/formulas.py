"""What the tests of several workloads share: formulas in NumPy, and weights other than initial."""

import numpy as np


def perturbed(model, scale=0.3):
    """Moves a model's weights, so that biases and gates are more than next to nothing."""
    rng = np.random.default_rng(0)
    for variable in model.network.variables:
        variable.assign(variable + rng.normal(0, scale, variable.shape))
    return model


def weights_of(network):
    """Returns the weights in float64, by layer and name."""
    found = {}
    for variable in network.trainable_variables:
        layer, name = variable.path.split("/")
        found.setdefault(layer, {})[name] = variable.numpy().astype(np.float64)
    return found


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rms_normalized(x, w):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w["scale"]


def swiglu(x, kernel, projection):
    gates, values = np.split(x @ kernel, 2, -1)
    return silu(gates) * values @ projection
