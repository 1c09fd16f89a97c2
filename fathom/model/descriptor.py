"""What a workload is, as data that needs neither TensorFlow nor a network.

The package of a workload has a module ``descriptor`` beside its model, with a ``DESCRIPTOR``: the
lists of workloads read it, the model's class takes its name and its data sets from it, and the
conformance suite holds the model to it.
"""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args

from fathom.core.data.dataset import DataSet

Style: TypeAlias = Literal[
    "fully-connected",
    "convolutional",
    "recurrent",
    "memory network",  # Table II alone
    "attention",  # from here on not in the paper
    "embedding tables",
    "graph convolution",
]
Task: TypeAlias = Literal["supervised", "unsupervised", "reinforcement", "semi-supervised"]
Domain: TypeAlias = Literal[
    "vision", "speech", "language modeling", "function approximation", "recommendation", "graphs"
]
STYLES: tuple[Style, ...] = get_args(Style)
TASKS: tuple[Task, ...] = get_args(Task)
DOMAINS: tuple[Domain, ...] = get_args(Domain)


@dataclass(frozen=True)
class Criteria:
    """What the Fathom paper chooses workloads by: one row of its Table II.

    The application domains of the eight are ours, since Table I marks the suite as a whole.
    """

    year: int  # of the publication
    styles: tuple[Style, ...]  # neuronal styles, by type of layer
    layers: int  # as the paper counts them
    task: Task  # learning task
    domain: Domain  # application domain of Table I
    dataset: str  # human-readable name
    legacy: str  # purpose and legacy: what it is, and what it has changed


@dataclass(frozen=True, eq=False)
class Descriptor:
    """What a workload is, and what is expected of its model.

    Attributes:
        name: of the workload: a-z, 0-9 and _.
        title: human-readable name of the network and its paper.
        datasets: class of each data set, as ``module:Class``, by name; the first is the default.
        criteria: its row of ``fathom list --criteria``; None: it has none.
        weights: where those are that others have trained, which ``--set weights=DIR`` takes.
        parameters: trainable values at the paper's size.
        macs: multiply-accumulates of one example's forward pass in training, at the paper's size.
        inputs: name of each input to (shape without batch, dtype), at the paper's size.
        labels: the same of the labels.
        outputs: shapes without batch of the outputs.
        small: options that make a step quick.
        size: one of them whose change makes a checkpoint unfit.
        soon: options that change no size but let the first step come soon.
        overfit: further options with which 30 steps overfit one batch.
        work: of a quick step, in units of the batch size times the cost of an example.
        macs_tolerance: how far those of a described step may be from the counted, relatively.
        products_of_loss: the loss of a training step has matrix products.
        few_layers: constants of the model's module that make a deep network a shallow one.
    """

    name: str
    title: str
    datasets: Mapping[str, str]
    parameters: int
    macs: int
    inputs: Mapping[str, tuple[tuple, str]]
    labels: Mapping[str, tuple[tuple, str]]
    outputs: tuple[tuple, ...]
    small: Mapping[str, object]
    size: str
    criteria: Criteria | None = None
    weights: str = ""
    soon: Mapping[str, object] = field(default_factory=dict)
    overfit: Mapping[str, object] = field(default_factory=dict)
    work: float = 1
    macs_tolerance: float = 0
    products_of_loss: bool = False
    few_layers: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def dataset_classes(self) -> tuple[type[DataSet], ...]:
        """Imports and returns the classes of the data sets."""
        return tuple(
            cast(type[DataSet], pkgutil.resolve_name(each)) for each in self.datasets.values()
        )
