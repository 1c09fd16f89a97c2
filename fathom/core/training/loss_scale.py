"""Dynamic loss scaling for training in float16."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from fathom.core.training.replicas import Gradient


class LossScale(tf.Module):
    """A dynamic loss scale for float16: Micikevicius et al. 2018, section 3.2.

    Attributes:
        value: float32 scalar: the factor of the loss.
        good_steps: int64 scalar: steps with finite gradients since the scale last changed.
    """

    growth_interval = 2000

    def __init__(self) -> None:
        super().__init__()
        self.value = tf.Variable(2.0**15, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="good_steps")

    def guard(
        self, gradients: Sequence[Gradient], update: Callable[[list[Gradient]], None]
    ) -> None:
        """Divides gradients by the scale and applies them if all are finite.

        The scale is doubled after 2,000 consecutive good steps. A step with non-finite gradients is
        skipped and halves the scale, down to 1.

        Args:
            gradients: of the scaled loss.
            update: receives the unscaled gradients.
        """
        unscaled = [tf.math.scalar_mul(tf.cast(1 / self.value, g.dtype), g) for g in gradients]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(_values(g))) for g in unscaled])

        def good_step() -> tf.Tensor:
            update(unscaled)
            steps = self.good_steps.assign_add(1)
            return tf.where(steps == self.growth_interval, 2.0, 1.0)

        factor = tf.cond(finite, good_step, lambda: tf.constant(0.5))
        self.value.assign(tf.maximum(factor * self.value, 1.0))
        self.good_steps.assign(tf.where(factor == 1, self.good_steps, tf.constant(0, tf.int64)))


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
