"""What a workload defines: its data, network, loss and update rule, and the hooks of a run."""

import abc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras
import tensorflow as tf

from fathom import options
from fathom.data import DataSet
from fathom.training.optimizers import Optimizer

Batch = tuple[tf.Tensor, ...]


class Workload(abc.ABC):
    """What a workload must define and what it may; ``nn.NeuralNetworkModel`` does the rest.

    Attributes:
        name: short name, the one of the package.
        title: name of the network and its paper, for a person.
        dataset: the data set.
        Hyperparameters: the dataclass of the workload's choices.
        example: what one example is, in the plural, for a person.
        default_steps: steps of a run that is told no number.
        default_xla: what XLA compiles unless the user chooses: see ``xla``; measured.
        forward_only: inference without labels, loss and optimizer; set in the ``Fwd`` twins.
        hyperparameters: the workload's choices.
        network: the functional Keras model, once it is built.
        inputs, labels: its symbolic inputs, and the symbolic labels.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    dataset: ClassVar[type[DataSet]]
    Hyperparameters: ClassVar[type[options.Hyperparameters]]
    example: ClassVar[str] = "examples"
    default_steps: ClassVar[int] = 100
    default_xla: ClassVar[str] = "off"
    forward_only: ClassVar[bool] = False

    hyperparameters: options.Hyperparameters
    network: keras.Model
    inputs: Any
    labels: Any

    # ---------------------------------------------------------------- must be defined

    @abc.abstractmethod
    def load_data(self) -> None:
        """Reads the data set in ``self.source.directory``.

        Raises:
            FathomError: the data cannot be used.
        """

    @abc.abstractmethod
    def build_inputs(self) -> Any:
        """Returns the network's Keras inputs, the batch dimension None: a tensor or a nest."""

    @abc.abstractmethod
    def build_labels(self) -> Any:
        """Returns Keras inputs for the labels; an empty tuple where there are none."""

    @abc.abstractmethod
    def build_inference(self, inputs: Any) -> Any:
        """Returns the network's symbolic outputs for symbolic inputs: a tensor or a nest."""

    @abc.abstractmethod
    def build_loss(self, inputs: Any, labels: Any, outputs: Any) -> tf.Tensor:
        """Returns the loss of a batch, a float32 scalar; the arguments are real tensors."""

    @abc.abstractmethod
    def build_train(self) -> Optimizer:
        """Returns the update rule."""

    @abc.abstractmethod
    def build_evaluation(self, inputs: Any, labels: Any, outputs: Any) -> dict[str, tf.Tensor]:
        """Returns the metrics of each example by name, float32 [batch]; real tensors."""

    @abc.abstractmethod
    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of (inputs..., labels...) from ``first_step`` on."""

    @abc.abstractmethod
    def inference_batches(self) -> Iterator[Batch]:
        """Returns an endless stream of (inputs...) for forward-only runs."""

    @abc.abstractmethod
    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns one pass over the test data: (inputs..., labels...), the last may be smaller."""

    @property
    @abc.abstractmethod
    def steps_per_epoch(self) -> int:
        """Number of training steps in one pass over the training data."""

    # ---------------------------------------------------------------- may be defined

    def build_hyperparameters(self, values: Mapping[str, Any]) -> options.Hyperparameters:
        """Returns the workload's choices, the given ones in place of the defaults."""
        return options.build(self.Hyperparameters, values)

    @property
    def steps_per_call(self) -> int:
        """Steps that one call of the compiled step runs, one after another.

        Above 1, the streams of training and inference yield blocks: so many batches stacked, the
        first of them a multiple of this number; ``runstep`` sees a block and the losses [steps],
        or the outputs [steps, batch, ...], 0 for those of its steps that did not run.
        """
        return 1

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns the shapes of batch that the step is compiled for; the largest comes last."""
        declared = keras.tree.flatten(self.inputs)
        if not self.forward_only:
            declared = declared + keras.tree.flatten(self.labels)
        size = self.hyperparameters.batch_size
        return [[tf.TensorSpec((size, *t.shape[1:]), t.dtype, t.name) for t in declared]]

    def work(self, *batch: tf.Tensor) -> float:
        """Returns a batch's work, in units of ``batch_size`` examples of ``cost()``."""
        return 1.0

    def evaluation_outputs(self, inputs: Any) -> Any:
        """Returns the outputs that are evaluated for real inputs: the network's."""
        return self.network(inputs, training=False)

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the metrics of the test data from their sums over its examples: means."""
        return {name: total / examples for name, total in sums.items()}

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint holds beside the network, the optimizer and the counters."""
        return {}

    def save_state(self) -> None:
        """Called before a checkpoint is written: brings the variables of ``state`` up to date."""

    def restore_state(self) -> None:
        """Called after a checkpoint was restored: takes up the variables of ``state``."""

    def change_learning_rate(self, before: float, now: float) -> None:
        """Called where a resumed training is told another learning rate than it had.

        The optimizer's changes in proportion: it stays lowered as far as a schedule had lowered it.
        """
        rate = self.optimizer.learning_rate
        rate.assign(rate * (now / before) if before else now)

    def end_step(self, number: int) -> None:
        """Called after each training step, counted from 0."""

    def end_epoch(self, epoch: int) -> None:
        """Called after the last step of each epoch, counted from 0; schedules live here."""

    def describe_data(self) -> dict[str, Any]:
        """Returns what a result should say about the data, beside its place and kind."""
        return {}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes pictures of what the network has learned; returns their paths."""
        return []
