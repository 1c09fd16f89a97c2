"""Learning-rate schedules."""

import math

import tensorflow as tf

from fathom.core.training import strategies


def warmed_cosine(step: int, highest: float, warmup: int, end: int, lowest: float = 0.1) -> float:
    """Returns the rate of a step: rising linearly, then falling along half a cosine.

    Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", section 4.1.

    Args:
        step: counting from 0.
        highest: rate after the warm-up.
        warmup: steps of the warm-up.
        end: step from which on the rate is the lowest.
        lowest: rate from then on, as a share of the highest.
    """
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, end - warmup))
    return highest * (lowest + (1 - lowest) * (1 + math.cos(math.pi * done)) / 2)


class Plateau(tf.Module):
    """Lowers the learning rate when a monitored value stops falling.

    Its state is part of a checkpoint.

    Attributes:
        best: float64 scalar: the lowest value so far; initially the largest float.
        stalled: int64 scalar: number of values since then or since the rate was lowered.
    """

    def __init__(self, learning_rate: tf.Variable, factor: float, patience: int = 1) -> None:
        """Schedules a rate.

        Args:
            learning_rate: of an optimizer.
            factor: divisor of the rate.
            patience: number of consecutive values without a new minimum that lowers the rate.
        """
        super().__init__()
        self._learning_rate, self._factor, self._patience = learning_rate, factor, patience
        self.best = tf.Variable(tf.float64.max, dtype=tf.float64, trainable=False, name="best")
        self.stalled = tf.Variable(0, dtype=tf.int64, trainable=False, name="stalled")

    def update(self, value: float) -> bool:
        """Records a new value; returns whether it lowered the rate. NaN is not an improvement.

        Workers record the first one's value: their own may differ, as batch statistics do.

        Raises:
            FathomError: the first worker was lost.
        """
        value = strategies.of_first(value)
        if value < self.best.numpy():
            self.best.assign(value)
            self.stalled.assign(0)
            return False
        if self.stalled.assign_add(1).numpy() < self._patience:
            return False
        self._learning_rate.assign(self._learning_rate / self._factor)
        self.stalled.assign(0)
        return True
