"""The model interface: what a workload defines, and what a script calls.

A workload is a subclass of ``NeuralNetworkModel``. It defines its data, inputs, network, loss and
update rule, as listed in ``Workload``; the base class builds, compiles, runs and evaluates them:

    model = AlexNet(device="/cpu:0", init_options={"batch_size": 32})
    model.setup()
    result = model.run(n_steps=100)
    model.teardown()
"""

import abc
import dataclasses
import functools
import math
import numbers
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import keras
import numpy as np
import tensorflow as tf

from fathom import options
from fathom.data import DataSet, DataSource, choose, locate
from fathom.data.pipeline import PREFETCHED
from fathom.description.attribution import scoped_gradients
from fathom.description.step import operations
from fathom.errors import FathomError
from fathom.layers import PRNGKey
from fathom.results import cost, records
from fathom.results.description import Description
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system import environment
from fathom.system.device import (
    computing_in,
    keep_freed_memory,
    select_device,
    select_precision,
    set_threads,
)
from fathom.system.files import user_path
from fathom.system.memory import require_free_memory
from fathom.training import footprint
from fathom.training.checkpoint import Checkpoints
from fathom.training.compilation import Batch, CompiledStep
from fathom.training.loss_scale import LossScale
from fathom.training.optimizers import Optimizer
from fathom.training.runner import Loop, Progress, Runner, RunStep, default_runstep


