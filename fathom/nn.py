"""The standard model interface, and the run that all workloads share.

A workload is a subclass of ``NeuralNetworkModel``. It says what its data, inputs, network, loss
and update rule are (``interface.py``); the base class builds, compiles, runs, evaluates and
measures it:

    model = AlexNet(device="/cpu:0", init_options={"batch_size": 32})
    model.setup()
    result = model.run(n_steps=100)
    model.teardown()
"""

import dataclasses
import functools
import math
import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom import options
from fathom.cli.progress import Progress
from fathom.data import DataSource, locate
from fathom.errors import FathomError
from fathom.interface import Batch, Workload
from fathom.layers import PRNGKey
from fathom.results import cost, records
from fathom.results.records import RunResult
from fathom.results.steps import Steps
from fathom.system.device import computing_in, keep_freed_memory, select_device, set_threads
from fathom.training.checkpoint import Checkpoints, described
from fathom.training.compilation import Span, Step, compile_step
from fathom.training.loss_scale import LossScale
from fathom.training.optimizers import Optimizer

RunStep = Callable[[Step, Batch], Any]


def default_runstep(step: Step, batch: Batch) -> Any:
    """Runs one step: the hook that a user's own ``runstep`` takes the place of."""
    return step(*batch)


class NeuralNetworkModel(Workload):
    """Builds, trains, runs, evaluates and measures what a workload defines.

    Args:
        device: ``/cpu:0``, ``/gpu:0``, or as on the command line; None: the GPU if there is one.
        init_options: hyperparameters of the workload and fields of ``options.Execution``, by name.

    Attributes:
        notes: what a person should be told when the run begins, such as what was restored.
        runstep: the hook of the run that is going on.
        history: curves that the workload noted: name to a list of (steps done, value).
        sections: seconds that each part of the model's life took so far, by name.
        steps: what was recorded of the newest run, also of one that ended early.

    Raises:
        FathomError: an unknown option, a value out of range, or no such device.
    """

    def __init__(
        self, device: str | None = None, init_options: Mapping[str, Any] | None = None
    ) -> None:
        started = time.perf_counter()
        hyperparameters, execution = options.sort(
            init_options or {}, self.Hyperparameters, options.Execution
        )
        self.execution = options.build(options.Execution, execution)
        self.hyperparameters = self.build_hyperparameters(hyperparameters)
        self.device = select_device(device)
        self.sections: dict[str, float] = {}
        self._source: DataSource | None = None
        self._network: keras.Model | None = None
        self._single_step: Any = None
        self._step: Any = None
        self._evaluate: Any = None
        self._checkpoints: Checkpoints | None = None
        self._saved_at = 0
        self.steps = Steps(0, 0)
        self.notes: list[str] = []
        self.runstep: RunStep = default_runstep
        self.history: dict[str, list[tuple[int, float]]] = {}
        self.sections["init"] = time.perf_counter() - started

    # ---------------------------------------------------------------- building

    @property
    def source(self) -> DataSource:
        """Where the data comes from; the synthetic set is made on first use."""
        if self._source is None:
            self._source = locate(self.dataset, self.execution.data_dir, self.execution.seed)
        return self._source

    @property
    def xla(self) -> str:
        """What XLA compiles: the whole ``step``, some ``layers`` of it, or nothing (``off``)."""
        return {None: self.default_xla, True: "step", False: "off"}[self.execution.xla]

    def new_seed(self) -> int:
        """Returns a seed for one more random part of the network, fixed by the run's seed."""
        return int(self._seeds.integers(2**31))

    def new_noise(self) -> PRNGKey:
        """Returns the source of random numbers of one more layer."""
        return PRNGKey(self.new_seed(), self._noise_step)

    def build(self) -> None:
        """Builds the network and, in training, the optimizer; nothing is traced yet."""
        self._seeds = np.random.default_rng(self.execution.seed)
        with tf.device(self.device), computing_in(self.execution.precision):
            self._steps_done = tf.Variable(0, dtype=tf.int64, name="steps_done")
            self._noise_step = tf.Variable(0, dtype=tf.int64, name="noise_step")
            self._span = Span()
            self._inputs, self._labels = self.build_inputs(), self.build_labels()
            outputs = self.build_inference(self._inputs)
            if self.execution.precision != "float32":
                outputs = keras.tree.map_structure(_as_float32, outputs)
            self._network = keras.Model(self._inputs, outputs, name=self.name)
            if not self.forward_only:
                self._optimizer = self.build_train()
                self._optimizer.build(self._network.trainable_variables)
                if self.execution.precision == "float16":
                    self._optimizer.loss_scale = LossScale()

    def setup(self, setup_options: Mapping[str, Any] | None = None) -> None:
        """Loads the data, builds the network, compiles its step, restores a checkpoint.

        Args:
            setup_options: fields of ``options.Setup``, by name.

        Raises:
            FathomError: unusable data, options or checkpoints.
        """
        chosen = options.build(options.Setup, setup_options or {})
        self.threads = set_threads(self.execution.threads)
        keep_freed_memory()
        started = time.perf_counter()
        self.load_data()
        self.sections["load"] = time.perf_counter() - started
        started = time.perf_counter()
        self.build()
        self._checkpoint_every = chosen.checkpoint_every
        if chosen.checkpoint_dir is not None:
            self._open_checkpoints(Path(chosen.checkpoint_dir).expanduser(), chosen.resume)
        self._compile()
        self._evaluate = tf.function(
            self._evaluation_step,
            reduce_retracing=True,
            autograph=False,
            jit_compile=self.xla == "step",
        )
        self.sections["setup"] = time.perf_counter() - started

    def teardown(self) -> None:
        """Lets go of the network, the optimizer and what was compiled; ``setup`` begins anew."""
        self._network = self._inputs = self._labels = self._optimizer = None
        self._single_step = self._step = self._evaluate = self._checkpoints = None

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
        """The symbolic labels; an empty tuple where the workload has none."""
        self._check_built()
        return self._labels

    @property
    def outputs(self) -> Any:
        """The network's symbolic outputs."""
        return self.network.output

    @property
    def train(self) -> Any:
        """The compiled training step, a ``ConcreteFunction`` or one for each shape of batch.

        Where ``steps_per_call`` is more than 1, it takes a block of batches.
        """
        return None if self.forward_only else self._compiled_step()

    @property
    def loss(self) -> tf.Tensor | None:
        """The loss in the graph of ``model()``, a float32 scalar; None in a forward-only model."""
        return None if self.forward_only else self.model().outputs[0]

    @property
    def optimizer(self) -> Optimizer | None:
        """The update rule with its state; None in a forward-only model."""
        self._check_built()
        return None if self.forward_only else self._optimizer

    def model(self) -> tf.Graph:
        """Returns the traced graph of one training step, or of inference when forward-only."""
        self._compiled_step()
        return self._single_step.graph

    def cost(self) -> cost.Cost:
        """Returns parameters and multiply-accumulates, counted from the architecture."""
        return cost.count(self.network)

    @property
    def steps_done(self) -> int:
        """Training steps since the beginning of the training, resumed ones included."""
        self._check_built()
        return int(self._steps_done)

    @property
    def saved_at(self) -> int:
        """After which training step the newest checkpoint was written or restored; 0: none was."""
        return self._saved_at

    # ---------------------------------------------------------------- running

    def note(self, name: str, value: float) -> None:
        """Adds a point to one of the curves of ``history``, at the steps done by now."""
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
                it.
            n_steps: number of steps; None: ``default_steps``.
            warmup: how many of them, the first ones, the statistics leave out; None: a fifth of
                them, five at most.
            progress: is told of each step.

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
        self.runstep, progress = runstep or default_runstep, progress or Progress()
        first = 0 if self.forward_only else self.steps_done
        self.steps = Steps(first, warmup)
        started = time.perf_counter()
        try:
            self._run_steps(n_steps, progress)
            if self._checkpoints and self._saved_at != self.steps_done:
                self._save_checkpoint()
        finally:
            self.sections["run"] = time.perf_counter() - started
        return records.record(self, self.steps)

    def evaluate(self) -> dict[str, float]:
        """Returns the metrics of one pass over the test data: means over its examples.

        Raises:
            FathomError: there is no test data, or it cannot be read.
        """
        return self.metrics_of(self.evaluation_batches())

    def metrics_of(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the metrics of some batches: means over their examples.

        Args:
            batches: of (inputs..., labels...), as those of ``evaluation_batches``.

        Raises:
            FathomError: there are none, or they cannot be read.
        """
        self._compiled_step()
        trained_noise = int(self._noise_step)
        self._noise_step.assign(2**40)  # no training step's noise is met again
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
            raise FathomError(f"{self.source.directory} has no test data to evaluate on")
        return self.total_metrics(sums, examples) | {"examples": examples}

    def require_test_data(self) -> None:
        """Raises FathomError where ``evaluate`` would find no test data, before steps are spent."""
        if next(iter(self.evaluation_batches()), None) is None:
            raise FathomError(f"{self.source.directory} has no test data to evaluate on")

    # ---------------------------------------------------------------- inside

    def _train_step(self, *batch: tf.Tensor) -> tf.Tensor:
        """One forward pass, backward pass and update; returns the loss before the update."""
        inputs, labels = self._split(batch)
        variables = self._network.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self._network(inputs, training=True)
            loss = self.build_loss(inputs, labels, outputs)
            scaled = self._optimizer.scale(loss)
        self._optimizer.apply(tape.gradient(scaled, variables), variables)
        self._steps_done.assign_add(1)
        self._noise_step.assign_add(1)
        return loss

    def _infer_step(self, *inputs: tf.Tensor) -> Any:
        """One forward pass; returns the outputs."""
        outputs = self._network(self._split(inputs)[0], training=False)
        self._noise_step.assign_add(1)
        return outputs

    def _evaluation_step(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, labels = self._split(batch)
        outputs = self.evaluation_outputs(inputs)
        self._noise_step.assign_add(1)
        return self.build_evaluation(inputs, labels, outputs)

    def _split(self, batch: tuple[tf.Tensor, ...]) -> tuple[Any, Any]:
        """Packs a flat batch as the inputs and the labels were declared."""
        n_inputs = len(keras.tree.flatten(self._inputs))
        inputs = keras.tree.pack_sequence_as(self._inputs, list(batch[:n_inputs]))
        labels = batch[n_inputs:]
        return inputs, keras.tree.pack_sequence_as(self._labels, list(labels)) if labels else ()

    def _compile(self) -> None:
        """Compiles the step for each shape of batch, or for each shape of block."""
        step = self._infer_step if self.forward_only else self._train_step
        signatures, several = self.signatures(), self.steps_per_call
        shapes = {tuple(spec.shape for spec in each) for each in signatures}
        self._unmet_shapes = shapes if len(shapes) > 1 else set()
        compiled = self.xla == "step"
        with tf.device(self.device):
            self._single_step = self._step = compile_step(
                step, signatures, xla=compiled and several == 1
            )
            if several > 1:
                blocks = [
                    [tf.TensorSpec((several, *spec.shape), spec.dtype, spec.name) for spec in each]
                    for each in signatures
                ]
                run = functools.partial(self._span.run, self._single_step)
                self._step = compile_step(run, blocks, xla=compiled)

    def _check_built(self) -> None:
        if self._network is None:
            raise FathomError(f"the {self.name} model is not built: call setup() first")

    def _compiled_step(self) -> Any:
        if self._step is None:
            raise FathomError(f"the {self.name} model is not compiled: call setup() first")
        return self._step

    def _run_steps(self, n_steps: int, progress: Progress) -> None:
        """Runs and records so many steps, those of the warm-up in calls of their own."""
        steps, first = self.steps, self.steps.first
        batches = self.inference_batches() if self.forward_only else self.training_batches(first)
        with progress.running(first, n_steps, self.hyperparameters.batch_size):
            number, self._batches_in_call = first, None
            while number < first + n_steps:
                warm = number >= first + steps.warmup
                stop = first + (n_steps if warm else steps.warmup)
                number += self._run_call(number, stop, batches, steps)
                progress.step(number - 1, steps.loss[-1], steps.seconds[-1])

    def _run_call(self, number: int, stop: int, batches: Iterator, steps: Steps) -> int:
        """Runs and records one call of the step; then come checks, schedules and checkpoints.

        Returns:
            how many steps the call ran, one unless ``steps_per_call`` is more.
        """
        begin, count = number % self.steps_per_call, self._steps_in_call(number, stop)
        before_input = time.perf_counter()
        if self._batches_in_call is None or begin == 0:
            self._batches_in_call = next(batches)
        self._span.set(begin, begin + count)
        first_of_shape = self._meets_shape(self._batches_in_call)
        before_step = time.perf_counter()
        value = self.runstep(self._step, self._batches_in_call)
        if self.device != "/cpu:0":
            tf.test.experimental.sync_devices()
        losses: list[float | None] = [None] * count
        if not self.forward_only and value is not None:
            losses = np.reshape(value, -1)[begin : begin + count].tolist()
        seconds, wait = time.perf_counter() - before_step, before_step - before_input
        call = len(steps.seconds)
        for i, loss in enumerate(losses):
            work = self.work(*self._batches_in_call)
            steps.add(seconds / count, wait / count, loss, work, first_of_shape, call)
            if loss is not None and not math.isfinite(loss):
                self._stop_diverged(number + i, loss)
        if not self.forward_only:
            self._follow_up(number, count)
        return count

    def _meets_shape(self, batch: Batch) -> bool:
        """Says whether a batch is the first of one of several shapes."""
        if not self._unmet_shapes:
            return False
        shape = tuple(tensor.shape for tensor in batch)
        first = shape in self._unmet_shapes
        self._unmet_shapes.discard(shape)
        return first

    def _steps_in_call(self, number: int, stop: int) -> int:
        """Returns how many steps the next call runs: none beyond an epoch's end or a checkpoint."""
        ends = [stop, _next_multiple(number, self.steps_per_call)]
        if not self.forward_only:
            ends.append(_next_multiple(number, self.steps_per_epoch))
        if self._checkpoints:
            ends.append(_next_multiple(number, self._checkpoint_every))
        return min(ends) - number

    def _follow_up(self, number: int, count: int) -> None:
        """Does what comes after ``count`` training steps, the first of them ``number``."""
        for i in range(number, number + count):
            self.end_step(i)
        done = number + count
        if done % self.steps_per_epoch == 0:
            self.end_epoch(done // self.steps_per_epoch - 1)
        if self._checkpoints and done % self._checkpoint_every == 0:
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        steps_done = self.steps_done
        self.save_state()
        self._checkpoints.save(steps_done)
        self._saved_at = steps_done

    def _stop_diverged(self, number: int, loss: float) -> None:
        good = self._checkpoints.latest if self._checkpoints else None
        kept = f"the last good checkpoint is {good}" if good else "no checkpoint was written"
        raise FathomError(
            f"the loss of step {number} is {loss}: the training has diverged; {kept}; lower the "
            "learning rate, or look at the data"
        )

    def _open_checkpoints(self, directory: Path, resume: bool) -> None:
        """Opens the folder; a resumed training and a forward-only model take the newest state."""
        settings = dataclasses.asdict(self.hyperparameters)
        settings |= {"seed": self.execution.seed, "precision": self.execution.precision}
        settings |= {"data": str(self.source.directory)}
        checkpoints = Checkpoints(directory, self.name, settings, self._saved_variables())
        if self.forward_only or resume:
            changes = checkpoints.restore()
            self.restore_state()
            self.notes.append(f"restored {checkpoints.latest}, after step {self.steps_done:,}")
            self.notes += [f"changed since then: {change}" for change in described(changes)]
            if "learning_rate" in changes and not self.forward_only:
                self.change_learning_rate(*changes["learning_rate"])
        else:
            checkpoints.refuse_other_training()
        self._checkpoints = None if self.forward_only else checkpoints
        self._saved_at = self.steps_done

    def _saved_variables(self) -> dict[str, tf.Variable]:
        """Returns all that a resumed run needs, by name."""
        variables = {v.path.replace("/", "-"): v.value for v in self.network.variables}
        variables |= {"steps_done": self._steps_done, "noise_step": self._noise_step}
        if not self.forward_only:
            for i, variable in enumerate(self._optimizer.variables):
                variables[f"optimizer-{i}-{variable.name.rpartition(':')[0]}"] = variable
        return variables | self.state()


def _as_int(name: str, number: Any) -> int:
    """Returns a whole number, NumPy's too, as Python's; raises FathomError where it is none."""
    if not isinstance(number, numbers.Integral):
        raise FathomError(f"{name} must be a whole number, not {number!r}")
    return int(number)


def _next_multiple(number: int, divisor: int) -> int:
    """Returns the least multiple of ``divisor`` above ``number``."""
    return (number // divisor + 1) * divisor


def _as_float32(tensor: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the outputs of a computation of lower precision in float32, and integers as is."""
    is_float = keras.backend.is_float_dtype(tensor.dtype)
    return keras.ops.cast(tensor, "float32") if is_float else tensor
