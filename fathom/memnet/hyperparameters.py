"""The choices that define the workload."""

from dataclasses import dataclass

from fathom.memnet.babi import JOINT, TASKS
from fathom.options import Hyperparameters, hyperparameter


@dataclass(frozen=True)
class MemNetHyperparameters(Hyperparameters):
    """The choices of the paper's section 4.2, or the reason where they differ."""

    batch_size: int = hyperparameter(
        32, "a step", unit="questions", source="section 4.2", minimum=1
    )
    task: int = hyperparameter(1, "of bAbI; 0: all tasks together", choices=(JOINT, *TASKS))
    joint_vocabulary: bool = hyperparameter(False, "the words of all tasks, also for one task")
    hops: int = hyperparameter(3, "K", source="section 4.2", minimum=1)
    embedding: int = hyperparameter(
        20, "d; the paper takes 50 for all tasks together", source="section 4.2", minimum=1
    )
    memory: int = hyperparameter(
        50, "the newest of a story", unit="sentences", source="section 4.2", minimum=1
    )
    tying: str = hyperparameter(
        "adjacent", "of weights", source="section 2.2", choices=("adjacent", "layer-wise")
    )
    position_encoding: bool = hyperparameter(True, "else a bag of words", source="section 4.1")
    temporal_encoding: bool = hyperparameter(
        True, "the order of the sentences counts", source="section 4.1"
    )
    random_noise: float = hyperparameter(
        0.1, "empty memories per sentence, at most, in training", source="section 4.1"
    )
    linear_start: bool = hyperparameter(
        True, "no softmax until the validation loss stops falling", source="section 4.2"
    )
    linear_start_epochs: int = hyperparameter(
        20, "of the linear start, at most", unit="epochs", source="authors' code", minimum=1
    )
    linear_start_patience: int = hyperparameter(
        20, "without a new lowest validation loss that end it", unit="epochs", minimum=1
    )
    linear_start_rate: float = hyperparameter(
        0.005, "the learning rate meanwhile", source="section 4.2"
    )
    learning_rate: float = hyperparameter(0.01, "of the optimizer", source="section 4.2")
    epochs: int = hyperparameter(
        100,
        "of a training, after the linear start's",
        unit="epochs",
        source="section 4.2",
        minimum=1,
    )
    halve_every: int = hyperparameter(
        25, "between halvings of the learning rate", unit="epochs", source="section 4.2", minimum=1
    )
    clip_norm: float = hyperparameter(40.0, "of the gradient of each matrix", source="section 4.2")
    initial_stddev: float = hyperparameter(0.1, "of all weights", source="section 4.2")
    restarts: int = hyperparameter(
        10,
        "the one with the lowest training error is kept",
        unit="trainings",
        source="section 4.2",
        minimum=1,
    )
    epoch_per_call: bool = hyperparameter(
        True, "run an epoch's steps in one call; changes no result"
    )
