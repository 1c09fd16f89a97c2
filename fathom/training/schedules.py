"""Schedules of the learning rate."""

import tensorflow as tf


class Plateau(tf.Module):
    """Lowers the learning rate when a monitored value stops falling.

    A checkpoint keeps its state.

    Attributes:
        best: float64 scalar: the lowest value seen; the largest number before any was.
        stalled: int64 scalar: checks since then, or since the rate was last lowered.
    """

    def __init__(self, learning_rate: tf.Variable, factor: float, patience: int = 1) -> None:
        """Watches over a rate.

        Args:
            learning_rate: an optimizer's.
            factor: what the rate is divided by.
            patience: the number of checks in a row without a new lowest value that lowers it.
        """
        super().__init__()
        self._learning_rate, self._factor, self._patience = learning_rate, factor, patience
        self.best = tf.Variable(tf.float64.max, dtype=tf.float64, trainable=False, name="best")
        self.stalled = tf.Variable(0, dtype=tf.int64, trainable=False, name="stalled")

    def update(self, value: float) -> bool:
        """Notes a new value; returns whether that lowered the rate. NaN is no improvement."""
        if value < self.best.numpy():
            self.best.assign(value)
            self.stalled.assign(0)
            return False
        if self.stalled.assign_add(1).numpy() < self._patience:
            return False
        self._learning_rate.assign(self._learning_rate / self._factor)
        self.stalled.assign(0)
        return True
