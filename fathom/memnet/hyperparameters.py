"""The hyperparameters of the workload."""

from dataclasses import dataclass
from typing import Literal

from fathom.core.training import optimizers
from fathom.memnet.babi import JOINT, TASKS
from fathom.options import Hyperparameters, RunOptions, hyperparameter, option

RATE_WITHOUT_LINEAR_START = 0.01  # section 4.2


@dataclass(frozen=True)
class MemNetHyperparameters(Hyperparameters):
    """The choices of the paper's section 4.2, or the reason where they differ."""

    batch_size: int = hyperparameter(
        32, "per step", unit="questions", source="section 4.2", minimum=1
    )
    task: int = hyperparameter(1, "of bAbI; 0: all tasks together", choices=(JOINT, *TASKS))
    joint_vocabulary: bool = hyperparameter(False, "words of all tasks even for a single one")
    hops: int = hyperparameter(3, "K", source="section 4.2", minimum=1)
    embedding: int = hyperparameter(
        20, "d; in the paper 50 for all tasks together", source="section 4.2", minimum=1
    )
    memory: int | Literal["longest"] = hyperparameter(
        50,
        "newest of a story; longest: as many as the longest training story has, at most 50",
        unit="sentences",
        source="section 4.2; longest: authors' code",
        minimum=1,
    )
    tying: str = hyperparameter(
        "adjacent", "of weights", source="section 2.2", choices=("adjacent", "layer-wise")
    )
    position_encoding: bool = hyperparameter(True, "false: bag of words", source="section 4.1")
    temporal_encoding: bool = hyperparameter(
        True, "encode the order of the sentences", source="section 4.1"
    )
    random_noise: float = hyperparameter(
        0.1,
        "most empty memories per sentence in training",
        source="section 4.1",
        needs="temporal_encoding",
        maximum=1,
    )
    linear_start: bool = hyperparameter(
        True, "no softmax until the validation loss stops falling", source="section 4.2"
    )
    linear_start_epochs: int = hyperparameter(
        20,
        "maximum of the linear start",
        unit="epochs",
        source="authors' code",
        needs="linear_start",
        minimum=1,
    )
    linear_start_patience: int = hyperparameter(
        20, "without improvement that end it", unit="epochs", needs="linear_start", minimum=1
    )
    optimizer: str = optimizers.choice("sgd", source="section 4.2")
    learning_rate: float = hyperparameter(
        0.005, "initial; without linear start the default is 0.01", source="section 4.2"
    )
    epochs: int = hyperparameter(
        100, "of a training, after the linear start", unit="epochs", source="section 4.2", minimum=1
    )
    halve_every: int = hyperparameter(
        25, "between halvings of the learning rate", unit="epochs", source="section 4.2", minimum=1
    )
    clip_norm: float = hyperparameter(
        40.0, "of the gradient of each matrix", source="section 4.2", above=0
    )
    initial_stddev: float = hyperparameter(0.1, "of all weights", source="section 4.2")
    restarts: int = hyperparameter(
        10,
        "of which the one with the lowest training loss is kept",
        unit="trainings",
        source="section 4.2",
        minimum=1,
    )


@dataclass(frozen=True)
class MemNetOptions(RunOptions):
    """How it is run."""

    steps_per_call: int = option(
        0, "of the compiled step; 0: an epoch's; does not change results", choices=(0, 1)
    )
