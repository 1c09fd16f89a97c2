"""The agent: it acts in the games, observes states and stores transitions."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fathom.deepq.emulator import SIDE, Environment, Turn
from fathom.deepq.replay import HISTORY, PIXEL, ReplayMemory
from fathom.errors import FathomError

# Returns the Q-values of states, float [games, actions]; None if they are unknown.
QFunction = Callable[[np.ndarray], np.ndarray | None]


class Outcome(NamedTuple):
    """The outcome of the agent's actions."""

    turn: Turn
    terminals: np.ndarray  # bool [games]: the episode ended
    scores: list[float]  # of the games that ended


class Player:
    """Acts in one or more games and observes states: the last four frames of an episode.

    With ``life_is_episode`` a lost life ends the episode.
    """

    def __init__(
        self, environment: Environment, q_function: QFunction, life_is_episode: bool = False
    ) -> None:
        self.environment = environment
        self._q_function, self._life_is_episode = q_function, life_is_episode
        # The newest frame is the last; frames before the episode's start are black.
        self.state = np.zeros((environment.games, SIDE, SIDE, HISTORY), np.uint8)
        self.points = np.zeros(environment.games)  # the current score of each game
        self.seconds = {"emulator": 0.0, "acting": 0.0}  # spent in each

    def begin(self) -> None:
        """Starts new games."""
        self.state[:] = 0
        self.state[..., -1] = self.environment.reset()
        self.points[:] = 0

    def choose(self, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        """Returns an action for each game: random with probability ``epsilon``, else the best."""
        actions = rng.integers(len(self.environment.actions), size=self.environment.games)
        greedy = rng.random(self.environment.games) >= epsilon
        if greedy.any():
            started = time.perf_counter()
            q_values = self._q_function(self.state)
            if q_values is not None:
                actions = np.where(greedy, q_values.argmax(1), actions)
            self.seconds["acting"] += time.perf_counter() - started
        return actions

    def act(self, actions: np.ndarray) -> Outcome:
        """Takes an action in each game.

        Raises:
            FathomError: the environment failed.
        """
        started = time.perf_counter()
        try:
            turn = self.environment.step(actions)
        except Exception as error:
            raise FathomError(
                f"the environment failed in the middle of an episode: {type(error).__name__}: "
                f"{' '.join(str(error).split())}"
            ) from error
        self.seconds["emulator"] += time.perf_counter() - started
        self.points += turn.rewards
        scores = self.points[turn.game_over].tolist()
        self.points[turn.game_over] = 0
        terminals = turn.game_over | (turn.life_lost & self._life_is_episode)
        self.state.view(PIXEL)[:] >>= 8  # drops the oldest frames
        self.state[terminals] = 0
        self.state[..., -1] = turn.frames
        return Outcome(turn, terminals, scores)


class Agent:
    """Plays by an epsilon-greedy policy and stores transitions in the replay memory.

    Args:
        player: acts.
        memory: stores the transitions.
        epsilon: the probability of a random action, a function of the actions taken.
        note_score: receives the score of each game that ends.
    """

    def __init__(
        self,
        player: Player,
        memory: ReplayMemory,
        epsilon: Callable[[int], float],
        note_score: Callable[[float], None],
    ) -> None:
        self.player, self.memory = player, memory
        self._epsilon, self._note_score = epsilon, note_score
        self.actions_taken = 0  # in all games together since the start of training

    def play(
        self,
        actions: int,
        rng: np.random.Generator,
        report: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Takes a number of actions in all games together, rounded up to the same in each.

        Before each of them ``report`` is called with how many are taken.
        """
        for done in range(0, actions, self.player.environment.games):
            report(done)
            newest = self.player.state[..., -1].copy()
            chosen = self.player.choose(self._epsilon(self.actions_taken), rng)
            turn, terminals, scores = self.player.act(chosen)
            rewards = np.clip(turn.rewards, -1, 1)
            self.memory.add(newest, chosen, rewards, terminals, turn.cut_off)
            self.actions_taken += len(chosen)
            for score in scores:
                self._note_score(score)


def play_games(player: Player, number: int, epsilon: float, rng: np.random.Generator) -> list:
    """Plays new games; returns the scores of the first ``number`` that end."""
    player.begin()
    scores: list[float] = []
    while len(scores) < number:
        scores += player.act(player.choose(epsilon, rng)).scores
    return scores[:number]


def score_statistics(scores: list[float]) -> dict[str, float]:
    """Returns mean, standard deviation, minimum and maximum of the scores, and their number."""
    return {
        "mean_score": float(np.mean(scores)),
        "score_stddev": float(np.std(scores)),
        "min_score": min(scores),
        "max_score": max(scores),
        "episodes": len(scores),
    }


def random_states(player: Player, number: int, rng: np.random.Generator) -> np.ndarray:
    """Returns every fourth state of a random game: uint8 [number, 84, 84, 4]."""
    player.begin()
    states = np.empty((number, *player.state.shape[1:]), np.uint8)
    for i in range(number):
        for _ in range(4):
            player.act(player.choose(1.0, rng))
        states[i] = player.state[0]
    return states
