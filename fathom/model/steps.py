"""The steps of a built workload, within the graphs that trace them."""

import contextlib
from collections.abc import Callable

import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.compilation import Batch, Nest
from fathom.errors import FathomError
from fathom.hardware.description.attribution import scoped_gradients
from fathom.hardware.description.edges import held, size_of
from fathom.hardware.description.step import operations
from fathom.model.microbatches import divided, of_phases
from fathom.model.workload import Workload
from fathom.numbers.packed import packed
from fathom.options import precision_traits
from fathom.results.description import Description
from fathom.system.processor import any_processor


class StepFunctions:
    """The steps of a built model, as functions of tensors."""

    def __init__(self, model: Workload) -> None:
        self._model, self._built = model, model.built
        self._microbatches, self._strategy = model.microbatches, model.strategy

    def train_all(self, *batch: tf.Tensor) -> tf.Tensor:
        """Runs ``train`` on every replica of this process; returns the loss of the whole batch.

        Args:
            batch: of the replicas of this process.
        """
        count = self._microbatches  # where batches have several shapes, of those that it divides
        if count > 1 and not any(tensor.shape[0] % count for tensor in batch):
            return self._train(self._loss_of_microbatches, batch)
        if self._strategy is None:
            return self.train(*batch)
        losses = self._strategy.run(self.train, args=batch)
        return self._strategy.experimental_local_results(losses)[0]

    def train(self, *batch: tf.Tensor) -> tf.Tensor:
        """One forward pass, backward pass and update; returns the loss before the update.

        A replica computes its part of the batch, and updates its copy of the variables with the
        gradient of the whole batch's loss.
        """
        return self._train(self._loss_of_replica, batch)

    def infer_all(self, *inputs: tf.Tensor) -> Nest:
        """Runs ``infer``; in microbatches, if there are any, each compiled as the run asks."""
        model = self._model
        if self._microbatches > 1 and (phases := of_phases(model)):
            outputs = phases.decode(*phases.prefill(*inputs))
        else:
            outputs = divided(model.infer, self._microbatches, model.xla == "step")(*inputs)
        self._built.noise_step.assign_add(1)
        return outputs

    def infer(self, *inputs: tf.Tensor) -> Nest:
        """One forward pass; returns the outputs."""
        outputs = self._model.infer(*inputs)
        self._built.noise_step.assign_add(1)
        return outputs

    def evaluate(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """One forward pass; returns the metrics of each example, float32 [batch]."""
        inputs, labels = self._built.split(batch)
        outputs = self._model.evaluation_outputs(inputs)
        self._built.noise_step.assign_add(1)
        metrics = self._model.build_evaluation(inputs, labels, outputs)
        if not isinstance(metrics, dict) or not metrics or "examples" in metrics:
            raise FathomError(
                f"build_evaluation of {self._model.name} must return a dictionary of metrics by "
                f"name, without one named examples, not {metrics!r:.60}"
            )
        for name, values in metrics.items():
            self._require_rank(1, f"the metric {name}", values)
        return metrics

    def _train(self, loss_of: Callable[[Batch], tf.Tensor], batch: Batch) -> tf.Tensor:
        built, optimizer = self._built, self._built.optimizer
        assert optimizer is not None
        variables = built.network.trainable_variables
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
            scaled = optimizer.scale(loss)
        gradients = tape.gradient(scaled, variables)
        if built.collectives and replicas.count() > 1:
            loss, *gradients = built.collectives.total(loss, gradients)
        optimizer.apply(gradients, variables)
        for counter in (built.steps_done, built.noise_step):
            replicas.add(counter, 1)
        return loss

    def _loss_of_replica(self, batch: Batch) -> tf.Tensor:
        """Returns a replica's term of the loss of a batch."""
        parts = tuple(replicas.part_of_batch(tensor) for tensor in batch)
        inputs, labels = self._built.split(parts)
        outputs = self._built.network(inputs, training=True)
        loss = self._model.build_loss(inputs, labels, outputs)
        self._require_rank(0, "the loss", loss)
        return replicas.weighted(loss, self._model.loss_denominator(labels))

    def _require_rank(self, rank: int, name: str, values: tf.Tensor) -> None:
        if not tf.is_tensor(values) or values.shape.rank not in (rank, None):
            wanted = ("a scalar", "a value of each example")[rank]
            found = f"has shape {[*values.shape]}" if tf.is_tensor(values) else f"is {values!r:.60}"
            raise FathomError(f"{name} of {self._model.name} {found}: expected {wanted}")

    def _loss_of_microbatches(self, batch: Batch) -> tf.Tensor:
        """Returns the loss of a batch, the sum of its microbatches' terms."""
        denominator = self._model.loss_denominator(self._built.split(batch)[1])
        losses = []
        for number in range(self._microbatches):
            with replicas.computing(replicas.Microbatch(number, self._microbatches, denominator)):
                losses.append(self._loss_of_replica(batch))
        return tf.add_n(losses)


def trace(model: Workload, length: int | None) -> "tf.types.experimental.ConcreteFunction":
    """Returns the traced step of a built model; ``length`` as of ``describe``."""
    signature, simulation = model.signature_of_length(length), model.built.simulation
    steps = StepFunctions(model)
    step = steps.infer if model.forward_only else steps.train
    in_float32 = simulation.off() if simulation else contextlib.nullcontext()
    with model.device.placement(), scoped_gradients(), any_processor(), in_float32:
        return tf.function(step, autograph=False).get_concrete_function(*signature)


def describe(model: Workload, length: int | None) -> Description:
    """Returns the operations of one step, from its traced graph.

    Args:
        model: built.
        length: of the examples, where they have one; None: that of ``cost``.

    Raises:
        ValidationError: its numbers are larger than a description holds.
    """
    signature, traced = model.signature_of_length(length), trace(model, length)
    fixed = precision_traits(model.execution.precision).fixed
    description = Description(
        workload=model.name,
        mode=model.mode,
        batch_size=model.hyperparameters.batch_size,
        precision=model.execution.precision,
        inputs={spec.name: tuple(spec.shape) for spec in signature},
        parameters=model.cost().parameters,
        held_bytes=held(traced.graph, model.built.network, model.built.optimizer)[1]
        + sum(size_of(spec) for spec in signature),
        operations=operations(traced.graph, model.built.network, model.built.optimizer),
    )
    return packed(description, fixed) if fixed else description
