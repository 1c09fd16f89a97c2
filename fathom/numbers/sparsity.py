"""Zeros in a network's tensors, the work that skipping them would save, and pruning."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from fathom.core.training.optimizers import is_weight_matrix
from fathom.numbers.network import Change, both_ways, pass_through
from fathom.results.cost import Cost
from fathom.system import private

Key: TypeAlias = tuple[str, str]  # name of a layer or input; ``weights``, or which tensor


class ZeroCounter(tf.Module):
    """Counts zeros of one tensor in the graph of a step."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = tf.Variable(tf.zeros(2, tf.int64), trainable=False)

    def __call__(self, x: tf.Tensor, passed: tf.Tensor) -> tf.Tensor:
        """Counts the values and the zeros of a tensor of any shape; returns another."""
        values = tf.size(x, tf.int64)
        self._counts.assign_add(tf.stack([values, values - tf.math.count_nonzero(x)]))
        return tf.identity(passed)

    def take(self) -> float:
        """Returns the share of zeros since the last call, NaN if there were no values."""
        values, zeros = self._counts.numpy()
        self._counts.assign([0, 0])
        return zeros / values if values else float("nan")


class Observation:
    """Counts zeros in a network while it runs, in steps traced from now on.

    Args:
        network: functional, in float32; its layers' calls are changed.
        weights: selects the variables whose zeros count as a layer's weights.
    """

    def __init__(self, network: keras.Model, weights: Callable[[keras.Variable], bool]) -> None:
        self._is_weight = weights
        self._counters: dict[Key, ZeroCounter] = {}
        self._layers = network.layers
        self._named = {layer.name: layer for layer in network.layers}
        pass_through(network, self._counting_of)

    def take(self) -> dict[Key, float]:
        """Returns the shares of zeros since the last call, and those in the weights now."""
        shares = {key: counter.take() for key, counter in self._counters.items()}
        for layer in self._layers:
            weights = [*filter(self._is_weight, layer.trainable_variables)]
            if weights:
                values = np.concatenate([variable.numpy().ravel() for variable in weights])
                shares[layer.name, "weights"] = float(np.mean(values == 0))
        return shares

    def _counting_of(self, layer: str, is_input: bool) -> Change:
        outputs = self._counter(layer, "output")
        gradients = self._counter(layer, "gradient of output")
        to_products = _to_products(self._named.get(layer))
        return lambda x: both_ways(
            x, lambda x: outputs(x, x), lambda dy: gradients(to_products(x, dy), dy)
        )

    def _counter(self, layer: str, tensor: str) -> ZeroCounter:
        self._counters[layer, tensor] = counter = ZeroCounter()
        return counter


def _to_products(layer: keras.Layer | None) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns the function of a layer's output and its gradient that gives that of its products."""
    rectifier = getattr(layer, "activation", None) is keras.activations.relu
    if rectifier or getattr(layer, "clip", None) is not None:  # a clipped one
        return lambda x, dy: tf.where(x == 0, tf.zeros_like(dy), dy)
    if hasattr(layer, "normalization"):  # each value of a batch is part of the others' gradients
        return lambda x, dy: tf.ones_like(dy)
    return lambda x, dy: dy


def savings(network: keras.Model, cost: Cost, zeros: dict[Key, float]) -> pd.DataFrame:
    """Returns the work that a machine would save that skips every product with a zero.

    The zeros of the two factors of a product are taken as independent.

    Args:
        network: functional, without counters.
        cost: of the network.
        zeros: shares of zeros by layer and tensor, as from ``Observation.take``.

    Returns:
        one row per layer with multiply-accumulates, in the network's order: layer, macs (forward,
        per example), zeros in its input, weights (without any: its second input), output and
        gradient of the output, and the saved share of the forward pass and of a training step; NaN
        where nothing was counted.
    """
    rows = []
    for each in cost.layers:
        if not each.macs:
            continue
        sources = keras.tree.flatten(network.get_layer(each.name).input)[:2]
        x, *second = (zeros.get((_maker(source), "output"), 0.0) for source in sources)
        w = zeros.get((each.name, "weights"), second[0] if second else 0.0)
        dy = zeros.get((each.name, "gradient of output"), float("nan"))
        forward, of_weights, of_input = (
            1 - (1 - a) * (1 - b) for a, b in ((x, w), (x, dy), (dy, w))
        )
        passes = [forward] * each.forward_passes + [of_weights]
        passes += [] if each.reads_input else [of_input]
        output, trained = zeros.get((each.name, "output"), float("nan")), float(np.mean(passes))
        rows.append((each.name, each.macs, x, w, output, dy, forward, trained))
    columns = ["layer", "macs", "input", "weights", "output", "gradient", "saved forward"]
    return pd.DataFrame(rows, columns=[*columns, "saved in training"])


def _maker(tensor: keras.KerasTensor) -> str:
    """Returns the name of the layer, or of the input, that a symbolic tensor comes from."""
    operation, index = private.maker(tensor)
    if isinstance(operation, keras.layers.InputLayer):
        return tensor.name
    return f"{operation.name}_{index}" if index else operation.name


def prune(variables: Sequence[keras.Variable], density: float) -> None:
    """Sets the smallest weights of each matrix or kernel to zero.

    Args:
        variables: of a network; biases and scales are left alone.
        density: share of the weights of each that keeps its value, the largest in magnitude.
    """
    for variable in filter(is_weight_matrix, variables):
        values = variable.numpy()
        magnitudes = np.abs(values).ravel()
        kept = round(density * magnitudes.size)
        smallest = np.argsort(magnitudes, kind="stable")[: magnitudes.size - kept]
        values.ravel()[smallest] = 0
        variable.assign(values)
