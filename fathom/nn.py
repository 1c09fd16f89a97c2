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

import tensorflow as tf

from fathom import options
from fathom.data.pipeline import PREFETCHED
from fathom.errors import FathomError
from fathom.network import BuiltWorkload
from fathom.numbers import calibration
from fathom.numbers.simulation import Simulation
from fathom.results import records
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system import energy, environment
from fathom.system.device import select_precision
from fathom.system.files import user_path
from fathom.system.processor import keep_freed_memory
from fathom.training import microbatches, strategies
from fathom.training.checkpoint import Checkpoints
from fathom.training.compilation import Batch, CompiledStep, Step
from fathom.training.compilation import Nest as Nest  # for workloads
from fathom.training.custom_gradients import notes_gradients
from fathom.training.evaluation import sum_metrics
from fathom.training.footprint import require_memory
from fathom.training.runner import Loop, Progress, Runner, RunStep, check_length, default_runstep


class NeuralNetworkModel(BuiltWorkload):
    """Builds, trains, runs and evaluates a workload.

    Args: as for ``BuiltWorkload``.

    Attributes:
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
        super().__init__(device, init_options)
        self.steps = Steps(first=0, warmup=0)
        self.processor, self.meter = records.Processor(), energy.Meter()
        self.notes: list[str] = []
        self.runstep: RunStep = default_runstep
        self.progress = Progress()
        self.history: dict[str, list[tuple[int, float]]] = {}
        self.sections = {"init": time.perf_counter() - started}

    # ---------------------------------------------------------------- setting up

    @notes_gradients
    def setup(self, setup_options: Mapping[str, object] | None = None) -> None:
        """Loads the data, builds the network, compiles its step, restores a checkpoint.

        Args:
            setup_options: fields of ``options.Setup``, by name.

        Raises:
            FathomError: unusable data, options or checkpoints.
        """
        chosen = options.build(options.Setup, setup_options)
        if self.strategy:
            strategies.check(
                self.execution,
                self.name,
                obstacle=self.undistributable,
                trains=not self.forward_only,
                xla=self.xla == "step",
            )
        keep_freed_memory()
        started = time.perf_counter()
        self.load_data()
        loaded = time.perf_counter()
        self.build()
        if self.strategy:
            strategies.check_batches(self.signatures(), self.strategy.num_replicas_in_sync)
        self.check_microbatches(microbatches.batch_sizes(self.signatures()))
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
            self._simulate(self._simulation)
        self.compile()
        if self._collectives:
            self._collectives.measure_link()
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

    def _simulate(self, simulation: Simulation) -> None:
        """Computes in fixed point from here on, in formats chosen now unless they were restored."""
        if simulation.calibrates:
            simulation.calibrate()
            self.compile()
            kept = [self._noise_step] if self.forward_only else self._saved_variables.values()
            calibration.run(self, self._compiled.single, list(kept))
        simulation.begin()

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
            # Of its own: TensorFlow counts the tracings of a method over all models, and warns.
            functools.partial(self._evaluation_step),
            reduce_retracing=True,
            autograph=False,
            jit_compile=self.xla == "step" and self.evaluation_compiles,
        )

    def teardown(self) -> None:
        """Releases the network, the optimizer and compiled functions; ``setup`` may follow."""
        self.release("_network", "_inputs", "_labels", "_optimizer")
        self.release("_simulation", "_saved_variables")
        self.release("_compiled", "_evaluate", "_runner")
        self.custom_gradients.forget()

    # ---------------------------------------------------------------- inspecting

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

    @property
    def saved_at(self) -> int:
        """Training step of the last checkpoint written or restored; 0 if there is none."""
        return self._runner.saved_at

    def _compiled_step(self) -> CompiledStep:
        if not hasattr(self, "_compiled"):
            raise FathomError(f"the {self.name} model is not compiled: call setup() first")
        return self._compiled

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
            if self._collectives:
                self._collectives.begin(warmup)
            with self.strategy.scope() if self.strategy else contextlib.nullcontext():
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
            if self._collectives:
                self._collectives.end()
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
        source, chosen = self.source, self.hyperparameters
        counted = self.cost()
        macs = counted.forward_macs if self.forward_only else counted.training_macs
        work = self.steps.work[self.steps.warmup :]
        flops = 2 * macs * chosen.batch_size * sum(work)
        kind = "cpu" if self.device == "/cpu:0" else "gpu"
        return RunResult(
            workload=self.name,
            mode=self.mode,
            data=records.Data.model_validate(
                {
                    "name": self.dataset.name,
                    "directory": str(source.directory),
                    "kind": source.kind,
                    **self.describe_data(),
                }
            ),
            hyperparameters=records.UsedHyperparameters(**dataclasses.asdict(chosen)),
            seed=self.execution.seed,
            environment=self.machine(),
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
            distribution=self._collectives.record(self.steps.seconds[self.steps.warmup :])
            if self._collectives
            else None,
        )

    def evaluate(self) -> dict[str, float]:
        """Returns the metrics of one pass over the test data: means over its examples.

        Raises:
            FathomError: there is no test data, or it cannot be read.
        """
        return self.metrics_of(self.evaluation_batches())

    @notes_gradients
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
        simulation = None if self.forward_only else self._simulation
        checkpoints = Checkpoints(
            *(user_path(directory), self.name, settings, variables),
            formats=simulation.variables if simulation else (),
        )
        if not self.is_chief and not (resume and checkpoints.latest):
            return None
        writes = self.is_chief and not self.forward_only
        begun = checkpoints.begin(resume, writes)
        self.notes += begun.notes
        if checkpoints.latest:
            self.restore_state()
            if simulation:
                simulation.chosen = "precision" not in begun.changes
        if "learning_rate" in begun.changes and not self.forward_only:
            self.change_learning_rate(*begun.changes["learning_rate"])
        return checkpoints if writes else None
