"""What a workload is, as data that needs neither TensorFlow nor a network.

The package of a workload has a module ``descriptor`` beside its model, with a ``DESCRIPTOR``: the
lists of workloads read it, the model's class takes its name and its data sets from it, and the
conformance suite holds the model to it.
"""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

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
    """What a workload is, and what is expected of its model."""

    name: str  # of the workload: a-z, 0-9 and _
    title: str  # human-readable name of the network and its paper
    datasets: Mapping[str, str]  # class of each, as ``module:Class``, by name; the default first
    parameters: int  # trainable values at the paper's size
    macs: int  # multiply-accumulates of one example's forward pass in training, at that size
    inputs: Mapping[str, tuple[tuple, str]]  # shape without batch and dtype by name, at that size
    labels: Mapping[str, tuple[tuple, str]]  # the same of the labels
    outputs: tuple[tuple, ...]  # shapes without batch of the outputs
    small: Mapping[str, object]  # options that make a step quick
    size: str  # one of them whose change makes a checkpoint unfit
    criteria: Criteria | None = None  # its row of ``fathom list --criteria``; None: it has none
    weights: str = ""  # where those are that others have trained, which --set weights=DIR takes
    # options that change no size but let the first step come soon
    soon: Mapping[str, object] = field(default_factory=dict)
    # further options with which 30 steps overfit one batch
    overfit: Mapping[str, object] = field(default_factory=dict)
    work: float = 1  # of a quick step, in units of the batch size times the cost of an example
    macs_tolerance: float = 0  # relative, of those of a described step against the counted
    products_of_loss: bool = False  # the loss of a training step has matrix products
    # constants of the model's module that make a deep network a shallow one
    few_layers: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def dataset_classes(self) -> tuple[type[DataSet], ...]:
        """Imports and returns the classes of the data sets."""
        return tuple(map(pkgutil.resolve_name, self.datasets.values()))
