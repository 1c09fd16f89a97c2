"""The hyperparameters of the workload."""

from dataclasses import dataclass

import numpy as np

from fathom.core.training import optimizers
from fathom.deepq.emulator import ACTION_REPEAT
from fathom.deepq.replay import HISTORY
from fathom.errors import FathomError
from fathom.options import Hyperparameters, hyperparameter

NETWORKS = {  # (filters, kernel, stride) of each convolution; hidden units
    2013: (((16, 8, 4), (32, 4, 2)), 256),
    2015: (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
}


@dataclass(frozen=True)
class DeepQHyperparameters(Hyperparameters):
    """The choices of the 2015 paper's extended data table 1, or the reason where they differ."""

    batch_size: int = hyperparameter(
        32, "per step", unit="transitions", source="table 1", minimum=1
    )
    game: str = hyperparameter("pong", "name of its ROM")
    network: int = hyperparameter(2015, "year of the paper", choices=NETWORKS)
    replay_size: int = hyperparameter(
        100_000,
        "capacity of the memory",
        unit="frames",
        source="ours: the paper's 1,000,000 take 7 GB",
    )
    learning_starts: int = hyperparameter(
        50_000, "of random play before learning", unit="frames", source="table 1", minimum=1
    )
    target_update: int = hyperparameter(
        10_000,
        "between copies to the target network",
        unit="parameter updates",
        source="table 1",
        minimum=1,
    )
    discount: float = hyperparameter(0.99, "gamma", source="table 1", maximum=1)
    update_frequency: int = hyperparameter(
        4, "between updates", unit="actions", source="table 1", minimum=1
    )
    optimizer: str = optimizers.choice("rmsprop", source="table 1; released code: centred")
    learning_rate: float = hyperparameter(0.00025, "of the optimizer", source="table 1")
    squared_gradient_momentum: float = hyperparameter(
        0.95, "decay of the running means of g and g^2", source="table 1", maximum=1
    )
    min_squared_gradient: float = hyperparameter(0.01, "inside the root", source="table 1", above=0)
    initial_exploration: float = hyperparameter(
        1.0, "initial epsilon", unit="probability", source="table 1", maximum=1
    )
    final_exploration: float = hyperparameter(
        0.1, "final epsilon", unit="probability", source="table 1", maximum=1
    )
    final_exploration_frame: int = hyperparameter(
        1_000_000, "over which epsilon decreases", unit="actions", source="table 1"
    )
    sticky_actions: float = hyperparameter(
        0.0,
        "of repeating the last action",
        unit="probability",
        source="Machado et al. 2018 propose 0.25",
        maximum=1,
    )
    life_is_episode: bool = hyperparameter(True, "a lost life ends the episode in training")
    environments: int = hyperparameter(1, "games played at once", unit="games", minimum=1)
    save_replay: bool = hyperparameter(False, "checkpoints hold the replay memory")
    evaluation_epsilon: float = hyperparameter(
        0.05, "epsilon of an evaluation", unit="probability", source="methods", maximum=1
    )
    evaluation_episodes: int = hyperparameter(
        30, "of an evaluation", unit="episodes", source="methods", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > self.replay_size:
            raise FathomError(
                f"a minibatch of {self.batch_size:,} is larger than the data: the replay memory "
                f"holds {self.replay_size:,} frames"
            )
        if not self.environments * (HISTORY + 1) <= self.learning_starts <= self.replay_size:
            raise FathomError(
                f"learning_starts must be from {self.environments * (HISTORY + 1):,} to "
                f"replay_size {self.replay_size:,}, not {self.learning_starts:,}"
            )

    def epsilon(self, actions: int) -> float:
        """Returns the probability of a random action after ``actions`` actions.

        It decreases linearly from the start of learning.
        """
        share = (actions - self.learning_starts) / max(1, self.final_exploration_frame)
        fall = self.initial_exploration - self.final_exploration
        return self.initial_exploration - fall * min(max(share, 0.0), 1.0)

    def frames_after(self, updates: np.ndarray) -> np.ndarray:
        """Returns the number of frames played before each number of updates."""
        rounds = -(-self.update_frequency // self.environments)  # all games take as many actions
        return (self.learning_starts + updates * rounds * self.environments) * ACTION_REPEAT
