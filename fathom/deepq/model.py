"""Deep Q-learning: Mnih et al. 2015, "Human-level control through deep reinforcement learning".

The network of Mnih et al. 2013, "Playing Atari with Deep Reinforcement Learning", is an option.
Section names are those of the 2015 paper's methods; hyperparameters are named as in its extended
data table 1. "The released code" is DeepMind's for that paper.
"""

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from fathom import nn
from fathom.core.training.optimizers import Optimizer, create
from fathom.deepq.agent import Agent, Player, play_games, random_states, score_statistics
from fathom.deepq.descriptor import DESCRIPTOR
from fathom.deepq.emulator import SIDE, Emulator, Environment, Game, VectorEmulator
from fathom.deepq.hyperparameters import NETWORKS, DeepQHyperparameters
from fathom.deepq.replay import HISTORY, ReplayMemory
from fathom.deepq.saving import SavedAgent, require_game, saved_game
from fathom.deepq.sharing import aligned_copy, shared
from fathom.options import Characterization
from fathom.results.cost import Cost
from fathom.system.precision import computing_in
from fathom.system.processor import available_cores

HELD_OUT_STATES = 512
# Streams of random numbers.
GAMES, FILLING, PLAYING, HELD_OUT, EVALUATION, PICTURES = range(6)


