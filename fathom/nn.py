"""The model interface: what a workload defines, and what a script calls.

A workload is a subclass of ``NeuralNetworkModel``, which builds, compiles, runs and evaluates what
the workload defines, as listed in ``fathom.model.workload.Workload``:

    model = AlexNet(device="/cpu:0", init_options={"batch_size": 32})
    model.setup()
    result = model.run(n_steps=100)
    model.teardown()

``build`` gives one value, ``fathom.model.built.Built``, and ``setup`` another,
``fathom.model.prepared.Prepared``.
"""

import contextlib
import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

import keras
import numpy as np
import tensorflow as tf
from pydantic import ValidationError

from fathom import options
from fathom.core.data import DataSet, DataSource, choose, locate
from fathom.core.layers import PRNGKey, Random
from fathom.core.training import strategies
from fathom.core.training.compilation import Batch, Step
from fathom.core.training.compilation import Nest as Nest  # for workloads
from fathom.core.training.custom_gradients import CustomGradients, notes_gradients
from fathom.core.training.optimizers import Optimizer, refuse_other_settings
from fathom.core.training.phases import Phases
from fathom.core.training.runner import Progress, RunStep, check_length, default_runstep
from fathom.core.training.values import restored
from fathom.errors import FathomError, cause
from fathom.model import building, depth, microbatches, prepared, record, steps
from fathom.model.built import Built
from fathom.model.prepared import Compiled, Prepared
from fathom.model.workload import Workload
from fathom.results import cost, records
from fathom.results.description import Description
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system import device as devices
from fathom.system import energy, environment, private
from fathom.system.precision import computing_in, select_precision
from fathom.system.processor import keep_freed_memory
from fathom.system.threads import require_threads, set_inter_op_threads, set_threads


