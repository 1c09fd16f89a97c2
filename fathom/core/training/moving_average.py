"""Averages of the weights, for use in their place."""

import abc
import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from fathom.core.training.values import restored


class Average(abc.ABC):
    """An average of a network's weights."""

    def __init__(self, weights: Sequence[keras.Variable]) -> None:
        self._weights = [weight.value for weight in weights]

    @abc.abstractmethod
    def apply(self) -> None:
        """Gives the network the average."""

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Gives the network the average for a while."""
        with restored(self._weights):
            self.apply()
            yield


class MovingAverage(Average):
    """a <- d a + (1 - d) w after each step, with d = min(decay, (1 + n) / (10 + n)) at step n."""

    def __init__(self, weights: Sequence[keras.Variable], decay: float) -> None:
        super().__init__(weights)
        self._decay = decay
        self.state = {  # what a checkpoint holds
            "average-" + weight.path.replace("/", "-"): tf.Variable(weight.value, trainable=False)
            for weight in weights
        }
        self._update = tf.function(self._move, autograph=False)

    def update(self, step: int) -> None:
        """Follows the weights after a step, counting from 1."""
        self._update(tf.constant(min(self._decay, (1 + step) / (10 + step)), tf.float32))

    def _move(self, decay: tf.Tensor) -> None:
        for average, weight in zip(self.state.values(), self._weights, strict=True):
            average.assign_add((1 - decay) * (weight - average))

    def apply(self) -> None:
        """Gives the network the average."""
        for average, weight in zip(self.state.values(), self._weights, strict=True):
            weight.assign(average)
