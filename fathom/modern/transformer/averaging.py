"""The mean of the weights that the last epochs ended with (section 6.1)."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from fathom.core.training.values import restored


class EpochMean:
    """Keeps a network's weights of the last ``epochs`` epochs."""

    def __init__(self, weights: Sequence[keras.Variable], epochs: int) -> None:
        self._weights, self._epochs = weights, epochs
        self._ended = tf.Variable(0, dtype=tf.int64, name="kept_epochs")
        self._kept = {
            "kept-" + weight.path.replace("/", "-"): tf.Variable(tf.zeros([epochs, *weight.shape]))
            for weight in weights
        }

    def keep(self, epoch: int) -> None:
        """Keeps the weights that an epoch, from 0, ended with, in place of the oldest."""
        for kept, weight in zip(self._kept.values(), self._weights, strict=True):
            kept[epoch % self._epochs].assign(weight.value)
        self._ended.assign(epoch + 1)

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint holds."""
        return {**self._kept, "kept_epochs": self._ended}

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Gives the network the mean; before an epoch has ended, it keeps its weights."""
        count = min(int(self._ended), self._epochs)
        variables = [weight.value for weight in self._weights]
        with restored(variables):
            for kept, variable in zip(self._kept.values(), variables, strict=True):
                variable.assign(tf.reduce_mean(kept[:count], 0) if count else variable)
            yield
