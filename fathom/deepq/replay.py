"""The replay memory: Mnih et al. 2015, methods, "Algorithm"."""

import math
from typing import NamedTuple

import numpy as np

from fathom.deepq.emulator import SIDE
from fathom.deepq.sharing import aligned_empty
from fathom.system.memory import require_free_memory

HISTORY = 4  # frames that make up a state
PIXEL = np.dtype("<u4")  # of a state: its four frames, the newest in the highest byte
_REDRAWS = 10  # of transitions that were cut off; one in 27,000 is


class Minibatch(NamedTuple):
    """Transitions sampled from the memory."""

    states: np.ndarray  # uint8 [batch, 84, 84, 4], the newest frame last
    actions: np.ndarray  # int32 [batch]
    rewards: np.ndarray  # float32 [batch]
    next_states: np.ndarray  # uint8 [batch, 84, 84, 4]; undefined after a terminal state
    terminals: np.ndarray  # bool [batch]: the episode ended


class ReplayMemory:
    """The last transitions of one or more games, each frame stored once as bytes.

    Four frames in succession are a group, stored pixel by pixel as in a state.

    Args:
        size: total number of frames; each game has an equal share, rounded up to whole groups.
        games: number of games, which add transitions at the same time.
        frame_shape: height and width of a frame.
        copies: number of copies of the memory, including this one.

    Raises:
        FathomError: the machine's free memory is too small.
    """

    def __init__(
        self,
        size: int,
        games: int = 1,
        frame_shape: tuple[int, int] = (SIDE, SIDE),
        copies: int = 1,
    ) -> None:
        self.length = math.ceil(size / games / HISTORY) * HISTORY
        needed = copies * self.bytes_needed(size, frame_shape)
        require_free_memory(needed, "the replay memory", "set a smaller replay_size")
        self.frames = np.zeros((games, self.length // HISTORY, *frame_shape, HISTORY), np.uint8)
        self.actions = np.zeros((games, self.length), np.uint8)
        self.rewards = np.zeros((games, self.length), np.int8)
        self.terminals = np.zeros((games, self.length), bool)
        self.cut_off = np.zeros((games, self.length), bool)
        self.added = 0  # total number of transitions of each game

    @staticmethod
    def bytes_needed(size: int, frame_shape: tuple[int, int] = (SIDE, SIDE)) -> int:
        """Returns the bytes of a memory of ``size`` frames."""
        return size * (frame_shape[0] * frame_shape[1] + 4)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the memory's contents by name."""
        names = ("frames", "actions", "rewards", "terminals", "cut_off")
        return {name: getattr(self, name) for name in names}

    def __len__(self) -> int:
        """Returns the number of frames in the memory."""
        return min(self.added, self.length) * len(self.frames)

    def add(
        self,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminals: np.ndarray,
        cut_off: np.ndarray,
    ) -> None:
        """Adds a transition of each game; replaces the oldest if the memory is full.

        Args:
            frames: uint8 [games, 84, 84], the newest of each state.
            actions: int [games], taken in the state.
            rewards: [games], -1, 0 or 1.
            terminals: bool [games]: the action ended the episode.
            cut_off: bool [games]: only because a game may last no longer; such a transition is not
                sampled, because its state is not terminal and its next state is not known.
        """
        slot = self.added % self.length
        self.frames[:, slot // HISTORY, ..., slot % HISTORY] = frames
        self.actions[:, slot] = actions
        self.rewards[:, slot] = rewards
        self.terminals[:, slot] = terminals
        self.cut_off[:, slot] = cut_off
        self.added += 1

    def end_episodes(self) -> None:
        """Cuts each game off at its newest transition: new games follow."""
        if self.added:
            newest = (self.added - 1) % self.length
            self.terminals[:, newest] = self.cut_off[:, newest] = True

    def sample(self, batch_size: int, rng: np.random.Generator) -> Minibatch:
        """Samples transitions uniformly, with replacement, except those that were cut off."""
        # The newest transition still lacks its next frame; the oldest lack earlier ones.
        oldest = self.added - self.length + HISTORY - 1 if self.added > self.length else 0
        moments = rng.integers(oldest, self.added - 1, batch_size)
        games = rng.integers(len(self.frames), size=batch_size)
        for _ in range(_REDRAWS):
            cut_off = self.cut_off[games, moments % self.length]
            if not cut_off.any():
                break
            moments[cut_off] = rng.integers(oldest, self.added - 1, np.count_nonzero(cut_off))
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
        """Returns the states at moments and the next ones; frames of older episodes are black.

        An episode's last next state contains the following frame, but is never used.
        """
        shape = (len(moments), *self.frames.shape[2:])
        states, next_states = aligned_empty(shape, np.uint8), aligned_empty(shape, np.uint8)
        pixels = self.frames.view(PIXEL)
        newer = np.empty(pixels.shape[2:], PIXEL)
        oldest = (moments - HISTORY + 1) % self.length
        for game, slot, state, next_state in zip(
            games, oldest.tolist(), states.view(PIXEL), next_states.view(PIXEL), strict=True
        ):
            # Two groups in succession have all five frames, and a shift moves those of all pixels.
            group, shift = slot // HISTORY, 8 * (slot % HISTORY)
            following = pixels[game, (group + 1) % pixels.shape[1]]
            np.right_shift(pixels[game, group], shift, out=state)
            np.left_shift(following, 32 - shift, out=newer)
            np.bitwise_or(state, newer, out=state)
            np.right_shift(state, 8, out=next_state)
            np.left_shift(following, 24 - shift, out=newer)
            np.bitwise_or(next_state, newer, out=next_state)
        self._blacken(games, moments, states, next_states)
        return states, next_states

    def _blacken(
        self, games: np.ndarray, moments: np.ndarray, states: np.ndarray, next_states: np.ndarray
    ) -> None:
        """Makes the frames of older episodes, and those before the first, black."""
        stacked = moments[:, None] + np.arange(1 - HISTORY, 0)
        ends = self.terminals[games[:, None], stacked % self.length] | (stacked < 0)
        # A frame belongs to an older episode if one ended at or after it, before the moment.
        older = np.flip(np.logical_or.accumulate(np.flip(ends, 1), 1), 1)
        for example, frame in np.argwhere(older):
            states[example, ..., frame] = 0
            if frame:
                next_states[example, ..., frame - 1] = 0