class DeepQ(nn.NeuralNetworkModel):
    """The deep Q-network on an Atari game.

    Its data are games and a replay memory. A training step is one update; before it the agent acts.
    Acting steps go through the run's hook like learning steps; their batch is one tensor, the
    state. In a forward-only run a step computes the Q-values by which ``batch_size`` games are
    played.
    """

    descriptor = DESCRIPTOR
    Hyperparameters = DeepQHyperparameters
    hyperparameters: DeepQHyperparameters
    undistributable = "its agent acts between updates, one after the other"
    example = "transitions"
    default_steps = 1000
    characterization = Characterization(
        steps=50,
        quick_steps=20,
        quick_setting="learning_starts=1000",  # it begins to learn when it has played a little
    )
    scores: tuple[float, ...] = ()  # of the last evaluation's games

    @property
    def small_operations(self) -> bool:
        """True where it learns, and for one state: inference of several is faster divided."""
        return not self.forward_only or self.hyperparameters.batch_size == 1

    # ---------------------------------------------------------------- the games

    def build_game(self, stream: int) -> Game:
        """Returns one game, its randomness determined by the stream."""
        return Emulator(*self._emulation(stream))

    def build_games(self, stream: int, number: int) -> Environment:
        """Returns games played at once, their randomness determined by the stream."""
        if number == 1:
            return self.build_game(stream)
        threads = self.execution.threads or available_cores()
        return VectorEmulator(*self._emulation(stream), number, threads)

    def _emulation(self, stream: int) -> tuple[Path, int, float]:
        """Returns the ROM, the seed and the probability of sticky actions."""
        rom = self.dataset.load(self.source.directory).rom(self.hyperparameters.game)
        return rom, int(self.rng(stream).integers(2**31)), self.hyperparameters.sticky_actions

    @functools.cached_property
    def actions(self) -> int:
        """Number of actions with an effect in the game."""
        return len(self.build_game(GAMES).actions)

    def load_data(self) -> None:
        """Creates the games and, for training, the replay memory and the agent that fills it."""
        hyperparameters = self.hyperparameters
        if self.source.kind == "packaged":
            self.notes.append(f"game: {hyperparameters.game}, with the ROM that comes with ale-py")
        if self.forward_only:
            self._environment = self.build_games(GAMES, hyperparameters.batch_size)
            return
        environment = self.build_games(GAMES, hyperparameters.environments)
        copies = 2 if hyperparameters.save_replay else 1
        memory = ReplayMemory(hyperparameters.replay_size, environment.games, copies=copies)
        self.notes.append(
            f"replay memory: {hyperparameters.replay_size:,} frames, "
            f"{copies * ReplayMemory.bytes_needed(hyperparameters.replay_size) / 1e9:.1f} GB "
            f"(the paper: 1,000,000); learning starts after "
            f"{hyperparameters.learning_starts:,} frames of play"
        )
        player = Player(environment, self._q_function, hyperparameters.life_is_episode)
        self.agent = Agent(
            player, memory, hyperparameters.epsilon, functools.partial(self.note, "score")
        )
        self.sampling_seconds = 0.0

    def rng(self, *stream: int) -> np.random.Generator:
        """Returns the generator of a stream, or of a step of it, seeded by the run's seed."""
        return np.random.default_rng([self.execution.seed, *stream])

    # ---------------------------------------------------------------- the network

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the state: the last four frames, uint8 [batch, 84, 84, 4]."""
        return keras.Input((SIDE, SIDE, HISTORY), dtype="uint8", name="state")

    def build_labels(self) -> tuple[keras.KerasTensor, ...]:
        """Returns the action, its clipped reward, the next state, and whether it is terminal."""
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
            initial = self._initializers(kernel * kernel * x.shape[-1])
            x = layers.Conv2D(
                filters, kernel, stride, activation="relu", name=f"conv{number}", **initial
            )(x)
        x = layers.Flatten(name="flat")(x)
        initial = self._initializers(x.shape[-1])
        x = layers.Dense(hidden_units, activation="relu", name="hidden", **initial)(x)
        return layers.Dense(self.actions, name="q_values", **self._initializers(x.shape[-1]))(x)

    def _initializers(self, fan_in: int) -> dict[str, keras.initializers.Initializer]:
        """Weights and biases are uniform within 1 / sqrt(fan in), as in the released code."""
        limit = 1 / math.sqrt(fan_in)
        return {
            name: keras.initializers.RandomUniform(-limit, limit, seed=self.new_seed())
            for name in ("kernel_initializer", "bias_initializer")
        }

    def build_state(self) -> None:
        """Creates the target network, for training, or the last Q-values."""
        with self.device.placement(), computing_in(self.execution.precision):
            if self.forward_only:
                zeros = tf.zeros((self.hyperparameters.batch_size, self.actions))
                self._last_q_values = tf.Variable(zeros, shape=(None, self.actions))  # as served
            else:
                # Seeded alike, it begins with the same weights.
                self._target_network = keras.models.clone_model(self.network)

    def compile_functions(self) -> None:
        """Compiles the network alone, for acting."""

        def q_values(state: tf.Tensor) -> tf.Tensor:
            with self.device.placement():
                return self.network(state, training=False)

        self._q_values = tf.function(q_values, autograph=False, jit_compile=self.xla == "step")
        if not self.forward_only:
            self._act = self._q_values.get_concrete_function(
                tf.TensorSpec((self.hyperparameters.environments, SIDE, SIDE, HISTORY), "uint8")
            )

    # ---------------------------------------------------------------- acting

    def _q_function(self, state: np.ndarray) -> np.ndarray | None:
        """Returns the Q-values of states from an acting step, which the user's hook may skip."""
        q_values = self.runstep(self._act, (shared(aligned_copy(state)),))
        return None if q_values is None else q_values.numpy()

    def infer(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Returns the Q-values, and keeps them to determine the next states."""
        q_values = super().infer(*inputs)
        self._last_q_values.assign(q_values)
        return q_values

    def inference_batches(self) -> Iterator[nn.Batch]:
        """Returns the states of ``batch_size`` games, played by the last step's Q-values."""
        player = Player(self._environment, lambda state: self._last_q_values.numpy())
        rng = self.rng(PLAYING)
        player.begin()
        while True:
            yield (shared(aligned_copy(player.state)),)
            player.act(player.choose(self.hyperparameters.evaluation_epsilon, rng))

    def section_times(self) -> dict[str, float]:
        """Returns the seconds of the emulator, acting, sampling and learning."""
        if self.forward_only:
            return {}
        own = {"sampling": self.sampling_seconds, "learning": sum(self.steps.seconds)}
        return self.agent.player.seconds | own

    # ---------------------------------------------------------------- learning

    def build_loss(
        self, state: tf.Tensor, labels: tuple[tf.Tensor, ...], q_values: tf.Tensor
    ) -> tf.Tensor:
        """Returns the loss of a minibatch; its derivative is the TD error clipped to +-1.

        It is summed over the minibatch, not averaged, as in the released code.
        """
        action, reward, next_state, terminal = labels
        next_q_values = self._target_network(next_state, training=False)
        best = tf.reduce_max(tf.cast(next_q_values, tf.float32), 1)
        y = reward + self.hyperparameters.discount * tf.where(terminal, 0.0, best)
        error = tf.stop_gradient(y) - tf.gather(q_values, action, axis=1, batch_dims=1)
        size = tf.abs(error)
        return tf.reduce_sum(tf.where(size < 1, 0.5 * error**2, size - 0.5))

    def loss_denominator(self, labels: nn.Nest) -> None:
        """The loss is a sum."""

    def build_train(self) -> Optimizer:
        """By default RMSProp as in the released code: centred, without momentum."""
        hyperparameters = self.hyperparameters
        return create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            squared_gradient_momentum=hyperparameters.squared_gradient_momentum,
            min_squared_gradient=hyperparameters.min_squared_gradient,
            centered=True,
        )

    def end_step(self, number: int) -> None:
        """Copies the network to the target network every ``target_update`` updates."""
        if (number + 1) % self.hyperparameters.target_update == 0:
            pairs = zip(self._target_network.variables, self.network.variables, strict=True)
            for target, variable in pairs:
                target.assign(variable)

    @property
    def steps_per_epoch(self) -> int:
        """Parameter updates in an epoch; the 2013 paper's had 50,000."""
        return 5_000

    def end_epoch(self, epoch: int) -> None:
        """Notes the mean Q-value of the best action in the held-out states."""
        self.note("mean_q", self.mean_q())

    def training_batches(self, first_step: int) -> Iterator[nn.Batch]:
        """Returns the endless stream of minibatches; before each of them the agent acts."""
        hyperparameters, agent = self.hyperparameters, self.agent
        self.sampling_seconds = 0.0
        agent.player.seconds = dict.fromkeys(agent.player.seconds, 0.0)
        if not agent.actions_taken:
            agent.player.begin()
        missing = hyperparameters.learning_starts - len(agent.memory)
        if missing > 0:  # at the start, or if the checkpoint did not include the memory
            agent.play(
                missing,
                self.rng(FILLING, first_step),
                lambda done: self.progress.preparing("filling the replay memory", done, missing),
            )
        for step in itertools.count(first_step):
            rng = self.rng(PLAYING, step)
            agent.play(hyperparameters.update_frequency, rng)
            started = time.perf_counter()
            batch = tuple(map(shared, agent.memory.sample(hyperparameters.batch_size, rng)))
            self.sampling_seconds += time.perf_counter() - started
            yield batch

    def cost(self) -> Cost:
        """Returns the network's cost; a training step also runs the target network forward."""
        counted = super().cost()
        both = (layer.model_copy(update={"forward_passes": 2}) for layer in counted.layers)
        return dataclasses.replace(counted, layers=tuple(both))

    # ---------------------------------------------------------------- evaluation

    def build_evaluation(
        self, state: tf.Tensor, labels: tuple[()], q_values: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the Q-value of each state's best action."""
        return {"mean_q": tf.reduce_max(q_values, 1)}

    @functools.cached_property
    def _held_out(self) -> np.ndarray:
        player = self.player(self.build_game(HELD_OUT))
        return random_states(player, HELD_OUT_STATES, self.rng(HELD_OUT))

    def evaluation_batches(self) -> Iterator[nn.Batch]:
        """Returns held-out states of random play (Mnih et al. 2013, section 5.1)."""
        size = self.hyperparameters.batch_size
        for start in range(0, HELD_OUT_STATES, size):
            yield (tf.constant(self._held_out[start : start + size]),)

    def player(self, game: Game) -> Player:
        """Returns a player of a game that uses the current network."""
        return Player(game, lambda state: self._q_values(tf.convert_to_tensor(state)).numpy())

    def mean_q(self) -> float:
        """Returns the mean Q-value of the best action in the held-out states."""
        with self.evaluated_weights():
            return super().test_metrics()["mean_q"]

    def test_metrics(self) -> dict[str, float]:
        """Plays games with epsilon 0.05 ("Evaluation procedure").

        Returns:
            mean, standard deviation, minimum and maximum of the scores, the number of games, and
            the mean Q-value of the best action in the held-out states.
        """
        hyperparameters = self.hyperparameters
        scores = play_games(
            self.player(self.build_game(EVALUATION)),
            hyperparameters.evaluation_episodes,
            hyperparameters.evaluation_epsilon,
            self.rng(EVALUATION),
        )
        self.scores = tuple(scores)
        return score_statistics(scores) | {"mean_q": self.mean_q()}

    def describe_data(self) -> dict[str, object]:
        """Returns the game, and the scores of the last evaluation's games."""
        return {"game": self.hyperparameters.game, "scores": list(self.scores)}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a recording of a game, and curves of score and mean Q-value against frames."""
        from fathom.deepq import pictures  # Matplotlib is slow to import

        hyperparameters, game = self.hyperparameters, self.build_game(PICTURES)
        screens = pictures.record(
            game, self.player(game), hyperparameters.evaluation_epsilon, self.rng(PICTURES)
        )
        recording = directory / f"deepq-{hyperparameters.game}.gif"
        pictures.save_recording(recording, screens)
        if "score" not in self.history:
            return [recording]
        curve = directory / f"deepq-{hyperparameters.game}-training.png"
        title = f"{self.title}: {hyperparameters.game}"
        pictures.save_curve(curve, title, self.history, hyperparameters.frames_after)
        return [recording, curve]

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, tf.Variable]:
        """Returns the game and, for training, all that it goes on with besides the network."""
        game, with_memory = self.hyperparameters.game, self.hyperparameters.save_replay
        if self.forward_only:
            self._saved_game = saved_game()
            return {"agent-game": self._saved_game}
        self._saved = SavedAgent(self.agent, game, with_memory)
        variables = {f"agent-{name}": v for name, v in self._saved.variables.items()}
        for variable in self._target_network.variables:
            variables[f"target-{variable.path.replace('/', '-')}"] = variable.value
        return variables

    def save_state(self) -> None:
        """Copies the games to the variables that are saved."""
        self._saved.save()

    def restore_state(self) -> None:
        """Restores the games; a replay memory that was not saved is refilled by play."""
        if self.forward_only:
            require_game(self._saved_game, self.hyperparameters.game)
        else:
            self._saved.restore()


class DeepQFwd(DeepQ):
    """The deep Q-network, inference only."""

    forward_only = True