class Workload(abc.ABC):
    """What a workload must and may define; ``NeuralNetworkModel`` does the rest.

    Attributes:
        name: short name, that of the package.
        title: human-readable name of the network and its paper.
        datasets: the supported data sets; the first is the default.
        Hyperparameters: the dataclass of the workload's hyperparameters.
        example: human-readable name of the examples, in the plural.
        default_xla: measured default of ``xla``.
        characterization: how ``fathom characterize`` measures the workload.
        evaluation_compiles: XLA has all kernels that ``build_evaluation`` needs.
        forward_only: inference without labels, loss and optimizer; set in the ``Fwd`` twins.
        hyperparameters: their values.
        network: the functional Keras model, after ``build``.
        inputs, labels: symbolic inputs and labels.
        learning_rate: the optimizer's, a float32 scalar that schedules assign to.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    datasets: ClassVar[tuple[type[DataSet], ...]]
    Hyperparameters: ClassVar[type[options.Hyperparameters]]
    example: ClassVar[str] = "examples"
    default_xla: ClassVar[str] = "off"
    characterization: ClassVar[options.Characterization] = options.Characterization()
    evaluation_compiles: ClassVar[bool] = True
    forward_only: ClassVar[bool] = False

    hyperparameters: options.Hyperparameters
    network: keras.Model
    inputs: Any
    labels: Any
    learning_rate: tf.Variable

    # ---------------------------------------------------------------- must be defined

    @abc.abstractmethod
    def load_data(self) -> None:
        """Reads the data set in ``self.source.directory``.

        Raises:
            FathomError: the data cannot be used.
        """

    @abc.abstractmethod
    def build_inputs(self) -> Any:
        """Returns the network's Keras inputs with batch dimension None: a tensor or a nest."""

    @abc.abstractmethod
    def build_labels(self) -> Any:
        """Returns Keras inputs for the labels; an empty tuple if there are none."""

    @abc.abstractmethod
    def build_inference(self, inputs: Any) -> Any:
        """Returns the network's symbolic outputs for symbolic inputs: a tensor or a nest."""

    @abc.abstractmethod
    def build_loss(self, inputs: Any, labels: Any, outputs: Any) -> tf.Tensor:
        """Returns the loss of a batch, a float32 scalar; the arguments are not symbolic."""

    @abc.abstractmethod
    def build_train(self) -> Optimizer:
        """Returns the update rule."""

    @abc.abstractmethod
    def build_evaluation(self, inputs: Any, labels: Any, outputs: Any) -> dict[str, tf.Tensor]:
        """Returns the metrics of each example by name, float32 [batch]; arguments not symbolic."""

    @abc.abstractmethod
    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of (inputs..., labels...) from ``first_step`` on."""

    @abc.abstractmethod
    def inference_batches(self) -> Iterator[Batch]:
        """Returns an endless stream of (inputs...) for forward-only runs."""

    @abc.abstractmethod
    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns one pass over the test data: (inputs..., labels...); the last may be smaller."""

    @property
    @abc.abstractmethod
    def steps_per_epoch(self) -> int:
        """Number of training steps in one pass over the training data."""

    # ---------------------------------------------------------------- may be defined

    @property
    def default_steps(self) -> int:
        """Default number of steps; a subclass may set an attribute instead."""
        return 100

    def build_hyperparameters(self, values: Mapping[str, Any]) -> options.Hyperparameters:
        """Returns the hyperparameters; given values replace the defaults."""
        return options.build(self.Hyperparameters, values)

    @property
    def steps_per_call(self) -> int:
        """Steps that one call of the compiled step runs in sequence.

        Above 1, training and inference streams yield blocks of as many stacked batches, the first
        of which is a multiple of this number. ``runstep`` then receives a block, and the step
        returns losses [steps] or outputs [steps, batch, ...], with 0 for steps that did not run.
        """
        return 1

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns the batch shapes that the step is compiled for, the largest last."""
        declared = keras.tree.flatten(self.inputs)
        if not self.forward_only:
            declared = declared + keras.tree.flatten(self.labels)
        size = self.hyperparameters.batch_size
        return [[tf.TensorSpec((size, *t.shape[1:]), t.dtype, t.name) for t in declared]]

    def signature_of_length(self, length: int | None) -> list[tf.TensorSpec]:
        """Returns the batch shapes for examples of one length; None: the length that ``cost`` has.

        Raises:
            FathomError: there is no such length.
        """
        if length is not None:
            raise FathomError(f"the {self.example} of {self.name} have no length to choose")
        return self.signatures()[-1]

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the work of a completed batch, in units of ``batch_size`` times ``cost()``."""
        return 1.0

    def evaluation_outputs(self, inputs: Any) -> Any:
        """Returns the outputs to evaluate; by default the network's."""
        return self.network(inputs, training=False)

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the metrics of the test data from sums over examples; by default means."""
        return {name: total / examples for name, total in sums.items()}

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint holds besides the network, the optimizer and the counters."""
        return {}

    def save_state(self) -> None:
        """Called before a checkpoint is written: updates the variables of ``state``."""

    def restore_state(self) -> None:
        """Called after a checkpoint is restored: reads the variables of ``state``."""

    def change_learning_rate(self, before: float, now: float) -> None:
        """Called if the learning rate option of a resumed run has changed.

        Scales the optimizer's rate in proportion, to keep the effect of a schedule so far.
        """
        rate = self.learning_rate
        rate.assign(rate * (now / before) if before else now)

    def end_step(self, number: int) -> None:
        """Called after each training step, counting from 0."""

    def end_epoch(self, epoch: int) -> None:
        """Called after the last step of each epoch, counting from 0; for schedules."""

    def section_times(self) -> dict[str, float]:
        """Returns the seconds of additional sections of all runs so far, by name."""
        return {}

    def describe_data(self) -> dict[str, Any]:
        """Returns what a result reports about the data, besides its directory and kind."""
        return {}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes pictures of the network's results; returns their paths."""
        return []


