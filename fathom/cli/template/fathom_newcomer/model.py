"""The newcomer workload: a network of two hidden layers that classifies points of the plane."""

from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers

from fathom.core.training.optimizers import Adam, Optimizer
from fathom.options import Hyperparameters, hyperparameter
from fathom.shared.in_memory import InMemory
from fathom.system.device import CPU
from fathom_newcomer.descriptor import DESCRIPTOR
from fathom_newcomer.points import CLASSES, Points


@dataclass(frozen=True)
class NewcomerHyperparameters(Hyperparameters):
    """What can be set on the command line; ``source`` is the place in the paper."""

    batch_size: int = hyperparameter(50, "per step", unit="points", minimum=1)
    hidden_units: int = hyperparameter(32, "of each hidden layer", minimum=1)
    learning_rate: float = hyperparameter(0.01, "of Adam")


class Newcomer(InMemory):
    """The classifier: 2 - 32 tanh - 32 tanh - 3."""

    descriptor = DESCRIPTOR
    Hyperparameters = NewcomerHyperparameters
    hyperparameters: NewcomerHyperparameters
    example = "points"
    default_steps = 1_000

    def load_data(self) -> None:
        """Reads the points."""
        points: Points = self.dataset.load(self.source.directory)
        with CPU.placement():
            self.training = tf.constant(points.train_points), tf.constant(points.train_classes)
            self.test = tf.constant(points.test_points), tf.constant(points.test_classes)

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the points: float32 [batch, 2]."""
        return keras.Input((2,), name="points")

    def build_labels(self) -> keras.KerasTensor:
        """Returns the classes: int32 [batch], from 0 to 2."""
        return keras.Input((), dtype="int32", name="classes")

    def build_inference(self, points: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the logits of the classes: float32 [batch, 3]."""
        units = self.hyperparameters.hidden_units
        x = self._dense(units, "hidden1", activation="tanh")(points)
        x = self._dense(units, "hidden2", activation="tanh")(x)
        return self._dense(CLASSES, "logits")(x)

    def build_loss(self, points: tf.Tensor, classes: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of the batch, in nats."""
        return tf.reduce_mean(_cross_entropy(classes, logits))

    def build_train(self) -> Optimizer:
        """Returns Adam."""
        return Adam(self.hyperparameters.learning_rate)

    def build_evaluation(
        self, points: tf.Tensor, classes: tf.Tensor, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each point's cross-entropy, in nats, and whether its class is found."""
        found = tf.argmax(logits, axis=1, output_type=tf.int32) == classes
        return {
            "accuracy": tf.cast(found, tf.float32),
            "cross_entropy": _cross_entropy(classes, logits),
        }

    def _dense(self, units: int, name: str, activation: str | None = None) -> layers.Dense:
        weights = keras.initializers.GlorotUniform(seed=self.new_seed())
        return layers.Dense(units, activation=activation, kernel_initializer=weights, name=name)


class NewcomerFwd(Newcomer):
    """The classifier, inference only."""

    forward_only = True


def _cross_entropy(classes: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns the cross-entropy of each point, in nats, [batch]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)
