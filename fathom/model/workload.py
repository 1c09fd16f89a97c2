"""What a workload defines: its data, network, loss, update rule and metrics."""

import abc
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

import keras
import tensorflow as tf

from fathom import options
from fathom.core.data import DataSet, DataSource
from fathom.core.layers import PRNGKey
from fathom.core.training.compilation import Batch, Nest, Signature
from fathom.core.training.moving_average import Average
from fathom.core.training.optimizers import Optimizer, Variable, is_weight_matrix
from fathom.core.training.phases import Phases, TwoPhases
from fathom.core.training.strategies import Strategy
from fathom.errors import FathomError
from fathom.model.built import Built
from fathom.model.decoder import TokenDecoder
from fathom.model.descriptor import Criteria, Descriptor
from fathom.results import records
from fathom.results.cost import Cost
from fathom.results.distribution import Statistics
from fathom.results.generation import Generation
from fathom.results.steps import Steps
from fathom.system.device import Device
from fathom.system.energy import Meter


class Part(NamedTuple):
    """A function that inference calls, once or for each word.

    Attributes:
        function: of tensors, to a dictionary of tensors by name; reads the network's weights.
        inputs: of the function, with different names; sizes of None are any.
    """

    function: Callable[..., dict[str, tf.Tensor]]
    inputs: Signature

    def outputs(self) -> Signature:
        """Returns the names, shapes and dtypes of the outputs, of any batch size."""
        traced = tf.function(self.function, self.inputs, autograph=False).get_concrete_function()
        return [
            tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype, name)
            for name, tensor in traced.structured_outputs.items()
        ]