class NeuralNetworkModel(Workload):
    """Builds, trains, runs and evaluates a workload.

    Args:
        device: ``/cpu:0``, ``/gpu:0``, or as on the command line; None: a GPU if available.
        init_options: hyperparameters and fields of ``options.Execution``, by name.

    Attributes:
        execution: how the network is executed.
        device: TensorFlow's name of the device.
        threads: intra-op threads.
        notes: messages for the user at the start of a run, such as the restored checkpoint.
        runstep: the hook of the current run.
        progress: receives the current run's progress.
        history: curves noted by the workload: lists of (steps done, value) by name.
        sections: seconds spent so far in each section, by name.
        steps: the record of the last run, even if it ended early.

    Raises:
        FathomError: an unknown option, a value out of range, or an unavailable device.
    """

    def __init__(
        self, device: str | None = None, init_options: Mapping[str, Any] | None = None
    ) -> None:
        started = time.perf_counter()
        hyperparameters, execution = options.sort(
            init_options, self.Hyperparameters, options.Execution
        )
        self.execution = options.build(options.Execution, execution)
        self.hyperparameters = self.build_hyperparameters(hyperparameters)
        # Before TensorFlow computes anything.
        self.threads = set_threads(self.execution.threads, self.execution.inter_op_threads)
        self.device = select_device(device)
        select_precision(self.execution.precision, self.device)
        self.steps = Steps(first=0, warmup=0)
        self.processor = records.Processor()
        self.notes: list[str] = []
        self.runstep: RunStep = default_runstep
        self.progress = Progress()
        self.history: dict[str, list[tuple[int, float]]] = {}
        self._source: DataSource | None = None
        self.sections = {"init": time.perf_counter() - started}

    # ---------------------------------------------------------------- building

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
    def xla(self) -> str:
        """What XLA compiles: the whole ``step``, some ``layers``, or nothing (``off``)."""
        return {None: self.default_xla, True: "step", False: "off"}[self.execution.xla]

    def new_seed(self) -> int:
        """Returns a seed for the next random part of the network, derived from the run's seed."""
        return int(self._seeds.integers(2**31))

    def new_noise(self) -> PRNGKey:
        """Returns the PRNG key of the next layer."""
        return PRNGKey(self.new_seed(), self._noise_step)

    def build(self) -> None:
        """Builds the network and, in training, the optimizer; nothing is traced yet."""
        self._seeds = np.random.default_rng(self.execution.seed)
        with tf.device(self.device), computing_in(self.execution.precision):
            self._steps_done = tf.Variable(0, dtype=tf.int64, name="steps_done")
            self._noise_step = tf.Variable(0, dtype=tf.int64, name="noise_step")
            self._inputs, self._labels = self.build_inputs(), self.build_labels()
            outputs = self.build_inference(self._inputs)
            if options.PRECISIONS[self.execution.precision].policy != "float32":
                outputs = keras.tree.map_structure(_as_float32, outputs)
            self._network = keras.Model(self._inputs, outputs, name=self.name)
            if not self.forward_only:
                self._optimizer = self._build_optimizer()

    def _build_optimizer(self) -> Optimizer:
        optimizer = self.build_train()
        optimizer.build(self.network.trainable_variables)
        if options.PRECISIONS[self.execution.precision].scales_loss:
            optimizer.loss_scale = LossScale()
        return optimizer

    def _require_memory(self) -> None:
        """Raises FathomError if the steps do not fit into the machine's memory."""
        if self.device != "/cpu:0":  # a GPU's allocator raises its own error
            return
        needed = footprint.bytes_needed(
            self.network,
            self.signatures()[-1],
            self.steps_per_call,
            blocks=1 + PREFETCHED,
            trains=not self.forward_only,
        )
        what, remedy = f"a step of {self.name}", "use a smaller --batch-size"
        if self.steps_per_call > 1:
            what = f"a call of {self.steps_per_call} steps of {self.name}"
            if "steps_per_call" in options.field_names(self.Hyperparameters):
                remedy += ", or --set steps_per_call=1"
        require_free_memory(
            needed, f"{what} at batch size {self.hyperparameters.batch_size:,}", remedy
        )

    def setup(self, setup_options: Mapping[str, Any] | None = None) -> None:
        """Loads the data, builds the network, compiles its step, restores a checkpoint.

        Args:
            setup_options: fields of ``options.Setup``, by name.

        Raises:
            FathomError: unusable data, options or checkpoints.
        """
        chosen = options.build(options.Setup, setup_options)
        keep_freed_memory()
        started = time.perf_counter()
        self.load_data()
        loaded = time.perf_counter()
        self.build()
        self._require_memory()
        checkpoints = None
        if chosen.checkpoint_dir is not None:
            checkpoints = self._open_checkpoints(user_path(chosen.checkpoint_dir), chosen.resume)
        self.compile()
        loop = Loop(
            trains=not self.forward_only,
            on_gpu=self.device.startswith("/gpu"),
            batch_size=self.hyperparameters.batch_size,
            steps_per_call=self.steps_per_call,
            steps_per_epoch=1 if self.forward_only else self.steps_per_epoch,
            checkpoint_every=chosen.checkpoint_every or options.CHECKPOINT_EVERY,
            remedy=self.hyperparameters.remedy_for_divergence(),
        )
        self._runner = Runner(self._compiled, loop, self, checkpoints, saved_at=self.steps_done)
        self.sections |= {"load": loaded - started, "setup": time.perf_counter() - loaded}

    def compile(self) -> None:
        """Compiles the step and the evaluation; a subclass may compile more."""
        with tf.device(self.device):
            self._compiled = CompiledStep(
                self.infer_step if self.forward_only else self.train_step,
                self.signatures(),
                self.steps_per_call,
                xla=self.xla == "step",
            )
        self._evaluate = tf.function(
            self._evaluation_step,
            reduce_retracing=True,
            autograph=False,
            jit_compile=self.xla == "step" and self.evaluation_compiles,
        )

    def teardown(self) -> None:
        """Releases the network, the optimizer and compiled functions; ``setup`` may follow."""
        self.release("_network", "_inputs", "_labels", "_optimizer")
        self.release("_compiled", "_evaluate", "_runner")

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
    def inputs(self) -> Any:
        """The network's symbolic inputs."""
        self._check_built()
        return self._inputs

    @property
    def labels(self) -> Any:
        """The symbolic labels; an empty tuple if there are none."""
        self._check_built()
        return self._labels

    @property
    def outputs(self) -> Any:
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

    @property
    def train(self) -> Any:
        """The compiled training step, a ``ConcreteFunction`` or one for each batch shape.

        If ``steps_per_call`` is above 1, it takes a block of batches.
        """
        return None if self.forward_only else self._compiled_step().call

    @property
    def loss(self) -> tf.Tensor | None:
        """The loss in the graph of ``model()``, a float32 scalar; None in a forward-only model."""
        return None if self.forward_only else self.model().outputs[0]

    def model(self) -> tf.Graph:
        """Returns the traced graph of one training step, or of inference when forward-only."""
        return self._compiled_step().single.graph

    def cost(self) -> cost.Cost:
        """Returns numbers of parameters and multiply-accumulates, counted from the architecture."""
        return cost.count(self.network)

    def describe(self, length: int | None = None) -> Description:
        """Returns the operations of one step, from its traced graph; needs ``build``, no data.

        Args:
            length: of the examples, where they have one; None: that of ``cost``.

        Raises:
            FathomError: the model is not built, or there is no such length.
        """
        network, signature = self.network, self.signature_of_length(length)
        step = self.infer_step if self.forward_only else self.train_step
        with tf.device(self.device), scoped_gradients():
            traced = tf.function(step, autograph=False).get_concrete_function(*signature)
        return Description(
            workload=self.name,
            mode="infer" if self.forward_only else "train",
            batch_size=self.hyperparameters.batch_size,
            precision=cast(options.Precision, self.execution.precision),
            inputs={spec.name: tuple(spec.shape) for spec in signature},
            parameters=self.cost().parameters,
            operations=operations(traced.graph, network, self.optimizer),
        )

    @property
    def steps_done(self) -> int:
        """Training steps since the start of training, including those before resuming."""
        self._check_built()
        return int(self._steps_done)

    @property
    def saved_at(self) -> int:
        """Training step of the last checkpoint written or restored; 0 if there is none."""
        return self._runner.saved_at

    # ---------------------------------------------------------------- running

    def note(self, name: str, value: float) -> None:
        """Adds a point to a curve in ``history``, at the current step."""
        self.history.setdefault(name, []).append((self.steps_done, value))

    def run(
        self,
        runstep: RunStep | None = None,
        n_steps: int | None = None,
        *,
        warmup: int | None = None,
        progress: Progress | None = None,
    ) -> RunResult:
        """Runs training steps, or inference steps when forward-only.

        Args:
            runstep: called with (step, batch) for each step, or each block of ``steps_per_call``;
                calls ``step(*batch)`` and returns what it returns. May time it, trace it, or skip
                it and return None.
            n_steps: number of steps; None: ``default_steps``.
            warmup: number of initial steps that the statistics leave out; None: a fifth of the
                steps, at most five.
            progress: receives each step.

        Returns:
            the record of the run.

        Raises:
            FathomError: the loss is not finite, a checkpoint cannot be written, or a number of
                steps is out of range.
        """
        n_steps = _as_int("n_steps", self.default_steps if n_steps is None else n_steps)
        warmup = min(5, (n_steps + 3) // 5) if warmup is None else _as_int("warmup", warmup)
        if n_steps < 0 or not 0 <= warmup <= n_steps:
            raise FathomError(
                f"cannot run {n_steps} steps, {warmup} of them warm-up: steps must not be negative "
                "and warm-up not more than the steps"
            )
        self._compiled_step()
        select_precision(self.execution.precision, self.device)  # another model may differ
        self.runstep, self.progress = runstep or default_runstep, progress or Progress()
        first = 0 if self.forward_only else self.steps_done
        self.steps = Steps(first=first, warmup=warmup)
        self.processor = records.Processor()
        started, stolen = time.perf_counter(), environment.steal_seconds()
        try:
            batches = (
                self.inference_batches() if self.forward_only else self.training_batches(first)
            )
            self._runner.run(
                batches, n_steps, self.steps, self.processor, self.runstep, self.progress
            )
        finally:
            self.sections["run"] = time.perf_counter() - started
            self.processor.add_system(
                stolen, environment.steal_seconds(), environment.frequency_mhz()
            )
            self.sections |= self.section_times()
        return self.record()

    def record(self) -> RunResult:
        """Returns the record of the last run, even if it ended early."""
        self.steps.drop_unfinished()
        counted = self.cost()
        macs = counted.forward_macs if self.forward_only else counted.training_macs
        history = {
            name: [(step, float(value) if math.isfinite(value) else None) for step, value in points]
            for name, points in self.history.items()
        }
        return RunResult(
            workload=self.name,
            mode="infer" if self.forward_only else "train",
            data=records.Data(
                name=self.dataset.name,
                directory=str(self.source.directory),
                kind=self.source.kind,
                **self.describe_data(),
            ),
            hyperparameters=records.UsedHyperparameters(**dataclasses.asdict(self.hyperparameters)),
            seed=self.execution.seed,
            environment=records.Environment(
                **environment.describe(
                    self.device, self.threads, self.execution.precision, self.xla
                )
            ),
            sections=records.Sections(**{**self.sections, "wall": environment.process_age()}),
            steps=self.steps,
            throughput=self._throughput(2 * macs),
            cost=records.Cost(
                parameters=counted.parameters,
                forward_macs_per_example=counted.forward_macs,
                forward_flops_per_example=2 * counted.forward_macs,
                training_flops_per_example=2 * counted.training_macs,
            ),
            memory=records.Memory(**environment.peak_memory(self.device)),
            processor=self.processor,
            metrics=records.Metrics(history=history or None),
        )

    def _throughput(self, flops: int) -> records.Throughput:
        """Returns the speed of the last run, given the FLOPs per example."""
        if not self.steps.measurements:
            return records.Throughput(example=self.example, flops_per_second=None)
        batch_size = self.hyperparameters.batch_size
        return records.Throughput(
            example=self.example,
            examples_per_second=batch_size / self.steps.median,
            examples_per_second_with_input=batch_size / self.steps.mean_with_input,
            flops_per_second=flops * batch_size * self.steps.work_per_second,
        )

    def evaluate(self) -> dict[str, float]:
        """Returns the metrics of one pass over the test data: means over its examples.

        Raises:
            FathomError: there is no test data, or it cannot be read.
        """
        return self.metrics_of(self.evaluation_batches())

    def metrics_of(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the metrics of some batches: means over their examples.

        Args:
            batches: of (inputs..., labels...), as from ``evaluation_batches``.

        Raises:
            FathomError: there are none, or they cannot be read.
        """
        self._compiled_step()
        select_precision(self.execution.precision, self.device)
        trained_noise = int(self._noise_step)
        self._noise_step.assign(2**40)  # not the random numbers of any training step
        sums: dict[str, float] = {}
        examples = 0
        for batch in batches:
            with tf.device(self.device):
                metrics = {name: value.numpy() for name, value in self._evaluate(*batch).items()}
            examples += len(next(iter(metrics.values())))
            for name, values in metrics.items():
                sums[name] = sums.get(name, 0.0) + float(values.sum(dtype=np.float64))
        self._noise_step.assign(trained_noise)
        if not examples:
            raise self._no_test_data()
        return self.total_metrics(sums, examples) | {"examples": examples}

    def require_test_data(self) -> None:
        """Raises FathomError before a run if there is no test data to evaluate on."""
        if next(iter(self.evaluation_batches()), None) is None:
            raise self._no_test_data()

    def _no_test_data(self) -> FathomError:
        return FathomError(f"{self.source.directory} has no test data to evaluate on")

    # ---------------------------------------------------------------- compiled steps

    def train_step(self, *batch: tf.Tensor) -> tf.Tensor:
        """One forward pass, backward pass and update; returns the loss before the update."""
        inputs, labels = self._split(batch)
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self.network(inputs, training=True)
            loss = self.build_loss(inputs, labels, outputs)
            scaled = self._optimizer.scale(loss)
        self._optimizer.apply(tape.gradient(scaled, variables), variables)
        self._steps_done.assign_add(1)
        self._noise_step.assign_add(1)
        return loss

    def infer_step(self, *inputs: tf.Tensor) -> Any:
        """One forward pass; returns the outputs."""
        outputs = self.network(self._split(inputs)[0], training=False)
        self._noise_step.assign_add(1)
        return outputs

    def _evaluation_step(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, labels = self._split(batch)
        outputs = self.evaluation_outputs(inputs)
        self._noise_step.assign_add(1)
        return self.build_evaluation(inputs, labels, outputs)

    def _split(self, batch: Batch) -> tuple[Any, Any]:
        """Packs a flat batch into the structures of the inputs and the labels."""
        n_inputs = len(keras.tree.flatten(self._inputs))
        inputs = keras.tree.pack_sequence_as(self._inputs, list(batch[:n_inputs]))
        labels = batch[n_inputs:]
        return inputs, keras.tree.pack_sequence_as(self._labels, list(labels)) if labels else ()

    def _check_built(self) -> None:
        if not hasattr(self, "_network"):
            raise FathomError(f"the {self.name} model is not built: call setup() first")

    def _compiled_step(self) -> CompiledStep:
        if not hasattr(self, "_compiled"):
            raise FathomError(f"the {self.name} model is not compiled: call setup() first")
        return self._compiled

    # ---------------------------------------------------------------- checkpoints

    def _open_checkpoints(self, directory: Path, resume: bool) -> Checkpoints | None:
        """Opens the folder; a resumed run or a forward-only model loads the newest checkpoint.

        Returns:
            the checkpoints of the training run; None in a forward-only model.
        """
        settings = dataclasses.asdict(self.hyperparameters)
        settings |= {"seed": self.execution.seed, "precision": self.execution.precision}
        settings |= {"data": str(self.source.directory)}
        checkpoints = Checkpoints(directory, self.name, settings, self._saved_variables())
        if not self.forward_only:
            checkpoints.open_for_writing()
        if self.forward_only or (resume and checkpoints.latest):
            restored = checkpoints.restore()
            self.restore_state()
            self.notes += restored.notes
            if "learning_rate" in restored.changes and not self.forward_only:
                self.change_learning_rate(*restored.changes["learning_rate"])
        elif resume:
            self.notes.append(f"nothing to resume in {directory}: starting from scratch")
        else:
            checkpoints.refuse_other_training()
        return None if self.forward_only else checkpoints

    def _saved_variables(self) -> dict[str, tf.Variable]:
        """Returns all variables that a resumed run needs, by name."""
        variables = {v.path.replace("/", "-"): v.value for v in self.network.variables}
        variables |= {"steps_done": self._steps_done, "noise_step": self._noise_step}
        if not self.forward_only:
            for i, variable in enumerate(self._optimizer.variables):
                variables[f"optimizer-{i}-{variable.name.rpartition(':')[0]}"] = variable
        return variables | self.state()


def _as_int(name: str, number: Any) -> int:
    """Returns a Python or NumPy integer as an int; raises FathomError for anything else."""
    if not isinstance(number, numbers.Integral):
        raise FathomError(f"{name} must be a whole number, not {number!r}")
    return int(number)


def _as_float32(tensor: keras.KerasTensor) -> keras.KerasTensor:
    """Casts floating-point outputs to float32; returns integers unchanged."""
    is_float = keras.backend.is_float_dtype(tensor.dtype)
    return keras.ops.cast(tensor, "float32") if is_float else tensor
