"""The games and the replay memory in checkpoints."""

import numpy as np
import tensorflow as tf

from fathom.deepq.agent import Agent
from fathom.errors import FathomError
from fathom.system.device import CPU

_GAME_BYTES = 65_536  # four times the size of an emulator's state


def saved_game() -> tf.Variable:
    """Returns a variable for the name of a game, a zero, and the state of the games: uint8."""
    with CPU.placement():
        return tf.Variable(tf.zeros(_GAME_BYTES, tf.uint8))


def require_game(saved: tf.Variable, game: str) -> None:
    """Raises FathomError if a checkpoint is of another game."""
    name = saved.numpy().tobytes().partition(b"\0")[0].decode()
    if name not in ("", game):  # Fathom 2.0 saved no name of several games played at once
        raise FathomError(f"the checkpoint is of the game {name}, not {game}")


class SavedAgent:
    """Variables that an agent is copied to before saving and from after restoring.

    Args:
        agent: its games and counters are saved.
        game: name of the game.
        with_memory: save the replay memory too, with a second copy in memory.
    """

    def __init__(self, agent: Agent, game: str, with_memory: bool) -> None:
        self._agent, self._game, self._with_memory = agent, game, with_memory
        player = agent.player
        self._arrays: dict[str, np.ndarray] = {"state": player.state, "points": player.points}
        if with_memory:
            self._arrays |= agent.memory.arrays()
        with CPU.placement():
            self.variables = {
                "actions_taken": tf.Variable(0, dtype=tf.int64),
                "memory_added": tf.Variable(0, dtype=tf.int64),
                "game": saved_game(),
                "game_bytes": tf.Variable(0, dtype=tf.int64),
            } | {name: tf.Variable(tf.zeros(a.shape, a.dtype)) for name, a in self._arrays.items()}

    def save(self) -> None:
        """Copies the agent to the variables."""
        agent, variables = self._agent, self.variables
        state = agent.player.environment.save() or b""
        game = np.frombuffer(self._game.encode() + b"\0" + state, np.uint8)
        variables["game"].assign(np.pad(game, (0, _GAME_BYTES - len(game))))
        variables["game_bytes"].assign(len(game))
        variables["actions_taken"].assign(agent.actions_taken)
        variables["memory_added"].assign(agent.memory.added)
        for name, array in self._arrays.items():
            variables[name].assign(array)

    def restore(self) -> None:
        """Copies the variables to the agent; games that could not be saved are restarted.

        In the replay memory the old games then end: new ones do not follow from them.

        Raises:
            FathomError: the checkpoint is of another game.
        """
        agent, variables = self._agent, self.variables
        require_game(variables["game"], self._game)
        agent.actions_taken = int(variables["actions_taken"])
        agent.memory.added = int(variables["memory_added"]) if self._with_memory else 0
        for name, array in self._arrays.items():
            array[...] = variables[name].numpy()
        game = variables["game"].numpy()[: int(variables["game_bytes"])].tobytes()
        if state := game.partition(b"\0")[2]:
            agent.player.environment.restore(state)
        else:
            agent.memory.end_episodes()
            agent.player.begin()
