"""What building a workload gives: its network, and what training it needs."""

from dataclasses import dataclass

import keras
import tensorflow as tf

from fathom.core.training.collectives import Collectives
from fathom.core.training.compilation import Batch, Nest
from fathom.core.training.optimizers import Optimizer
from fathom.numbers.simulation import Simulation


@dataclass(frozen=True)
class Built:
    """A workload's network and its variables.

    Attributes:
        network: the functional Keras model.
        inputs, labels: symbolic; labels are an empty tuple if there are none.
        optimizer: the update rule with its state; None in a forward-only model.
        steps_done: training steps since the start of training, int64.
        noise_step: selects a step's random numbers, int64.
        simulation: of fixed point; None in another precision.
        collectives: of a strategy; None on one device.
    """

    network: keras.Model
    inputs: Nest
    labels: Nest
    optimizer: Optimizer | None
    steps_done: tf.Variable
    noise_step: tf.Variable
    simulation: Simulation | None
    collectives: Collectives | None

    def split(self, batch: Batch) -> tuple[Nest, Nest]:
        """Packs a flat batch into the structures of the inputs and the labels."""
        n_inputs = len(keras.tree.flatten(self.inputs))
        inputs = keras.tree.pack_sequence_as(self.inputs, list(batch[:n_inputs]))
        labels = list(batch[n_inputs:])
        return inputs, keras.tree.pack_sequence_as(self.labels, labels) if labels else ()

    def variables(self) -> dict[str, tf.Variable]:
        """Returns the variables that a resumed run needs, by name."""
        found = {v.path.replace("/", "-"): v.value for v in self.network.variables}
        found |= {"steps_done": self.steps_done, "noise_step": self.noise_step}
        if self.optimizer is not None:
            found |= self.optimizer.named_variables()
            found |= {} if self.simulation is None else self.simulation.variables
        return found
