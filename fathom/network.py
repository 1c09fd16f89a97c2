"""A workload's network, built on a device: what it computes, and what can be asked of it.

Building reads no data and traces nothing. ``fathom.nn`` loads data, compiles and runs.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from fathom import options
from fathom.data import DataSet, DataSource, choose, locate
from fathom.description.attribution import scoped_gradients
from fathom.description.step import operations
from fathom.errors import FathomError
from fathom.layers import PRNGKey, as_float32
from fathom.numbers import simulation
from fathom.numbers.packed import packed
from fathom.results import cost, records
from fathom.results.description import Description
from fathom.system import environment
from fathom.system.device import (
    computing_in,
    select_device,
    select_precision,
    set_inter_op_threads,
    set_threads,
)
from fathom.system.processor import any_processor
from fathom.training import microbatches, replicas, strategies
from fathom.training.collectives import Collectives
from fathom.training.compilation import Batch, Nest
from fathom.training.custom_gradients import CustomGradients, notes_gradients
from fathom.training.loss_scale import LossScale
from fathom.training.optimizers import Optimizer, refuse_other_settings
from fathom.workload import Workload


class BuiltWorkload(Workload):
    """The network of a workload and its optimizer, on a device.

    Args:
        device: ``/cpu:0``, ``/gpu:0``, or as on the command line; None: a GPU if available.
        init_options: hyperparameters and fields of ``options.Execution``, by name.

    Attributes:
        execution: how the network is executed.
        device: TensorFlow's name of the device.
        threads: of the run.
        operations_at_once: inter-op threads.
        strategy: of distributed training; None: one device.
        is_chief: this process writes the checkpoints: all but the first worker's do not.

    Raises:
        FathomError: an unknown option, a value out of range, options that exclude each other, or an
            unavailable device.
    """

    def __init__(
        self, device: str | None = None, init_options: Mapping[str, object] | None = None
    ) -> None:
        hyperparameters, execution = options.sort(
            init_options, self.Hyperparameters, options.Execution
        )
        self.execution = options.build(options.Execution, execution)
        self.hyperparameters = self.build_hyperparameters(hyperparameters)
        refuse_other_settings(self.hyperparameters, hyperparameters)
        self.device = select_device(device)
        self.check_microbatches([self.hyperparameters.batch_size])
        self._set_threads()
        self.strategy = strategies.create(
            self.execution, self.device, self.name, self.hyperparameters
        )
        self.is_chief = strategies.is_chief(self.execution.strategy)
        select_precision(self.execution.precision, self.device)
        self.custom_gradients = CustomGradients(self)
        self._source: DataSource | None = None
        self._collectives: Collectives | None = None  # of a strategy, once built

    def _set_threads(self) -> None:
        """Sets TensorFlow's threads, before it computes anything."""
        chosen = self.execution
        self.operations_at_once = set_inter_op_threads(chosen.threads, chosen.inter_op_threads)
        small = self.small_operations and self.device == "/cpu:0" and not chosen.xla
        share = small or self.microbatches > 1
        self.threads = set_threads(chosen.threads, self.operations_at_once if share else 1)

    # ---------------------------------------------------------------- choices

    @functools.cached_property
    def dataset(self) -> type[DataSet]:
        """The model's data set, one of ``datasets``."""
        return choose(self.datasets, self.execution.dataset, self.execution.data_dir)

    @property
    def source(self) -> DataSource:
        """The source of the data; the synthetic set is created on first use."""
        if self._source is None:
            self._source = locate(self.dataset, self.execution.data_dir, self.execution.seed)
        return self._source

    @property
    def microbatches(self) -> int:
        """Parts into which a training step on a CPU divides its batch, to compute them at once."""
        wanted, count = self.execution.microbatches, self.operations_at_once
        if wanted != "auto":
            return wanted
        divides = self.divides_batches and not self._microbatch_obstacle()
        return count if divides and not self.hyperparameters.batch_size % count else 1

    def _microbatch_obstacle(self) -> str:
        return microbatches.obstacle(
            self.execution,
            self.device,
            trains=not self.forward_only,
            statistics=self.batch_statistics,
            indivisible=self.indivisible,
        )

    def check_microbatches(self, sizes: Sequence[int | None]) -> None:
        """Raises FathomError if batches of these sizes cannot be divided as the options ask.

        Microbatches that nobody asked for are left out where they are not possible.
        """
        wanted = self.execution.microbatches
        if wanted != "auto":
            microbatches.check(self.name, wanted, self._microbatch_obstacle(), sizes)

    @property
    def xla(self) -> str:
        """What XLA compiles: the whole ``step``, some ``layers``, or nothing (``off``)."""
        default = self.default_xla
        if default == "step" and (self.strategy or self.microbatches > 1):
            default = "off"  # XLA compiles no collectives, and runs microbatches in turn
        return {None: default, True: "step", False: "off"}[self.execution.xla]

    def machine(self) -> records.Environment:
        """Returns the machine and the software, as results state them."""
        return records.Environment.model_validate(
            environment.describe(self.device, self.threads, self.execution.precision, self.xla)
            | {"microbatches": self.microbatches}
        )

    # ---------------------------------------------------------------- building

    def new_seed(self) -> int:
        """Returns a seed for the next random part of the network, derived from the run's seed."""
        return int(self._seeds.integers(2**31))

    def new_noise(self) -> PRNGKey:
        """Returns the PRNG key of the next layer."""
        return PRNGKey(self.new_seed(), self._noise_step)

    def build(self) -> None:
        """Builds the network and, in training, the optimizer; nothing is traced yet."""
        chosen = self.execution
        self.release("_saved_variables")  # of an earlier network
        self._seeds = np.random.default_rng(chosen.seed)
        with self._placement(), computing_in(chosen.precision):
            self._steps_done = tf.Variable(0, dtype=tf.int64, name="steps_done")
            self._noise_step = tf.Variable(0, False, dtype=tf.int64, name="noise_step")
            self._inputs, self._labels = self.build_inputs(), self.build_labels()
            outputs = as_float32(self.build_inference(self._inputs))
            self._network = keras.Model(self._inputs, outputs, name=self.name)
            if not self.forward_only:
                self._optimizer = self.build_train()
                self._optimizer.build(self.network.trainable_variables)
                self._optimizer.compiled = self.xla == "step"
                if options.precision_traits(chosen.precision).scales_loss:
                    self._optimizer.loss_scale = LossScale()
            if self.strategy:
                self._collectives = Collectives(
                    self.strategy, chosen.strategy, self.batch_statistics
                )
            self._simulation = simulation.create(
                self._network, not self.forward_only, chosen, self._noise_step, self.new_noise
            )
            if self._simulation is not None and not self.forward_only:
                self._optimizer.around = self._simulation.around

    def _placement(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are created and steps are traced."""
        return self.strategy.scope() if self.strategy else tf.device(self.device)

    def compute_with(self, network: keras.Model) -> None:
        """Takes another network with the same inputs, outputs and variables, for later compiling.

        Args:
            network: the other network.
        """
        self._network = network

    @functools.cached_property
    def _saved_variables(self) -> dict[str, tf.Variable]:
        """Returns all variables that a resumed run needs, by name."""
        variables = {v.path.replace("/", "-"): v.value for v in self.network.variables}
        variables |= {"steps_done": self._steps_done, "noise_step": self._noise_step}
        if not self.forward_only:
            variables |= self._optimizer.named_variables()
            variables |= {} if self._simulation is None else self._simulation.variables
        return variables | self.state()

    def release(self, *names: str) -> None:
        """Deletes attributes created by ``setup``, if they exist, to free their memory."""
        for name in names:
            vars(self).pop(name, None)

    # ---------------------------------------------------------------- inspecting

    @property
    def network(self) -> keras.Model:
        """The functional Keras model.

        Raises:
            FathomError: before ``build`` or ``setup``.
        """
        self._check_built()
        return self._network

    @property
    def inputs(self) -> Nest:
        """The network's symbolic inputs."""
        self._check_built()
        return self._inputs

    @property
    def labels(self) -> Nest:
        """The symbolic labels; an empty tuple if there are none."""
        self._check_built()
        return self._labels

    @property
    def outputs(self) -> Nest:
        """The network's symbolic outputs."""
        return self.network.output

    @property
    def optimizer(self) -> Optimizer | None:
        """The update rule with its state; None in a forward-only model."""
        self._check_built()
        return None if self.forward_only else self._optimizer

    @property
    def learning_rate(self) -> tf.Variable:
        """The optimizer's learning rate, a float32 scalar that schedules assign to.

        Raises:
            FathomError: the model is forward-only or not built.
        """
        if self.optimizer is None:
            raise FathomError(f"the {self.name} model is forward-only: it has no learning rate")
        return self.optimizer.learning_rate

    def cost(self) -> cost.Cost:
        """Returns numbers of parameters and multiply-accumulates, counted from the architecture."""
        return cost.count(self.network)

    @notes_gradients
    def describe(self, length: int | None = None) -> Description:
        """Returns the operations of one step, from its traced graph; needs ``build``, no data.

        Args:
            length: of the examples, where they have one; None: that of ``cost``.

        Raises:
            FathomError: the model is not built, or there is no such length.
        """
        network, signature = self.network, self.signature_of_length(length)
        step = self.infer_step if self.forward_only else self.train_step
        simulation = self._simulation
        in_float32 = simulation.off() if simulation else contextlib.nullcontext()
        with tf.device(self.device), scoped_gradients(), any_processor(), in_float32:
            traced = tf.function(step, autograph=False).get_concrete_function(*signature)
        listed = operations(traced.graph, network, self.optimizer)
        fixed = options.precision_traits(self.execution.precision).fixed
        return Description(
            workload=self.name,
            mode=self.mode,
            batch_size=self.hyperparameters.batch_size,
            precision=self.execution.precision,
            inputs={spec.name: tuple(spec.shape) for spec in signature},
            parameters=self.cost().parameters,
            operations=packed(listed, fixed) if fixed else listed,
        )

    @property
    def steps_done(self) -> int:
        """Training steps since the start of training, including those before resuming."""
        self._check_built()
        return int(self._steps_done.numpy())

    # ---------------------------------------------------------------- steps

    def _train_step_of_all_replicas(self, *batch: tf.Tensor) -> tf.Tensor:
        """Runs ``train_step`` on every replica; returns the loss of the whole batch."""
        count = self.microbatches  # where batches have several shapes, of those that it divides
        if count > 1 and not any(tensor.shape[0] % count for tensor in batch):
            return self._train_step_of(self._loss_of_microbatches, batch)
        if self.strategy is None:
            return self.train_step(*batch)
        losses = self.strategy.run(self.train_step, args=batch)
        return self.strategy.experimental_local_results(losses)[0]

    def train_step(self, *batch: tf.Tensor) -> tf.Tensor:
        """One forward pass, backward pass and update; returns the loss before the update.

        A replica computes its part of the batch, and updates its copy of the variables with the
        gradient of the whole batch's loss.
        """
        return self._train_step_of(self._loss_of_replica, batch)

    def _train_step_of(self, loss_of: Callable[[Batch], tf.Tensor], batch: Batch) -> tf.Tensor:
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
            scaled = self._optimizer.scale(loss)
        gradients = tape.gradient(scaled, variables)
        if self._collectives and replicas.count() > 1:
            loss, *gradients = self._collectives.total(loss, gradients)
        self._optimizer.apply(gradients, variables)
        for counter in (self._steps_done, self._noise_step):
            replicas.add(counter, 1)
        return loss

    def _loss_of_replica(self, batch: Batch) -> tf.Tensor:
        """Returns a replica's term of the loss of a batch."""
        inputs, labels = self._split(tuple(replicas.part(tensor) for tensor in batch))
        loss = self.build_loss(inputs, labels, self.network(inputs, training=True))
        return replicas.weighted(loss, self.loss_denominator(labels))

    def _loss_of_microbatches(self, batch: Batch) -> tf.Tensor:
        """Returns the loss of a batch, the sum of its microbatches' terms."""
        losses, denominator = [], self.loss_denominator(self._split(batch)[1])
        for number in range(self.microbatches):
            with replicas.computing(replicas.Microbatch(number, self.microbatches, denominator)):
                losses.append(self._loss_of_replica(batch))
        return tf.add_n(losses)

    def infer_step(self, *inputs: tf.Tensor) -> Nest:
        """One forward pass; returns the outputs."""
        outputs = self.network(self._split(inputs)[0], training=False)
        self._noise_step.assign_add(1)
        return outputs

    def _evaluation_step(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, labels = self._split(batch)
        outputs = self.evaluation_outputs(inputs)
        self._noise_step.assign_add(1)
        return self.build_evaluation(inputs, labels, outputs)

    def _split(self, batch: Batch) -> tuple[Nest, Nest]:
        """Packs a flat batch into the structures of the inputs and the labels."""
        n_inputs = len(keras.tree.flatten(self._inputs))
        inputs = keras.tree.pack_sequence_as(self._inputs, list(batch[:n_inputs]))
        labels = batch[n_inputs:]
        return inputs, keras.tree.pack_sequence_as(self._labels, list(labels)) if labels else ()

    def _check_built(self) -> None:
        if not hasattr(self, "_network"):
            raise FathomError(f"the {self.name} model is not built: call setup() first")
