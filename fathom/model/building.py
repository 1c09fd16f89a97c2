"""Building a workload's network and, for training, its optimizer."""

import keras
import tensorflow as tf

from fathom.core.layers import as_float32
from fathom.core.training.collectives import Collectives
from fathom.core.training.loss_scale import LossScale
from fathom.core.training.optimizers import Optimizer
from fathom.errors import FathomError
from fathom.model.built import Built
from fathom.model.workload import Workload
from fathom.numbers import simulation
from fathom.options import precision_traits


def build(model: Workload, noise_step: tf.Variable) -> Built:
    """Builds a model's network and, in training, its optimizer; nothing is traced yet.

    Args:
        model: a ``fathom.nn.NeuralNetworkModel``, in the placement and precision of its variables.
        noise_step: as in ``Built``.
    """
    execution, trains = model.execution, not model.forward_only
    steps_done = tf.Variable(0, dtype=tf.int64, name="steps_done")
    inputs, labels = model.build_inputs(), model.build_labels()
    network = keras.Model(inputs, as_float32(model.build_inference(inputs)), name=model.name)
    optimizer = _optimizer(model, network) if trains else None
    collectives = None
    if model.strategy:
        collectives = Collectives(model.strategy, execution, model.batch_statistics)
    simulated = simulation.create(network, trains, execution, noise_step, model.new_noise)
    if simulated is not None and optimizer is not None:
        optimizer.wrap = simulated.wrap
    return Built(network, inputs, labels, optimizer, steps_done, noise_step, simulated, collectives)


def _optimizer(model: Workload, network: keras.Model) -> Optimizer:
    optimizer: object = model.build_train()
    if not isinstance(optimizer, Optimizer):
        found, wanted = type(optimizer).__name__, f"{Optimizer.__module__}.{Optimizer.__name__}"
        raise FathomError(f"build_train of {model.name} returns {found}: expected a {wanted}")
    optimizer.build(network.trainable_variables)
    if precision_traits(model.execution.precision).scales_loss:
        optimizer.loss_scale = LossScale()
    return optimizer