class NeuralNetworkModel(Workload):
    """Builds, trains, runs and evaluates a workload on a device.

    Args:
        device: ``cpu``, ``gpu``, ``gpu:1``, or TensorFlow's ``/cpu:0``; None: a GPU if available.
        init_options: hyperparameters, options of a run, and fields of ``options.Execution``, by
            name.

    Attributes:
        execution: how the network is executed.
        device: a ``fathom.system.device.Device``.
        threads: of the run.
        operations_at_once: inter-op threads.
        strategy: of distributed training; None: one device.
        is_chief: this process writes the checkpoints: all but the first worker's do not.
        notes: messages for the user at the start of a run, such as the restored checkpoint.
        runstep: the hook of the current run.
        progress: receives the current run's progress.
        history: curves noted by the workload: lists of (steps done, value) by name.
        sections: seconds of each section, by name; of the last run.
        ended: how the last run ended: ``complete``, ``interrupted``, or the error.
        steps: the record of the last run, even if it ended early.

    Raises:
        FathomError: an unknown option, a value out of range, options that exclude each other, or an
            unavailable device.
    """

    def __init__(
        self, device: str | None = None, init_options: Mapping[str, object] | None = None
    ) -> None:
        started = time.perf_counter()
        if (backend := keras.backend.backend()) != "tensorflow":
            raise FathomError(f"Keras computes with {backend}: set KERAS_BACKEND=tensorflow")
        hyperparameters, run, execution = options.sort(
            init_options, self.Hyperparameters, self.RunOptions, options.Execution
        )
        self.execution = options.build(options.Execution, execution)
        self.hyperparameters = self.build_hyperparameters(hyperparameters)
        self.run_options = options.build(self.RunOptions, run)
        if not self.forward_only:
            self.run_options.check_training()
        refuse_other_settings(self.hyperparameters, hyperparameters)
        self.device = devices.select(device)
        microbatches.check(self, [self.hyperparameters.batch_size])
        self._set_threads()
        same = asdict(self.hyperparameters) | asdict(self.run_options) | {"workload": self.name}
        self.strategy = strategies.create(
            self.execution, self.device, same, type(self).__module__
        )  # in all workers
        self.is_chief = strategies.is_chief(self.execution.strategy)
        select_precision(self.execution.precision, self.device)
        self.device.start()
        self.custom_gradients = CustomGradients(self)
        self._has_data = False
        self._built: Built | None = None
        self._prepared: Prepared | None = None
        self.steps = Steps(first=0, warmup=0)
        self.processor, self.meter = records.Processor(), energy.Meter()
        self.notes: list[str] = []
        self.runstep: RunStep = default_runstep
        self.progress = Progress()
        self.history: dict[str, list[tuple[int, float]]] = {}
        self.sections = {"init": time.perf_counter() - started}
        self._note_kept()

    def _set_threads(self) -> None:
        """Sets TensorFlow's threads, before it computes anything."""
        execution = self.execution
        self.operations_at_once = set_inter_op_threads(
            execution.threads, execution.inter_op_threads
        )
        small = self.small_operations and not self.device.on_gpu and not execution.xla
        share = small or self.microbatches > 1
        self.threads = set_threads(execution.threads, self.operations_at_once if share else 1)

    # ---------------------------------------------------------------- choices

    @functools.cached_property
    def dataset(self) -> type[DataSet]:
        """The model's data set, one of ``datasets``."""
        return choose(self.datasets, self.execution.dataset, self.execution.data_dir)

    @functools.cached_property
    def source(self) -> DataSource:
        """The source of the data; the synthetic set is created on first use."""
        return locate(self.dataset, self.execution.data_dir, self.execution.seed)

    @property
    def microbatches(self) -> int:
        """Parts into which a step on a CPU divides its batch, to compute them at once."""
        wanted, count = self.execution.microbatches, self.operations_at_once
        if wanted != "auto":
            return wanted
        divides = self.divides_inference if self.forward_only else self.divides_batches
        divides = divides and self.hyperparameters.has_default_size
        divides = divides and not microbatches.obstacle(self)
        return count if divides and not self.hyperparameters.batch_size % count else 1

    @property
    def xla(self) -> str:
        """What XLA compiles of a step: all (``step``), some ``layers``, or nothing (``off``)."""
        divided = self.microbatches > 1 and not self.forward_only  # it is slower: performance.md
        return "off" if divided and self.xla_beside_steps == "step" else self.xla_beside_steps

    @property
    def xla_beside_steps(self) -> str:
        """What XLA compiles of what is computed of whole batches: samples, evaluation."""
        default = self.default_xla
        if default == "step" and self.strategy:
            default = "off"  # XLA compiles no collectives
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
        return self._random.new_seed()

    def new_noise(self) -> PRNGKey:
        """Returns the PRNG key of the next layer."""
        return self._random.new_noise()

    def new_random(self) -> Random:
        """Returns where the random numbers of the next layer with several parts come from."""
        return Random(iter(self.new_seed, None), self.noise_step)

    def _load(self) -> None:
        self._note_kept()
        self.load_data()
        self._has_data = True

    def _note_kept(self) -> None:
        """Notes what a script has set before anything is loaded or built."""
        if self._built is None and not self._has_data:
            self._kept = {*vars(self), "_kept"}

    def build(self, *, weights: bool = True) -> None:
        """Builds the network and, in training, the optimizer; nothing is traced yet.

        Reads the data only where the network's size depends on them.

        Args:
            weights: give weights their initial values. Without, they take no memory, and the step
                can be described, but not run.
        """
        require_threads(self.threads)
        if self.sized_by_data and not self._has_data:
            self._load()
        self._note_kept()
        self._built = self._prepared = None
        seeds = np.random.default_rng(self.execution.seed)
        valued = contextlib.nullcontext() if weights else private.variables_without_values()
        with valued, self.placement(), computing_in(self.execution.precision):
            self.noise_step = tf.Variable(0, False, dtype=tf.int64, name="noise_step")
            self._random = Random(iter(lambda: int(seeds.integers(2**31)), None), self.noise_step)
            self._built = building.build(self, self.noise_step)
        if weights:
            self.load_weights()
        self.build_state()

    def placement(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are created and steps are traced."""
        return self.strategy.scope() if self.strategy else self.device.placement()

    # ---------------------------------------------------------------- setting up

    @notes_gradients
    def setup(
        self,
        setup_options: Mapping[str, object] | None = None,
        *,
        instrument: Callable[[Built], Built] | None = None,
    ) -> None:
        """Loads the data, builds the network, compiles its step, restores a checkpoint.

        Args:
            setup_options: fields of ``options.Setup``, by name.
            instrument: changes what was built, before it is compiled: returns it with, for example,
                another network of the same inputs, outputs and variables.

        Raises:
            FathomError: unusable data, options or checkpoints.
        """
        settings = options.build(options.Setup, setup_options)
        prepared.check_strategy(self)
        self.notes, self.history = [], {}
        keep_freed_memory()
        started = time.perf_counter()
        self._load()
        loaded = time.perf_counter()
        self.build()
        if instrument:
            self._built = instrument(self.built)
        self._prepared = prepared.prepare(self, settings)
        self.sections |= {"load": loaded - started, "setup": time.perf_counter() - loaded}

    def teardown(self) -> None:
        """Releases all that loading, building and setting up have given; ``setup`` may follow."""
        self._built, self._prepared, self._has_data = None, None, False
        for name in vars(self).keys() - self._kept:
            delattr(self, name)
        self.custom_gradients.forget()

    # ---------------------------------------------------------------- inspecting

    @property
    def built(self) -> Built:
        """What ``build`` has given.

        Raises:
            FathomError: before ``build`` or ``setup``.
        """
        if self._built is None:
            raise FathomError(f"the {self.name} model is not built: call setup() first")
        return self._built

    @property
    def compiled(self) -> Compiled:
        """What ``setup`` has compiled.

        Raises:
            FathomError: before ``setup``.
        """
        return self._set_up().compiled

    def _set_up(self) -> Prepared:
        if self._prepared is None:
            raise FathomError(f"the {self.name} model is not compiled: call setup() first")
        return self._prepared

    @property
    def labels(self) -> Nest:
        """The symbolic labels; an empty tuple if there are none."""
        return self.built.labels

    @property
    def outputs(self) -> Nest:
        """The network's symbolic outputs."""
        return self.network.output

    @property
    def optimizer(self) -> Optimizer | None:
        """The update rule with its state; None in a forward-only model."""
        return self.built.optimizer

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
    def saved_at(self) -> int:
        """Training step of the last checkpoint written or restored; 0 if there is none."""
        return self._set_up().runner.saved_at

    @property
    def phases(self) -> Phases | None:
        """The phases of generation and their times, if inference generates token by token."""
        return self.compiled.phases

    @property
    def train(self) -> Step | None:
        """The compiled training step, a ``ConcreteFunction`` or one for each batch shape.

        If ``steps_per_call`` is above 1, it takes a block of batches.
        """
        return None if self.forward_only else self.compiled.step.call

    @property
    def loss(self) -> tf.Tensor | None:
        """The loss in the graph of ``model()``, a float32 scalar; None in a forward-only model."""
        return None if self.forward_only else self.model().outputs[0]

    def model(self) -> tf.Graph:
        """Returns the traced graph of one training step, or of inference when forward-only."""
        return self.compiled.step.single.graph

    def train_step(self, *batch: tf.Tensor) -> tf.Tensor:
        """One training step to be traced, of one replica; returns the loss before the update."""
        return steps.StepFunctions(self).train(*batch)

    def infer_step(self, *inputs: tf.Tensor) -> Nest:
        """One inference step to be traced; returns the outputs."""
        return steps.StepFunctions(self).infer(*inputs)

    def cost(self) -> cost.Cost:
        """Returns numbers of parameters and multiply-accumulates, counted from the architecture."""
        return cost.count(self.network)

    @notes_gradients
    def describe(self, length: int | None = None) -> Description:
        """Returns the operations of one step, from its traced graph.

        A model that is not built stays so: its weights take no memory, and of many equal blocks
        only a few are traced. It may be larger than any machine.

        Args:
            length: of the examples, where they have one; None: that of ``cost``.

        Raises:
            FathomError: there is no such length, or the step's numbers are larger than a
                description holds.
        """

        def at(blocks: int) -> Description:
            twin = copy.copy(self)
            if blocks:
                changed = {self.blocks: blocks}
                twin.hyperparameters = dataclasses.replace(self.hyperparameters, **changed)
            twin.build(weights=False)
            return steps.describe(twin, length)

        try:
            if self._built is not None:
                return steps.describe(self, length)
            if self.sized_by_data and not self._has_data:
                self._load()
            return depth.describe(at, getattr(self.hyperparameters, self.blocks, 0))
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise FathomError(f"cannot describe the step ({reason}): use other sizes") from error

    # ---------------------------------------------------------------- running

    def note(self, name: str, value: float) -> None:
        """Adds a point to a curve in ``history``, at the current step."""
        self.history.setdefault(name, []).append((self.steps_done, value))

    @notes_gradients
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
            FathomError: the loss is not finite, a checkpoint cannot be written, a number of steps
                is out of range, or ``runstep`` cannot be called.
        """
        if runstep is not None and not callable(runstep):
            raise FathomError(f"runstep must be a function of (step, batch), not {runstep!r:.60}")
        n_steps, warmup = check_length(self.default_steps if n_steps is None else n_steps, warmup)
        prepared, collectives = self._set_up(), self.built.collectives
        select_precision(self.execution.precision, self.device)  # another model may differ
        self.runstep, self.progress = runstep or default_runstep, progress or Progress()
        first = 0 if self.forward_only else self.steps_done
        strategies.agree(lambda: {"steps": first + n_steps, "warm-up steps": warmup})
        self.steps = Steps(first=first, warmup=warmup)
        if prepared.compiled.phases:
            prepared.compiled.phases.runs.clear()
        self.processor = records.Processor()
        self.meter = energy.meter(devices.gpu_number() if self.device.on_gpu else None)
        started, stolen = time.perf_counter(), environment.steal_seconds()
        try:
            if collectives:
                collectives.begin(warmup)
            with self.strategy.scope() if self.strategy else contextlib.nullcontext():
                batches = (
                    self.inference_batches() if self.forward_only else self.training_batches(first)
                )
            prepared.runner.run(
                batches,
                n_steps,
                self.steps,
                self.processor,
                self.runstep,
                self.progress,
                self.meter,
            )
            if collectives:
                collectives.end()
            self.ended = "complete" if len(self.steps.call) == n_steps else "interrupted"
        except BaseException as error:
            self.ended = "interrupted" if isinstance(error, KeyboardInterrupt) else cause(error)
            raise
        finally:
            self.sections["run"] = time.perf_counter() - started
            self.processor.add_system(
                stolen, environment.steal_seconds(), environment.frequency_mhz()
            )
            self.sections |= self.section_times()
        return self.record()

    def record(self) -> RunResult:
        """Returns the record of the last run, even if it ended early.

        Raises:
            FathomError: nothing has run.
        """
        if "run" not in self.sections:
            raise FathomError(f"the {self.name} model has not run: call run() first")
        return record.of(self)

    def evaluate(self) -> dict[str, float]:
        """Returns the metrics of the test data, by the weights that are evaluated.

        Raises:
            FathomError: before ``setup``, or there is no test data, or it cannot be read.
        """
        self._set_up()
        with self.evaluated_weights():
            return self.test_metrics()

    def test_metrics(self) -> dict[str, float]:
        """Returns means over the examples of the test data; a workload may add to them."""
        return self.metrics_of(self.evaluation_batches())

    @notes_gradients
    def metrics_of(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the metrics of some batches: means over their examples.

        Args:
            batches: of (inputs..., labels...), as from ``evaluation_batches``.

        Raises:
            FathomError: there are none, or they cannot be read.
        """
        evaluate = self.compiled.evaluate
        select_precision(self.execution.precision, self.device)
        sums: dict[str, float] = {}
        examples = 0
        with restored([self.noise_step]):
            # Not the random numbers of any training step, of which XLA reads the low 32 bits.
            self.noise_step.assign(2**31)
            for batch in batches:
                with self.device.placement():
                    found = {name: each.numpy() for name, each in evaluate(*batch).items()}
                sizes = {len(values) for values in found.values()}
                if len(sizes) != 1:
                    names = ", ".join(found)
                    raise FathomError(f"metrics {names} of {self.name} have unlike lengths")
                examples += sizes.pop()
                for name, values in found.items():
                    sums[name] = sums.get(name, 0.0) + float(values.sum(dtype=np.float64))
        if not examples:
            raise self._no_test_data()
        return self.total_metrics(sums, examples) | {"examples": examples}

    def require_test_data(self) -> None:
        """Raises FathomError before a run if there is no test data to evaluate on."""
        self._set_up()
        if next(iter(self.evaluation_batches()), None) is None:
            raise self._no_test_data()

    def _no_test_data(self) -> FathomError:
        return FathomError(f"{self.source.directory} has no test data to evaluate on")
