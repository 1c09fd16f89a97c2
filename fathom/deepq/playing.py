"""What a model that learns by playing needs beside its network: games, acting, scores, saving."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.deepq.agent import Agent, Player, play_games, random_states
from fathom.deepq.atari import Atari
from fathom.deepq.emulator import SIDE, Emulator, Environment, VectorEmulator
from fathom.deepq.replay import HISTORY, ReplayMemory
from fathom.deepq.saving import SavedAgent
from fathom.results.records import RunResult
from fathom.system.device import available_cores

HELD_OUT_STATES = 512
# What the streams of random numbers are for.
GAMES, FILLING, PLAYING, HELD_OUT, EVALUATION, PICTURES = range(6)


class PlayingModel(nn.NeuralNetworkModel):
    """A model whose data are games and a replay memory.

    A training step is one update; before it the agent acts. Acting steps go through the hook of the
    run as learning steps do: they have one tensor, the state. In a forward-only run a step gives
    the Q-values of ``batch_size`` games, which are played by them.

    Attributes:
        scores: of the last evaluation's games.
    """

    dataset = Atari
    scores: tuple[float, ...] = ()

    # ---------------------------------------------------------------- the games

    def build_environment(self, stream: int, games: int = 1) -> Environment:
        """Returns ``games`` games that are played at once, their chance fixed by the stream."""
        rom = Atari.load(self.source.directory).rom(self.hyperparameters.game)
        seed, sticky = int(self.rng(stream).integers(2**31)), self.hyperparameters.sticky_actions
        if games == 1:
            return Emulator(rom, seed, sticky)
        threads = self.execution.threads or available_cores()
        return VectorEmulator(rom, seed, sticky, games, threads)

    @functools.cached_property
    def actions(self) -> int:
        """The number of actions that have an effect in the game."""
        return len(self.build_environment(GAMES).actions)

    def load_data(self) -> None:
        """Makes the games and, for training, the replay memory and the agent that fills it."""
        chosen = self.hyperparameters
        if self.source.kind == "packaged":
            self.notes.append(f"game: {chosen.game}, with the ROM that comes with ale-py")
        if self.forward_only:
            self._environment = self.build_environment(GAMES, chosen.batch_size)
            return
        environment = self.build_environment(GAMES, chosen.environments)
        copies = 2 if chosen.save_replay else 1
        memory = ReplayMemory(chosen.replay_size, environment.games, copies=copies)
        self.notes.append(
            f"replay memory: {chosen.replay_size:,} frames, "
            f"{copies * ReplayMemory.bytes_needed(chosen.replay_size) / 1e9:.1f} GB (the paper: "
            f"1,000,000); learning starts after {chosen.learning_starts:,} frames of play"
        )
        player = Player(environment, self._q_function, chosen.life_is_episode)
        self.agent = Agent(player, memory, chosen.epsilon, self._note_score)
        self.sampling_seconds = 0.0

    def _note_score(self, score: float) -> None:
        if self._network is not None:  # the games may begin before there is one
            self.note("score", score)

    def rng(self, *stream: int) -> np.random.Generator:
        """Returns the random numbers of a stream, or of a step of it, fixed by the run's seed."""
        return np.random.default_rng([self.execution.seed, *stream])

    # ---------------------------------------------------------------- acting

    def build(self) -> None:
        """Builds the network."""
        super().build()
        if self.forward_only:
            with tf.device(self.device):
                self._last_q_values = tf.Variable(
                    tf.zeros((self.hyperparameters.batch_size, self.actions))
                )

    def setup(self, setup_options: Mapping[str, Any] | None = None) -> None:
        """Loads the game, builds and compiles the network, restores a checkpoint."""
        super().setup(setup_options)

        def infer(state: tf.Tensor) -> tf.Tensor:
            with tf.device(self.device):
                return self._network(state, training=False)

        self._infer = tf.function(infer, autograph=False, jit_compile=self.xla == "step")
        if not self.forward_only:
            self._act = self._infer.get_concrete_function(
                tf.TensorSpec((self.hyperparameters.environments, SIDE, SIDE, HISTORY), "uint8")
            )

    def teardown(self) -> None:
        """Lets go of the network, the games and the replay memory."""
        super().teardown()
        self._infer = self._act = self.agent = self._saved = None

    def _q_function(self, state: np.ndarray) -> np.ndarray | None:
        """Returns the Q-values of states by an acting step, which the user's hook may skip."""
        q_values = self.runstep(self._act, (tf.convert_to_tensor(state.copy()),))
        return None if q_values is None else q_values.numpy()

    def _infer_step(self, state: tf.Tensor) -> tf.Tensor:
        """Returns the Q-values, and keeps them: the next states follow from them."""
        q_values = super()._infer_step(state)
        self._last_q_values.assign(q_values)
        return q_values

    def inference_batches(self) -> Iterator[nn.Batch]:
        """Returns the states of ``batch_size`` games, played by what the last step returned."""
        player = Player(self._environment, lambda state: self._last_q_values.numpy())
        rng = self.rng(PLAYING)
        player.begin()
        while True:
            yield (tf.convert_to_tensor(player.state.copy()),)
            player.act(player.choose(self.hyperparameters.evaluation_epsilon, rng))

    def run(self, *arguments: Any, **options: Any) -> RunResult:
        """Runs as every workload; times the emulator, acting, sampling and learning apart."""
        result = super().run(*arguments, **options)
        if not self.forward_only:
            learning = self.sections.get("learning", 0.0) + sum(result.steps.seconds)
            self.sections |= self.agent.player.seconds
            self.sections |= {"sampling": self.sampling_seconds, "learning": learning}
            result.sections = self.sections | {"wall": result.sections["wall"]}
        return result

    # ---------------------------------------------------------------- evaluation

    def build_evaluation(
        self, state: tf.Tensor, labels: tuple[()], q_values: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the Q-value of each state's best action."""
        return {"mean_q": tf.reduce_max(q_values, 1)}

    @functools.cached_property
    def _held_out(self) -> np.ndarray:
        return random_states(self.player(HELD_OUT), HELD_OUT_STATES, self.rng(HELD_OUT))

    def evaluation_batches(self) -> Iterator[nn.Batch]:
        """Returns held-out states of random play (Mnih et al. 2013, section 5.1)."""
        size = self.hyperparameters.batch_size
        for start in range(0, HELD_OUT_STATES, size):
            yield (tf.constant(self._held_out[start : start + size]),)

    def player(self, stream: int) -> Player:
        """Returns a player of a game of its own, by the network as it is."""
        return Player(
            self.build_environment(stream),
            lambda state: self._infer(tf.convert_to_tensor(state)).numpy(),
        )

    def recorded_player(self) -> tuple[Player, np.random.Generator]:
        """Returns the player of a game to be recorded, and its random numbers."""
        return self.player(PICTURES), self.rng(PICTURES)

    def mean_q(self) -> float:
        """Returns the mean Q-value of the best action in the held-out states."""
        return super().evaluate()["mean_q"]

    def evaluate(self) -> dict[str, float]:
        """Plays games with epsilon 0.05 ("Evaluation procedure").

        Returns:
            mean, standard deviation, least and largest of the scores, the number of games, and
            the mean Q-value of the best action in the held-out states.
        """
        chosen = self.hyperparameters
        scores = play_games(
            self.player(EVALUATION),
            chosen.evaluation_episodes,
            chosen.evaluation_epsilon,
            self.rng(EVALUATION),
        )
        self.scores = tuple(scores)
        return {
            "mean_score": float(np.mean(scores)),
            "score_stddev": float(np.std(scores)),
            "min_score": min(scores),
            "max_score": max(scores),
            "episodes": len(scores),
            "mean_q": self.mean_q(),
        }

    def describe_data(self) -> dict[str, Any]:
        """Returns the game, and the scores of the last evaluation's games."""
        return {"game": self.hyperparameters.game, "scores": list(self.scores)}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a recording of a game, and the curve of score and mean Q-value against frames."""
        from fathom.deepq import pictures  # Matplotlib is slow to import

        return pictures.save(self, directory)

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, tf.Variable]:
        """Returns the games as they stand, and the replay memory where asked."""
        if self.forward_only:
            return {}
        self._saved = SavedAgent(self.agent, self.hyperparameters.save_replay)
        return {f"agent-{name}": v for name, v in self._saved.variables.items()}

    def save_state(self) -> None:
        """Copies the games to what is saved."""
        self._saved.save()

    def restore_state(self) -> None:
        """Takes up the games; where the replay was not saved, playing on fills it anew."""
        if not self.forward_only:
            self._saved.restore()