class Workload(abc.ABC):
    """What a workload must and may define; ``NeuralNetworkModel`` does the rest.

    Attributes:
        descriptor: what it is, as data; gives the next four their values.
        name: short name, that of the package.
        title: human-readable name of the network and its paper.
        datasets: the supported data sets; the first is the default.
        criteria: of ``fathom list --criteria``; None: it has none.
        Hyperparameters: the dataclass of the workload's hyperparameters.
        RunOptions: the dataclass of its options of a run.
        example: human-readable name of the examples, in the plural.
        default_xla: measured default of ``xla``.
        characterization: how ``fathom characterize`` measures the workload.
        evaluation_compiles: XLA has all kernels that ``build_evaluation`` needs.
        undistributable: why training cannot be distributed; empty if it can.
        blocks: the hyperparameter that is the number of the network's equal blocks, if it has them.
        indivisible: why training cannot be computed in microbatches; empty if it can.
        forward_only: inference without labels, loss and optimizer; set in the ``Fwd`` twins.
        hyperparameters, run_options: their values.
        noise_step: selects a step's random numbers, int64.
        execution, device, strategy, is_chief, notes, history, sections, ended, steps, processor,
            meter: as in ``NeuralNetworkModel``.
    """

    descriptor: ClassVar[Descriptor | None] = None
    name: ClassVar[str]
    title: ClassVar[str]
    datasets: ClassVar[tuple[type[DataSet], ...]]
    Hyperparameters: ClassVar[type[options.Hyperparameters]]
    RunOptions: ClassVar[type[options.RunOptions]] = options.RunOptions
    example: ClassVar[str] = "examples"
    default_xla: ClassVar[str] = "off"
    characterization: ClassVar[options.Characterization] = options.Characterization()
    criteria: ClassVar[Criteria | None] = None
    evaluation_compiles: ClassVar[bool] = True
    undistributable: ClassVar[str] = ""
    indivisible: ClassVar[str] = ""
    blocks: ClassVar[str] = ""
    forward_only: ClassVar[bool] = False
    _is_averaged = False  # whether averages have taken the place of the weights

    hyperparameters: options.Hyperparameters
    run_options: options.RunOptions
    execution: options.Execution
    device: Device
    strategy: Strategy | None
    is_chief: bool
    noise_step: tf.Variable
    notes: list[str]
    history: dict[str, list[tuple[int, float]]]
    sections: dict[str, float]
    ended: str
    steps: Steps
    processor: records.Processor
    meter: Meter

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        described = vars(cls).get("descriptor")
        if described is not None:
            cls.name, cls.title, cls.criteria = described.name, described.title, described.criteria
            cls.datasets = described.dataset_classes()

    @property
    def mode(self) -> options.Mode:
        """``train`` or ``infer``, as results name it."""
        return "infer" if self.forward_only else "train"

    # ---------------------------------------------------------------- provided by the model

    @property
    @abc.abstractmethod
    def dataset(self) -> type[DataSet]:
        """The data set of the run."""

    @property
    @abc.abstractmethod
    def source(self) -> DataSource:
        """Where its data are."""

    @property
    @abc.abstractmethod
    def built(self) -> Built:
        """The network and its variables, after ``build``."""

    @property
    @abc.abstractmethod
    def learning_rate(self) -> tf.Variable:
        """The optimizer's, a float32 scalar that schedules assign to."""

    @property
    @abc.abstractmethod
    def microbatches(self) -> int:
        """Parts into which a training step divides its batch."""

    @property
    @abc.abstractmethod
    def xla(self) -> str:
        """What XLA compiles: the whole ``step``, some ``layers``, or nothing (``off``)."""

    @property
    @abc.abstractmethod
    def xla_beside_steps(self) -> str:
        """What XLA compiles of what is computed of whole batches: samples, evaluation."""

    @property
    @abc.abstractmethod
    def phases(self) -> Phases | None:
        """The times of the phases of generation."""

    @abc.abstractmethod
    def new_noise(self) -> PRNGKey:
        """Returns the PRNG key of the next layer."""

    @abc.abstractmethod
    def placement(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are created and steps are traced."""

    @abc.abstractmethod
    def machine(self) -> records.Environment:
        """Returns the machine and the software, as results state them."""

    @abc.abstractmethod
    def cost(self) -> Cost:
        """Returns numbers of parameters and multiply-accumulates."""

    @property
    def network(self) -> keras.Model:
        """The functional Keras model."""
        return self.built.network

    @property
    def inputs(self) -> Nest:
        """The network's symbolic inputs."""
        return self.built.inputs

    @property
    def steps_done(self) -> int:
        """Training steps since the start of training, including those before resuming."""
        return int(self.built.steps_done.numpy())

    # ---------------------------------------------------------------- must be defined

    @abc.abstractmethod
    def load_data(self) -> None:
        """Reads the data set in ``self.source.directory``.

        Raises:
            FathomError: the data cannot be used.
        """

    @abc.abstractmethod
    def build_inputs(self) -> Nest:
        """Returns the network's Keras inputs with batch dimension None: a tensor or a nest."""

    @abc.abstractmethod
    def build_labels(self) -> Nest:
        """Returns Keras inputs for the labels; an empty tuple if there are none."""

    @abc.abstractmethod
    def build_inference(self, inputs: Nest) -> Nest:
        """Returns the network's symbolic outputs for symbolic inputs: a tensor or a nest."""

    @abc.abstractmethod
    def build_loss(self, inputs: Nest, labels: Nest, outputs: Nest) -> tf.Tensor:
        """Returns the loss of a batch, a float32 scalar; the arguments are not symbolic."""

    @abc.abstractmethod
    def build_train(self) -> Optimizer:
        """Returns the update rule."""

    @abc.abstractmethod
    def build_evaluation(self, inputs: Nest, labels: Nest, outputs: Nest) -> dict[str, tf.Tensor]:
        """Returns the metrics of each example by name, float32 [batch]; arguments not symbolic."""

    @abc.abstractmethod
    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of (inputs..., labels...) from ``first_step`` on.

        A worker of a distributed training has its rows of the batches alone, as a ``DataLoader``
        gives them; see ``fathom.core.training.replicas.rows_of_worker``.
        """

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

    def loss_denominator(self, labels: Nest) -> tf.Tensor | float | None:
        """Returns what ``build_loss`` divides a sum by, for the replicas of a batch.

        None if it does not divide. By default 1: of the number of examples, equal for all replicas.
        """
        return 1.0

    @property
    def small_operations(self) -> bool:
        """Whether most operations, with the default of ``xla``, are too small for all threads.

        Each has its share of them. By default so for the single examples of what is fastest in
        microbatches, as one example cannot be divided. Measured; a subclass may set an attribute
        instead.
        """
        single = self.hyperparameters.batch_size == 1
        return single and self.divides_batches and self.default_xla == "off"

    @property
    def divides_batches(self) -> bool:
        """Whether training at the default size is fastest in microbatches.

        There are as many as operations run at once, and each has its share of the threads. Where
        gradients of larger sizes take long to add, batches are whole. Measured; a subclass may set
        an attribute instead.
        """
        return False

    @property
    def divides_inference(self) -> bool:
        """Whether inference can be computed in microbatches, and at the default size is so."""
        return False

    @property
    def divides_decoding(self) -> bool:
        """Whether it can decode in them, too, after a prefill; otherwise all sequences at once."""
        return False

    def is_weight_matrix(self, variable: Variable) -> bool:
        """Says whether a variable is a matrix of weights, that decays and is pruned."""
        return is_weight_matrix(variable)

    @property
    def batch_statistics(self) -> Statistics | None:
        """What batch normalization uses on several replicas; None for a network without it."""
        return None

    @property
    def sized_by_data(self) -> bool:
        """Whether the network's size depends on the data, which ``build`` then reads."""
        return False

    @property
    def default_steps(self) -> int:
        """Default number of steps; a subclass may set an attribute instead."""
        return 100

    @classmethod
    def build_hyperparameters(cls, values: Mapping[str, object]) -> options.Hyperparameters:
        """Returns the hyperparameters; given values replace the defaults."""
        return cls.Hyperparameters.of(values)

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
            declared = declared + keras.tree.flatten(self.built.labels)
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

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the functions by which an application infers word by word, by name.

        An output and an input of one name, or an output ``new_NAME`` and an input ``NAME``, are
        what one call passes to the next. By default there are none.

        Args:
            length: as in ``signature_of_length``; None: the largest.

        Raises:
            FathomError: there is no such length.
        """
        return {}

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the work of a completed batch, in units of ``batch_size`` times ``cost()``."""
        return 1.0

    def examples(self, *batch: tf.Tensor) -> float:
        """Returns the examples of a batch, in units of ``batch_size``."""
        return 1.0

    def infer(self, *inputs: tf.Tensor) -> Nest:
        """Returns the outputs of an inference step, within the graph being traced."""
        return self.forward(*inputs)

    def forward(self, *inputs: tf.Tensor) -> Nest:
        """Returns what is computed of the inputs, and exported; no state changes.

        Args:
            inputs: a batch as ``inference_batches`` yields it; by default those of the network.
        """
        packed = keras.tree.pack_sequence_as(self.inputs, list(inputs))
        return self.network(packed, training=False)

    def two_phases(self) -> TwoPhases | None:
        """Returns the phases of an inference that generates token by token, to be timed apart.

        Called at each compilation; they compute what ``infer`` does. None: inference has none.
        """
        return None

    def token_decoder(self) -> TokenDecoder | None:
        """Returns the network for a server, if it is one that writes text token by token.

        Called after ``setup`` of a forward-only model.
        """
        return None

    def evaluation_outputs(self, inputs: Nest) -> Nest:
        """Returns the outputs to evaluate; by default the network's."""
        return self.network(inputs, training=False)

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the metrics of the test data from sums over examples; by default means."""
        return {name: total / examples for name, total in sums.items()}

    def load_weights(self) -> None:
        """Called after a network is built that is not only described: loads what others trained."""

    def build_state(self) -> None:
        """Called after the network is built: creates the workload's other variables."""

    def compile_functions(self) -> None:
        """Called at each compilation: compiles functions of the network besides its step."""

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint holds besides the network, the optimizer and the counters."""
        return {}

    def save_state(self) -> None:
        """Called before a checkpoint is written: updates the variables of ``state``."""

    def restore_state(self) -> None:
        """Called after a checkpoint is restored: reads the variables of ``state``."""

    def scheduled_rate(self, step: int) -> float | None:
        """Returns the learning rate of a step, counting from 0, if the step alone decides it."""
        return None

    def change_learning_rate(self, before: object, now: float) -> None:
        """Called if the learning rate option of a resumed run has changed.

        Scales the optimizer's rate in proportion, to keep the effect of a schedule so far; if the
        earlier one is not known, it starts again.
        """
        rate = self.learning_rate
        known = isinstance(before, int | float) and 0 < before < math.inf
        rate.assign(rate * (now / cast(float, before)) if known else now)

    def end_step(self, number: int) -> None:
        """Called after each training step that ran, counting from 0."""

    def end_epoch(self, epoch: int) -> None:
        """Called after the last step of each epoch, counting from 0; for schedules."""

    def section_times(self) -> dict[str, float]:
        """Returns the seconds of additional sections of the last run, by name."""
        return {}

    def generation(self) -> Generation | None:
        """Returns the speed of the last run's phases, if inference generates token by token.

        ``phases`` has timed them.
        """
        return None

    def describe_data(self) -> dict[str, object]:
        """Returns what a result reports about the data, besides its directory and kind."""
        return {}

    @property
    def average(self) -> Average | None:
        """The average of the weights that takes their place in evaluation, if there is any."""
        return None

    @contextlib.contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Gives the network the weights by which it is evaluated and exported, for a while."""
        if self._is_averaged:
            yield
            return
        self._is_averaged = True
        try:
            with self.average.applied() if self.average else contextlib.nullcontext():
                if self.built.simulation:
                    self.built.simulation.round_weights()
                yield
        finally:
            self._is_averaged = False

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes pictures of the network's results; returns their paths."""
        return []
