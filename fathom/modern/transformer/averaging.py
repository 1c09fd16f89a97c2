"""The mean of the weights that the last epochs ended with (section 6.1)."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from fathom.core.training.moving_average import Average


class EpochMean(Average):
    """Keeps a network's weights of the last ``epochs`` epochs."""

    def __init__(self, weights: Sequence[keras.Variable], epochs: int) -> None:
        super().__init__(weights)
        self._epochs = epochs
        self._ended = tf.Variable(0, dtype=tf.int64, name="kept_epochs")
        self._kept = {
            "kept-" + weight.path.replace("/", "-"): tf.Variable(tf.zeros([epochs, *weight.shape]))
            for weight in weights
        }

    def keep(self) -> None:
        """Keeps the weights at the end of an epoch, in place of the oldest."""
        for kept, weight in zip(self._kept.values(), self._weights, strict=True):
            kept[int(self._ended) % self._epochs].assign(weight)
        self._ended.assign_add(1)

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint holds."""
        return {**self._kept, "kept_epochs": self._ended}

    def apply(self) -> None:
        """Gives the network the mean; before an epoch has ended, it keeps its weights."""
        count = min(int(self._ended), self._epochs)
        for kept, weight in zip(self._kept.values(), self._weights, strict=True):
            if count:
                weight.assign(tf.reduce_mean(kept[:count], 0))
