"""Adam as section 4 of Mueller et al. 2022 applies it to the tables."""

import tensorflow as tf

from fathom.core.training.optimizers import Adam, VariableUpdate


class LazyAdam(Adam):
    """Adam that skips values whose sparse gradient is exactly 0: they keep their moments too.

    A batch reads most entries of most levels. So gradients are added up in a dense tensor, and one
    pass updates all: sorting the look-ups takes longer. Dense gradients have Adam's fused kernel.
    """

    _adds_duplicate_rows = True

    def _update(self, update: VariableUpdate) -> None:
        if not isinstance(update.gradient, tf.IndexedSlices):
            super()._update(update)
            return
        gradient = tf.convert_to_tensor(update.gradient)
        mean, square = update.slots["mean"], update.slots["square"]
        beta_1, beta_2, epsilon = (update.scalars[n] for n in ("beta1", "beta2", "epsilon"))
        seen = gradient != 0
        new_mean = mean + (1 - beta_1) * (gradient - mean)
        new_square = square + (1 - beta_2) * (gradient * gradient - square)
        change = update.step_size * new_mean / (tf.sqrt(new_square) + epsilon)
        mean.assign(tf.where(seen, new_mean, mean))
        square.assign(tf.where(seen, new_square, square))
        update.target.assign_sub(tf.where(seen, change, 0))
