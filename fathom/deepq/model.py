"""Deep Q-learning: Mnih et al. 2015, "Human-level control through deep reinforcement learning".

The network of Mnih et al. 2013, "Playing Atari with Deep Reinforcement Learning", can be chosen.
Section names are those of the 2015 paper's methods, names of hyperparameters those of its extended
data table 1; "the released code" is DeepMind's, of that paper.
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers

from fathom.deepq.emulator import SIDE
from fathom.deepq.playing import FILLING, PLAYING, PlayingModel
from fathom.deepq.replay import HISTORY
from fathom.errors import FathomError
from fathom.nn import Batch
from fathom.options import Hyperparameters
from fathom.results.cost import Cost
from fathom.system.device import computing_in
from fathom.training.optimizers import Optimizer, RMSProp

NETWORKS = {  # (filters, kernel, stride) of each convolution; hidden units
    2013: (((16, 8, 4), (32, 4, 2)), 256),
    2015: (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
}


@dataclass(frozen=True)
class DeepQHyperparameters(Hyperparameters):
    """The choices of the 2015 paper's extended data table 1, or the reason where they differ."""

    batch_size: int = 32  # transitions a minibatch
    game: str = "pong"  # name of its ROM
    network: int = 2015  # the paper's year: 2013 or 2015
    replay_size: int = 100_000  # frames; the paper's 1,000,000 take 7 GB
    learning_starts: int = 50_000  # frames in the memory, of random play
    target_update: int = 10_000  # parameter updates between copies to the target network
    discount: float = 0.99
    update_frequency: int = 4  # actions between updates
    learning_rate: float = 0.00025
    squared_gradient_momentum: float = 0.95  # decay of the running means of g and g^2
    min_squared_gradient: float = 0.01  # inside the root
    initial_exploration: float = 1.0  # epsilon
    final_exploration: float = 0.1
    final_exploration_frame: int = 1_000_000  # actions over which epsilon falls
    sticky_actions: float = 0.0  # probability; Machado et al. 2018 propose 0.25
    life_is_episode: bool = True  # in training, a lost life ends the episode
    environments: int = 1  # games played at once
    save_replay: bool = False  # checkpoints hold the replay memory
    evaluation_epsilon: float = 0.05
    evaluation_episodes: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("network", NETWORKS)
        self.require_at_least(1, "target_update", "update_frequency", "environments")
        self.require_at_least(1, "evaluation_episodes", "learning_starts")
        for name in (
            *("initial_exploration", "final_exploration", "evaluation_epsilon", "discount"),
            *("sticky_actions", "squared_gradient_momentum"),
        ):
            if getattr(self, name) > 1:
                raise FathomError(f"{name} must be at most 1, not {getattr(self, name)}")
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

        It falls linearly, from the moment when learning starts on.
        """
        share = (actions - self.learning_starts) / max(1, self.final_exploration_frame)
        fall = self.initial_exploration - self.final_exploration
        return self.initial_exploration - fall * min(max(share, 0.0), 1.0)


class DeepQ(PlayingModel):
    """The deep Q-network, playing an Atari game."""

    name = "deepq"
    title = "deep Q-network (Mnih et al. 2015)"
    Hyperparameters = DeepQHyperparameters
    hyperparameters: DeepQHyperparameters
    example = "transitions"
    default_steps = 1000

    # ---------------------------------------------------------------- the network

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the state: the last four frames, uint8 [batch, 84, 84, 4]."""
        return keras.Input((SIDE, SIDE, HISTORY), dtype="uint8", name="state")

    def build_labels(self) -> tuple[keras.KerasTensor, ...]:
        """Returns the action taken, its clipped reward, the next state, and if it was the last."""
        return (
            keras.Input((), dtype="int32", name="action"),
            keras.Input((), dtype="float32", name="reward"),
            keras.Input((SIDE, SIDE, HISTORY), dtype="uint8", name="next_state"),
            keras.Input((), dtype="bool", name="terminal"),
        )

    def build_inference(self, state: keras.KerasTensor) -> keras.KerasTensor:
        """Returns Q(s, a) for every action a: float32 [batch, actions] ("Model architecture")."""
        convolutions, hidden_units = NETWORKS[self.hyperparameters.network]
        x = layers.Rescaling(1 / 255, name="scale")(state)
        for number, (filters, kernel, stride) in enumerate(convolutions, 1):
            initializers = self._initializers(kernel * kernel * x.shape[-1])
            x = layers.Conv2D(
                filters, kernel, stride, activation="relu", name=f"conv{number}", **initializers
            )(x)
        x = layers.Flatten(name="flat")(x)
        x = layers.Dense(
            hidden_units, activation="relu", name="hidden", **self._initializers(x.shape[-1])
        )(x)
        return layers.Dense(self.actions, name="q_values", **self._initializers(x.shape[-1]))(x)

    def _initializers(self, fan_in: int) -> dict[str, keras.initializers.Initializer]:
        """Weights and biases are uniform within 1 / sqrt(fan in), as in the released code."""
        limit = 1 / math.sqrt(fan_in)
        return {
            name: keras.initializers.RandomUniform(-limit, limit, seed=self.new_seed())
            for name in ("kernel_initializer", "bias_initializer")
        }

    def build(self) -> None:
        """Builds the network and, in training, the target network and the optimizer."""
        super().build()
        if not self.forward_only:
            with tf.device(self.device), computing_in(self.execution.precision):
                self._target_network = keras.models.clone_model(self.network)
                self._update_target_network()

    # ---------------------------------------------------------------- learning

    def build_loss(
        self, state: tf.Tensor, labels: tuple[tf.Tensor, ...], q_values: tf.Tensor
    ) -> tf.Tensor:
        """Returns the loss of a minibatch; its derivative is the TD error clipped to +-1.

        The minibatch is summed, not averaged, as in the released code.
        """
        action, reward, next_state, terminal = labels
        best = tf.reduce_max(
            tf.cast(self._target_network(next_state, training=False), tf.float32), 1
        )
        y = reward + self.hyperparameters.discount * tf.where(terminal, 0.0, best)
        error = tf.stop_gradient(y) - tf.gather(q_values, action, axis=1, batch_dims=1)
        size = tf.abs(error)
        return tf.reduce_sum(tf.where(size < 1, 0.5 * error**2, size - 0.5))

    def build_train(self) -> Optimizer:
        """RMSProp as in the released code: centred, without momentum."""
        chosen = self.hyperparameters
        return RMSProp(
            chosen.learning_rate,
            decay=chosen.squared_gradient_momentum,
            epsilon=chosen.min_squared_gradient,
            centered=True,
        )

    def end_step(self, number: int) -> None:
        """Copies the network to the target network every ``target_update`` updates."""
        if (number + 1) % self.hyperparameters.target_update == 0:
            self._update_target_network()

    def _update_target_network(self) -> None:
        for target, variable in zip(
            self._target_network.variables, self.network.variables, strict=True
        ):
            target.assign(variable)

    @property
    def steps_per_epoch(self) -> int:
        """Parameter updates in an epoch; the 2013 paper's had 50,000."""
        return 5_000

    def end_epoch(self, epoch: int) -> None:
        """Notes the mean Q-value of the best action in the held-out states."""
        self.note("mean_q", self.mean_q())

    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of minibatches; before each of them the agent acts."""
        chosen, agent = self.hyperparameters, self.agent
        if not agent.actions_taken:
            agent.player.begin()
        missing = chosen.learning_starts - len(agent.memory)
        if missing > 0:  # at the beginning, and where the checkpoint did not hold the memory
            agent.play(missing, self.rng(FILLING, first_step))
        for step in itertools.count(first_step):
            rng = self.rng(PLAYING, step)
            agent.play(chosen.update_frequency, rng)
            started = time.perf_counter()
            with tf.device("/cpu:0"):
                minibatch = agent.memory.sample(chosen.batch_size, rng)
                batch = tuple(tf.convert_to_tensor(array) for array in minibatch)
            self.sampling_seconds += time.perf_counter() - started
            yield batch

    def cost(self) -> Cost:
        """Returns the network's cost; a training step also runs the target network forward."""
        counted = super().cost()
        both = (dataclasses.replace(layer, forward_passes=2) for layer in counted.layers)
        return dataclasses.replace(counted, layers=tuple(both))

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, tf.Variable]:
        """Returns the target network, the games as they stand, and the replay where asked."""
        variables = super().state()
        if not self.forward_only:
            for variable in self._target_network.variables:
                variables[f"target-{variable.path.replace('/', '-')}"] = variable.value
        return variables

    def teardown(self) -> None:
        """Lets go of the networks, the games and the replay memory."""
        super().teardown()
        self._target_network = None


class DeepQFwd(DeepQ):
    """The deep Q-network, playing only."""

    forward_only = True
