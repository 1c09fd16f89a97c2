"""Linear start, annealing and restarts of the paper's trainings."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from fathom.core.training.optimizers import Optimizer
from fathom.core.training.values import restored
from fathom.memnet.hyperparameters import MemNetHyperparameters

MeanLoss = Callable[[], float]


class RestartSchedule:
    """Trains a network several times and keeps the weights with the lowest training loss.

    A training begins with the linear start, in which the attention has no softmax, until the
    validation loss stops falling. After it the learning rate is halved at regular intervals.

    Args:
        hyperparameters: of the model.
        seed: of the initial weights of each training except the first.
    """

    def __init__(self, hyperparameters: MemNetHyperparameters, seed: int) -> None:
        self._hyperparameters = hyperparameters
        self._seed = seed
        # The linear start is part of a training; if it ends early, the rest has the softmax.
        self.epochs_each = (
            hyperparameters.epochs
            + hyperparameters.linear_start * hyperparameters.linear_start_epochs
        )
        self.linear = tf.Variable(hyperparameters.linear_start, name="linear")  # without softmax
        self._ended = tf.Variable(0, dtype=tf.int64)  # epochs, of whatever batches they were
        self._linear_epochs = tf.Variable(0, dtype=tf.int64)
        self._lowest_validation_loss = tf.Variable(tf.float64.max, dtype=tf.float64)
        self._lowest_at = tf.Variable(0, dtype=tf.int64)  # in epochs since the training's start
        self._best_loss = tf.Variable(tf.float64.max, dtype=tf.float64)

    def watch(self, weights: Sequence[tf.Variable]) -> None:
        """Sets the weights whose best values are kept."""
        self._weights = list(weights)
        self._best = [tf.Variable(weight, trainable=False) for weight in self._weights]

    def state(self) -> dict[str, tf.Variable]:
        """Returns the variables of a checkpoint."""
        return {
            "linear": self.linear,
            "ended_epochs": self._ended,
            "linear_epochs": self._linear_epochs,
            "lowest_validation_loss": self._lowest_validation_loss,
            "lowest_at": self._lowest_at,
            "best_loss": self._best_loss,
            **{f"best_weights-{i}": best for i, best in enumerate(self._best)},
        }

    def end_epoch(
        self,
        optimizer: Optimizer,
        validation_loss: MeanLoss,
        training_loss: MeanLoss,
        note: Callable[[str, float], None],
    ) -> None:
        """Ends the linear start, anneals the rate or begins the next training, when due.

        Args:
            optimizer: of all trainings.
            validation_loss: computes the mean loss of the validation questions.
            training_loss: likewise for the training questions.
            note: receives the losses by name.
        """
        training, before = divmod(int(self._ended), self.epochs_each)
        done = before + 1
        self._ended.assign_add(1)
        if training >= self._hyperparameters.restarts:
            return
        if self.linear.numpy():
            loss = validation_loss()
            note("validation_loss", loss)
            self._end_linear_start(loss, done)
        elif (done - self._linear_epochs.numpy()) % self._hyperparameters.halve_every == 0:
            optimizer.learning_rate.assign(optimizer.learning_rate / 2)
        if done == self.epochs_each:
            loss = training_loss()
            note("training_loss", loss)
            if loss < self._best_loss.numpy():
                self._best_loss.assign(loss)
                _assign(self._best, self._weights)
            if training + 1 == self._hyperparameters.restarts:
                self.take_best()
            else:
                self._begin(training + 1, optimizer)

    def _end_linear_start(self, loss: float, done: int) -> None:
        """Inserts the softmax if the validation loss no longer falls, or at the limit of epochs."""
        if loss < self._lowest_validation_loss.numpy():
            self._lowest_validation_loss.assign(loss)
            self._lowest_at.assign(done)
        stalled = done - self._lowest_at.numpy()
        limits = self._hyperparameters
        if stalled < limits.linear_start_patience and done < limits.linear_start_epochs:
            return
        self.linear.assign(False)
        self._linear_epochs.assign(done)

    def _begin(self, training: int, optimizer: Optimizer) -> None:
        """Draws new weights and returns to the linear start."""
        rng = np.random.default_rng([self._seed, training])
        for weight in self._weights:
            weight.assign(rng.normal(0, self._hyperparameters.initial_stddev, weight.shape))
        self.linear.assign(self._hyperparameters.linear_start)
        self._linear_epochs.assign(0)
        self._lowest_validation_loss.assign(tf.float64.max)
        self._lowest_at.assign(0)
        optimizer.learning_rate.assign(self._hyperparameters.learning_rate)
        optimizer.forget()

    def take_best(self) -> None:
        """Loads the best training's weights, with softmax, if one has ended."""
        if self._best_loss.numpy() < tf.float64.max:
            _assign(self._weights, self._best)
            self.linear.assign(False)

    @contextlib.contextmanager
    def best_weights(self) -> Iterator[None]:
        """Temporarily swaps in the best weights."""
        with restored([self.linear, *self._weights]):
            self.take_best()
            yield


def _assign(targets: Sequence[tf.Variable], values: Sequence[tf.Variable]) -> None:
    for target, value in zip(targets, values, strict=True):
        target.assign(value)
