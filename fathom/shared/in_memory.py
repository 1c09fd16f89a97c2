"""Workloads whose examples are all in memory, from which batches are gathered."""

from collections.abc import Iterator

import keras
import tensorflow as tf

from fathom import nn
from fathom.core.data.pipeline import DataLoader, Sampler, Tensors


class InMemory(nn.NeuralNetworkModel):
    """Gathers batches from tensors of all examples.

    Attributes:
        training, test: of each input and label, [examples, ...], on the CPU; ``load_data`` sets
            them.
    """

    training: Tensors
    test: Tensors

    def prepare(self, batch: Tensors, seed: tf.Tensor) -> Tensors:
        """Returns gathered examples as the network reads them; int64 [2], the batch's own seed."""
        return batch

    @property
    def evaluated(self) -> int:
        """Test examples in a batch; a subclass may set an attribute instead."""
        return self.hyperparameters.batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training examples."""
        return len(self.training[0]) // self.hyperparameters.batch_size

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of training examples from ``first_step`` on."""
        return self._stream(self.training, first_step, shuffle=True)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of the inputs of test examples, cycling through them."""
        inputs = keras.tree.flatten(self.build_inputs())  # labels follow them
        return self._stream(self.test[: len(inputs)], 0, shuffle=False)

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the test examples once, always prepared in the same way."""
        for start in range(0, len(self.test[0]), self.evaluated):
            batch = tuple(each[start : start + self.evaluated] for each in self.test)
            yield self.prepare(batch, tf.constant([self.execution.seed, start], tf.int64))

    def _stream(self, examples: Tensors, first_step: int, shuffle: bool) -> Iterator[Tensors]:
        size, seed = self.hyperparameters.batch_size, self.execution.seed
        order = Sampler(len(examples[0]), size, seed, shuffle)

        def load(rows: tf.Tensor, seeds: tf.Tensor) -> Tensors:
            return self.prepare(tuple(tf.gather(each, rows) for each in examples), seeds[0])

        return DataLoader(order, load, first_step, steps_per_call=self.steps_per_call)
