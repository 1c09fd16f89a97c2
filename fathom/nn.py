"""The model interface: what a workload defines, and what a script calls.

A workload is a subclass of ``NeuralNetworkModel``, which builds, compiles, runs and evaluates what
the workload defines, as listed in ``fathom.workload.Workload``:

    model = AlexNet(device="/cpu:0", init_options={"batch_size": 32})
    model.setup()
    result = model.run(n_steps=100)
    model.teardown()
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from fathom import options
from fathom.data import DataSet, DataSource, choose, locate
from fathom.data.pipeline import PREFETCHED
from fathom.description.attribution import scoped_gradients
from fathom.description.step import operations
from fathom.errors import FathomError
from fathom.layers import PRNGKey, as_float32
from fathom.numbers import calibration
from fathom.numbers.packed import packed
from fathom.numbers.simulation import Simulation
from fathom.results import cost, records
from fathom.results.description import Description
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system import energy, environment
from fathom.system.device import (
    computing_in,
    keep_freed_memory,
    select_device,
    select_precision,
    set_threads,
)
from fathom.system.files import user_path
from fathom.training import replicas, strategies
from fathom.training.checkpoint import Checkpoints
from fathom.training.compilation import Batch, CompiledStep, Nest, Step
from fathom.training.evaluation import sum_metrics
from fathom.training.footprint import require_memory
from fathom.training.loss_scale import LossScale
from fathom.training.optimizers import Around, Optimizer
from fathom.training.runner import Loop, Progress, Runner, RunStep, check_length, default_runstep
from fathom.workload import Workload


class NeuralNetworkModel(Workload):
    """Builds, trains, runs and evaluates a workload.

    Args:
        device: ``/cpu:0``, ``/gpu:0``, or as on the command line; None: a GPU if available.
        init_options: hyperparameters and fields of ``options.Execution``, by name.

    Attributes:
        execution: how the network is executed.
        device: TensorFlow's name of the device.
        threads: intra-op threads.
        strategy: of distributed training; None: one device.
        is_chief: this process writes the checkpoints: all but the first worker's do not.
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
        self, device: str | None = None, init_options: Mapping[str, object] | None = None
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
        chosen = self.execution
        identity = self._identity() if chosen.strategy != "none" else {}
        self.strategy = strategies.create(chosen.strategy, chosen.replicas, self.device, identity)
        self.is_chief = chosen.strategy != "multi-worker" or strategies.is_chief()
        select_precision(self.execution.precision, self.device)
        self.steps = Steps(first=0, warmup=0)
        self.processor, self.meter = records.Processor(), energy.Meter()
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
        default = self.default_xla
        if self.strategy and default == "step":
            default = "off"  # XLA does not compile the collectives of a strategy
        return {None: default, True: "step", False: "off"}[self.execution.xla]

    def new_seed(self) -> int:
        """Returns a seed for the next random part of the network, derived from the run's seed."""
        return int(self._seeds.integers(2**31))

    def new_noise(self) -> PRNGKey:
        """Returns the PRNG key of the next layer."""
        return PRNGKey(self.new_seed(), self._noise_step)

    def build(self) -> None:
        """Builds the network and, in training, the optimizer; nothing is traced yet."""
        self.release("_saved_variables")  # of an earlier network
        self._seeds = np.random.default_rng(self.execution.seed)
        with self._placement(), computing_in(self.execution.precision):
            self._steps_done = tf.Variable(0, dtype=tf.int64, name="steps_done")
            self._noise_step = tf.Variable(0, False, dtype=tf.int64, name="noise_step")
            self._inputs, self._labels = self.build_inputs(), self.build_labels()
            outputs = as_float32(self.build_inference(self._inputs))
            self._network = keras.Model(self._inputs, outputs, name=self.name)
            if not self.forward_only:
                self._optimizer = self.build_train()
                self._optimizer.build(self.network.trainable_variables)
                if options.precision_traits(self.execution.precision).scales_loss:
                    self._optimizer.loss_scale = LossScale()
            self._simulation = self._build_simulation()

    def _build_simulation(self) -> Simulation | None:
        """Returns the network with rounding to fixed point, for ``setup``; None in float."""
        chosen = self.execution
        number_format = options.precision_traits(chosen.precision).fixed
        if number_format is None:
            return None
        return Simulation(
            self._network,
            not self.forward_only,
            number_format,
            chosen.quantize.split(","),
            chosen.overflow,
            self._noise_step,
            self.new_noise if chosen.rounding == "stochastic" else None,
        )

    def _identity(self) -> dict[str, object]:
        """Returns what is about to run, by name, which the workers of a training must share."""
        options = dataclasses.asdict(self.hyperparameters) | dataclasses.asdict(self.execution)
        return options | {"workload": self.name, "commit": environment.git_commit()}

    def _check_strategy(self) -> None:
        """Raises FathomError if the run cannot be distributed as chosen."""
        if self.strategy is None:
            return
        name, size = self.execution.strategy, self.hyperparameters.batch_size
        replicas = self.strategy.num_replicas_in_sync
        if self.forward_only:
            raise FathomError(f"--strategy {name} is for training")
        if self.undistributable:
            raise FathomError(f"{self.name} cannot be distributed: {self.undistributable}")
        if self.xla == "step":
            raise FathomError(f"--strategy {name} does not work with --xla")
        traits = options.precision_traits(self.execution.precision)
        if traits.scales_loss or traits.fixed:
            raise FathomError(
                f"--strategy {name} does not work in {self.execution.precision}: try bfloat16"
            )
        if size % replicas:
            raise FathomError(f"a batch of {size} cannot be divided among {replicas} replicas")

    def _placement(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are created and steps are traced."""
        return self.strategy.scope() if self.strategy else tf.device(self.device)

    def setup(self, setup_options: Mapping[str, object] | None = None) -> None:
        """Loads the data, builds the network, compiles its step, restores a checkpoint.

        Args:
            setup_options: fields of ``options.Setup``, by name.

        Raises:
            FathomError: unusable data, options or checkpoints.
        """
        chosen = options.build(options.Setup, setup_options)
        self._check_strategy()
        keep_freed_memory()
        started = time.perf_counter()
        self.load_data()
        loaded = time.perf_counter()
        self.build()
        if self.device == "/cpu:0":  # a GPU's allocator raises its own error
            require_memory(
                self.name,
                self.network,
                self.signatures()[-1],
                self.steps_per_call,
                blocks=1 + PREFETCHED,
                trains=not self.forward_only,
            )
        checkpoints = self._open_checkpoints(chosen.checkpoint_dir, chosen.resume)
        if self._simulation is not None:
            self._simulate(self._simulation, resumed=not self.forward_only and self.steps_done > 0)
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

    def _simulate(self, simulation: Simulation, resumed: bool) -> None:
        """Computes in fixed point from here on; chooses the formats by float32 steps, undone.

        Raises:
            FathomError: there is nothing to calibrate on.
        """
        self.compute_with(simulation.network, simulation.around)
        if simulation.calibrates and not resumed:
            self.compile()
            history = dict(self.history)
            if self.forward_only:
                batches, kept = self.inference_batches(), [self._noise_step]
            else:
                self.save_state()
                batches, kept = self.training_batches(0), list(self._saved_variables.values())
            calibration.run(self._compiled.single, batches, self.steps_per_call, kept)
            if not self.forward_only:
                self.restore_state()
            self.history = history
        simulation.begin(chosen=resumed)

    def compute_with(self, network: keras.Model, around: Around | None = None) -> None:
        """Takes another network with the same inputs, outputs and variables, for later compiling.

        Args:
            network: the other network.
            around: what applies the optimizer's updates: see ``Optimizer``; None: nothing else.
        """
        self._network = network
        if not self.forward_only:
            self._optimizer.around = around

    def compile(self) -> None:
        """Compiles the step and the evaluation; a subclass may compile more."""
        with self._placement():
            self._compiled = CompiledStep(
                self.infer_step if self.forward_only else self._train_step_of_all_replicas,
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
        self.release("_simulation", "_saved_variables")
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

    @property
    def train(self) -> Step | None:
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
        listed = operations(traced.graph, network, self.optimizer)
        fixed = options.precision_traits(self.execution.precision).fixed
        return Description(
            workload=self.name,
            mode="infer" if self.forward_only else "train",
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
        n_steps, warmup = check_length(self.default_steps if n_steps is None else n_steps, warmup)
        self._compiled_step()
        select_precision(self.execution.precision, self.device)  # another model may differ
        self.runstep, self.progress = runstep or default_runstep, progress or Progress()
        first = 0 if self.forward_only else self.steps_done
        self.steps = Steps(first=first, warmup=warmup)
        self.processor = records.Processor()
        self.meter = energy.meter(on_gpu=self.device != "/cpu:0")
        started, stolen = time.perf_counter(), environment.steal_seconds()
        try:
            batches = (
                self.inference_batches() if self.forward_only else self.training_batches(first)
            )
            self._runner.run(
                batches,
                n_steps,
                self.steps,
                self.processor,
                self.runstep,
                self.progress,
                self.meter,
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
        execution, source, chosen = self.execution, self.source, self.hyperparameters
        machine = environment.describe(self.device, self.threads, execution.precision, self.xla)
        counted = self.cost()
        macs = counted.forward_macs if self.forward_only else counted.training_macs
        work = self.steps.work[self.steps.warmup :]
        flops = 2 * macs * chosen.batch_size * sum(work)
        kind = "cpu" if self.device == "/cpu:0" else "gpu"
        return RunResult(
            workload=self.name,
            mode="infer" if self.forward_only else "train",
            data=records.Data(
                name=self.dataset.name,
                directory=str(source.directory),
                kind=source.kind,
                **self.describe_data(),
            ),
            hyperparameters=records.UsedHyperparameters(**dataclasses.asdict(chosen)),
            seed=execution.seed,
            environment=records.Environment(**machine),
            sections=records.Sections(**{**self.sections, "wall": environment.process_age()}),
            steps=self.steps,
            throughput=records.Throughput.of(self.steps, self.example, chosen.batch_size, 2 * macs),
            generation=self.generation(),
            cost=records.Cost.of(counted),
            memory=records.Memory(**environment.peak_memory(self.device)),
            processor=self.processor,
            energy=records.Energy.of(self.meter.joules, self.meter.unread, kind, len(work), flops),
            metrics=records.Metrics.of(self.history),
            fixed_point=None if self._simulation is None else self._simulation.record(),
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
        trained_noise = int(self._noise_step.numpy())
        self._noise_step.assign(2**40)  # not the random numbers of any training step
        sums, examples = sum_metrics(self._evaluate, batches, self.device)
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

    def _train_step_of_all_replicas(self, *batch: tf.Tensor) -> tf.Tensor:
        """Runs ``train_step`` on every replica; returns the loss of the whole batch."""
        if self.strategy is None:
            return self.train_step(*batch)
        losses = self.strategy.run(self.train_step, args=batch)
        return self.strategy.experimental_local_results(losses)[0]

    def train_step(self, *batch: tf.Tensor) -> tf.Tensor:
        """One forward pass, backward pass and update; returns the loss before the update.

        A replica computes its part of the batch, and updates its copy of the variables with the
        gradient of the whole batch's loss.
        """
        inputs, labels = self._split(tuple(replicas.part(tensor) for tensor in batch))
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self.network(inputs, training=True)
            loss = self.build_loss(inputs, labels, outputs)
            loss = replicas.weighted(loss, self.loss_denominator(labels))
            scaled = self._optimizer.scale(loss)
        gradients = tape.gradient(scaled, variables)
        loss, *gradients = replicas.total([loss, *gradients])
        self._optimizer.apply(gradients, variables)
        for counter in (self._steps_done, self._noise_step):
            replicas.add(counter, 1)
        return loss

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

    def _compiled_step(self) -> CompiledStep:
        if not hasattr(self, "_compiled"):
            raise FathomError(f"the {self.name} model is not compiled: call setup() first")
        return self._compiled

    # ---------------------------------------------------------------- checkpoints

    def _open_checkpoints(self, directory: str | None, resume: bool) -> Checkpoints | None:
        """Opens the folder; a resumed run or a forward-only model loads the newest checkpoint.

        Returns:
            the checkpoints of the training run; None without a folder or in a forward-only model.
        """
        if directory is None:
            return None
        settings = dataclasses.asdict(self.hyperparameters)
        settings |= {"seed": self.execution.seed, "precision": self.execution.precision}
        settings |= {"data": str(self.source.directory)}
        variables = self._saved_variables
        checkpoints = Checkpoints(user_path(directory), self.name, settings, variables)
        if not self.is_chief and not (resume and checkpoints.latest):
            return None
        writes = self.is_chief and not self.forward_only
        begun = checkpoints.begin(resume, writes)
        self.notes += begun.notes
        if checkpoints.latest:
            self.restore_state()
        if "learning_rate" in begun.changes and not self.forward_only:
            self.change_learning_rate(*begun.changes["learning_rate"])
        return checkpoints if writes else None

    @functools.cached_property
    def _saved_variables(self) -> dict[str, tf.Variable]:
        """Returns all variables that a resumed run needs, by name."""
        variables = {v.path.replace("/", "-"): v.value for v in self.network.variables}
        variables |= {"steps_done": self._steps_done, "noise_step": self._noise_step}
        if not self.forward_only:
            variables |= self._optimizer.named_variables()
            variables |= {} if self._simulation is None else self._simulation.variables
        return variables | self.state()
