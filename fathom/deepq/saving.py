"""The games and the replay memory in checkpoints."""

import numpy as np
import tensorflow as tf

from fathom.deepq.agent import Agent
from fathom.system.device import CPU

_GAME_BYTES = 65_536  # four times the size of an emulator's state


class SavedAgent:
    """Variables that an agent is copied to before saving and from after restoring.

    Args:
        agent: its games and counters are saved.
        with_memory: save the replay memory too, with a second copy in memory.
    """

    def __init__(self, agent: Agent, with_memory: bool) -> None:
        self._agent, self._with_memory = agent, with_memory
        player = agent.player
        self._arrays: dict[str, np.ndarray] = {"state": player.state, "points": player.points}
        if with_memory:
            self._arrays |= agent.memory.arrays()
        with CPU.placement():
            self.variables = {
                "actions_taken": tf.Variable(0, dtype=tf.int64),
                "memory_added": tf.Variable(0, dtype=tf.int64),
                "game": tf.Variable(tf.zeros(_GAME_BYTES, tf.uint8)),
                "game_bytes": tf.Variable(0, dtype=tf.int64),
            } | {name: tf.Variable(tf.zeros(a.shape, a.dtype)) for name, a in self._arrays.items()}

    def save(self) -> None:
        """Copies the agent to the variables."""
        agent, variables = self._agent, self.variables
        game = np.frombuffer(agent.player.environment.save() or b"", np.uint8)
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
        agent.actions_taken = int(variables["actions_taken"])
        agent.memory.added = int(variables["memory_added"]) if self._with_memory else 0
        for name, array in self._arrays.items():
            array[...] = variables[name].numpy()
        game = variables["game"].numpy()[: int(variables["game_bytes"])].tobytes()
        if game:
            agent.player.environment.restore(game)
        else:
            agent.memory.end_episodes()
            agent.player.begin()
