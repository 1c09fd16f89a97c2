"""The replay memory: Mnih et al. 2015, methods, "Algorithm"."""

from typing import NamedTuple

import numpy as np

from fathom.deepq.emulator import SIDE
from fathom.system.memory import require_free_memory

HISTORY = 4  # frames that make up a state


class Minibatch(NamedTuple):
    """Transitions, drawn from the memory."""

    states: np.ndarray  # uint8 [batch, 84, 84, 4], the newest frame last
    actions: np.ndarray  # int32 [batch]
    rewards: np.ndarray  # float32 [batch]
    next_states: np.ndarray  # uint8 [batch, 84, 84, 4]; of no meaning after a terminal state
    terminals: np.ndarray  # bool [batch]: the episode ended


class ReplayMemory:
    """The last transitions of one or several games, each frame stored once as bytes.

    Args:
        size: frames in all; each game has an equal share.
        games: number of games, which add transitions together.
        frame_shape: height and width of a frame.
        copies: of the memory that will be kept, this one included.

    Attributes:
        added: transitions that each game ever added.

    Raises:
        FathomError: the memory would not fit into what the machine has free.
    """

    def __init__(
        self,
        size: int,
        games: int = 1,
        frame_shape: tuple[int, int] = (SIDE, SIDE),
        copies: int = 1,
    ) -> None:
        self.length = size // games
        needed = copies * self.bytes_needed(size, frame_shape)
        require_free_memory(needed, "the replay memory", "set a smaller replay_size")
        self.frames = np.zeros((games, self.length, *frame_shape), np.uint8)
        self.actions = np.zeros((games, self.length), np.uint8)
        self.rewards = np.zeros((games, self.length), np.int8)
        self.terminals = np.zeros((games, self.length), bool)
        self.added = 0

    @staticmethod
    def bytes_needed(size: int, frame_shape: tuple[int, int] = (SIDE, SIDE)) -> int:
        """Returns the bytes that a memory of ``size`` frames takes."""
        return size * (frame_shape[0] * frame_shape[1] + 3)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns all that the memory holds, by name."""
        names = ("frames", "actions", "rewards", "terminals")
        return {name: getattr(self, name) for name in names}

    def __len__(self) -> int:
        """Returns the number of frames in the memory."""
        return min(self.added, self.length) * len(self.frames)

    def add(
        self, frames: np.ndarray, actions: np.ndarray, rewards: np.ndarray, terminals: np.ndarray
    ) -> None:
        """Adds a transition of each game, in place of the oldest where the memory is full.

        Args:
            frames: uint8 [games, 84, 84], the newest of each state.
            actions: int [games], those taken in the state.
            rewards: [games], -1, 0 or 1.
            terminals: bool [games]: the action ended the episode.
        """
        slot = self.added % self.length
        self.frames[:, slot] = frames
        self.actions[:, slot] = actions
        self.rewards[:, slot] = rewards
        self.terminals[:, slot] = terminals
        self.added += 1

    def end_episodes(self) -> None:
        """Makes each game's newest transition its episode's last: the next are of new games."""
        if self.added:
            self.terminals[:, (self.added - 1) % self.length] = True

    def sample(self, batch_size: int, rng: np.random.Generator) -> Minibatch:
        """Draws transitions uniformly, with replacement."""
        # The newest transition still lacks its next frame; the oldest lack those before them.
        oldest = self.added - self.length + HISTORY - 1 if self.added > self.length else 0
        moments = rng.integers(oldest, self.added - 1, batch_size)
        games = rng.integers(len(self.frames), size=batch_size)
        slots = moments % self.length
        states, next_states = self._states(games, moments)
        return Minibatch(
            states,
            self.actions[games, slots].astype(np.int32),
            self.rewards[games, slots].astype(np.float32),
            next_states,
            self.terminals[games, slots],
        )

    def _states(self, games: np.ndarray, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the states of moments and those after them; frames of older episodes are black.

        The frame after an episode's end stands in its last next state, which nothing asks for.
        """
        around = moments[:, None] + np.arange(1 - HISTORY, 2)
        slots, games = around % self.length, games[:, None]
        frames = self.frames[games, slots]
        ends = self.terminals[games, slots[:, : HISTORY - 1]]
        # A frame is of an older episode if one ended with it or after it, before the moment.
        older = np.flip(np.logical_or.accumulate(np.flip(ends, 1), 1), 1)
        frames[:, : HISTORY - 1][older | (around[:, : HISTORY - 1] < 0)] = 0
        states = np.empty((2, *frames[:, 0].shape, HISTORY), np.uint8)
        for i in range(HISTORY):  # several times as fast as one transposition
            states[0, ..., i], states[1, ..., i] = frames[:, i], frames[:, i + 1]
        return states[0], states[1]
