"""What a training step computes, compared between precisions and with and without XLA."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from fathom.core.training.optimizers import Gradient
from fathom.nn import NeuralNetworkModel
from fathom.testing.descriptors import Tested

Values = dict[str, np.ndarray]

# Largest relative errors of (an output, a gradient). Half a unit in the last place is 2^-9 in
# bfloat16, 2^-12 in float16 and 2^-25 in float32; a dozen layers make three to eight times as much
# of it. Gradients have more, because rounding moves values over a rectifier's corner and picks
# another pixel in max pooling: up to 0.22, 0.07 and, by XLA's other CTC loss, 0.0013 were seen.
TOLERANCES = {"bfloat16": (0.05, 0.3), "float16": (0.01, 0.3), "float32": (1e-5, 0.005)}


def compute(
    workload: Tested, plant: Callable[[keras.Model], None] | None = None, **options: Any
) -> Values:
    """Returns the outputs and gradients of one training step, by name.

    Seed and options fix the weights and what is drawn at random; the batch is always the same. The
    network has few layers, and ``plant`` changes it before it computes.
    """
    with few_layers(workload):
        model = workload.model(**options)
        model.load_data()
        model.build()
    for variable in model.network.trainable_variables:
        if variable.path.endswith("norm/offset"):  # keeps most values from a rectifier's corner
            variable.assign(variable + 1)
    if plant is not None:
        plant(model.network)
    with model.device.placement():
        step = tf.function(_step_of(model), autograph=False, jit_compile=model.xla == "step")
        outputs, gradients = step(*_batch_of(workload))
        while not all(np.isfinite(gradient).all() for gradient in gradients):
            scale = model.optimizer and model.optimizer.loss_scale
            assert scale is not None
            assert scale.value > 1, "a gradient is not finite"
            scale.value.assign(scale.value / 2)
            outputs, gradients = step(*_batch_of(workload))
    paths = [variable.path for variable in model.network.trainable_variables]
    values = {f"output {i}": output.numpy() for i, output in enumerate(outputs)}
    return values | {f"gradient of {p}": g.numpy() for p, g in zip(paths, gradients, strict=True)}


@functools.cache
def default_values(workload: Tested) -> Values:
    """Returns what ``compute`` returns in float32 without XLA."""
    return compute(workload, xla=False)


def compare(values: Values, expected: Values, precision: str) -> None:
    """Raises AssertionError where an output or a gradient, or all gradients, are too far off.

    The error of a tensor is the norm of the difference over the norm of what was expected.
    """
    of_output, of_gradient = TOLERANCES[precision]
    for name in expected:
        error = _error(values[name], expected[name])
        assert error < (of_output if name.startswith("output") else of_gradient), (name, error)
    gradients = [name for name in expected if name.startswith("gradient")]
    error = _error(*(np.concatenate([v[n].ravel() for n in gradients]) for v in (values, expected)))
    assert error < of_gradient, ("all gradients", error)


def plant_fault(network: keras.Model, fault: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Passes the outputs of the last layer but one that has weights through ``fault``.

    Before it a wrong scale can be no fault: a normalisation that comes next takes it away.
    """
    layer = [layer for layer in network.layers if layer.trainable_variables][-2]
    call = layer.call
    layer.call = lambda *inputs, **options: tf.nest.map_structure(fault, call(*inputs, **options))


def _error(values: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))


def _step_of(model: keras.Model) -> Callable[..., tuple[list[tf.Tensor], list[tf.Tensor]]]:
    """Returns the function of a batch that returns a training step's outputs and gradients."""

    def step(*batch: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        inputs, labels = model.built.split(batch)
        with tf.GradientTape() as tape:
            outputs = model.network(inputs, training=True)
            loss = model.optimizer.scale(model.build_loss(inputs, labels, outputs))
        scale = model.optimizer.scale(tf.constant(1.0))
        gradients = tape.gradient(loss, model.network.trainable_variables)
        return keras.tree.flatten(outputs), [tf.convert_to_tensor(g) / scale for g in gradients]

    return step


def gradients_of(model: NeuralNetworkModel, batch: tuple[tf.Tensor, ...]) -> list[Gradient]:
    """Returns the gradients of a batch's loss, within the graph being traced."""
    inputs, labels = model.built.split(batch)
    with tf.GradientTape() as tape:
        loss = model.build_loss(inputs, labels, model.network(inputs, training=True))
    return tape.gradient(loss, model.network.trainable_variables)


@functools.cache
def _batch_of(workload: Tested) -> tuple[tf.Tensor, ...]:
    return next(workload.ready().training_batches(0))


@contextlib.contextmanager
def few_layers(workload: Tested) -> Iterator[None]:
    """Builds a deep network with few layers: each adds noise to the gradients of a rectifier."""
    with contextlib.ExitStack() as stack:
        for name, value in workload.few_layers.items():
            stack.enter_context(mock.patch(f"{workload.model_class().__module__}.{name}", value))
        yield
