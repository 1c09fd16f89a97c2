"""Preprocessed Atari games in the Arcade Learning Environment (Bellemare et al. 2013).

The preprocessing is that of Mnih et al. 2015, methods, "Preprocessing" and "Training details".
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast
from unittest import mock

import numpy as np

from fathom.deepq.atari import import_ale
from fathom.errors import FathomError

SIDE = 84  # of a preprocessed frame
ACTION_REPEAT = 4  # frames per action
NOOP_STARTS = 30  # a game starts with 1 to this many no-op frames
LONGEST_GAME = 108_000  # frames, 30 minutes of play: Gymnasium's limit


class Turn(NamedTuple):
    """The outcome of an action in each game."""

    frames: np.ndarray  # uint8 [games, 84, 84]: the next frame, or the first of a new game
    rewards: np.ndarray  # float32 [games]: points, not clipped
    life_lost: np.ndarray  # bool [games]
    game_over: np.ndarray  # bool [games]: a new game has started
    cut_off: np.ndarray  # bool [games]: only because the longest game ended the one before


class Environment(Protocol):
    """One or more games played at once, each restarted when it ends."""

    games: int  # number of games
    actions: Any  # the available actions

    def reset(self) -> np.ndarray:
        """Starts all games; returns their first frames, uint8 [games, 84, 84]."""

    def step(self, actions: np.ndarray) -> Turn:
        """Takes an action in each game, by their indices, int [games]."""

    def save(self) -> bytes | None:
        """Returns the state of the games and their generators; None if it cannot be saved."""

    def restore(self, state: bytes) -> None:
        """Restores a state that ``save`` returned."""


class Game(Environment, Protocol):
    """One game, whose screen can be shown."""

    def screen(self) -> np.ndarray:
        """Returns the screen in colour, uint8 [height, width, 3]."""


class Emulator:
    """One game.

    Args:
        rom: the game's file.
        seed: of no-op starts and sticky actions.
        sticky_actions: probability that a frame repeats the previous frame's action.
        noop_starts: see ``NOOP_STARTS``; 0: none.

    Raises:
        FathomError: ale-py is missing, or cannot play the ROM.
    """

    games = 1

    def __init__(
        self, rom: Path, seed: int, sticky_actions: float = 0.0, noop_starts: int = NOOP_STARTS
    ) -> None:
        ale_py = import_ale()
        check_playable(rom)
        self._seed, self._noop_starts = seed, noop_starts
        self._ale, self._state_type = ale_py.ALEInterface(), ale_py.ALEState
        self._ale.setInt("random_seed", seed)
        self._ale.setInt("max_num_frames_per_episode", LONGEST_GAME)
        self._ale.setFloat("repeat_action_probability", sticky_actions)
        self._ale.loadROM(rom)
        self.actions = self._ale.getMinimalActionSet()  # those with an effect in this game
        if len(self.actions) < 2:
            raise FathomError(f"{rom.stem} cannot be played: its only actions are {self.actions}")
        self._begun, self._lives = 0, 0
        self._screens = np.empty((2, *self._ale.getScreenDims()), np.uint8)

    def reset(self) -> np.ndarray:
        """Starts a game, with a number of no-ops determined by the seed and the game's number."""
        self._ale.reset_game()
        if self._noop_starts:
            rng = np.random.default_rng([self._seed, self._begun])
            for _ in range(rng.integers(1, self._noop_starts + 1)):
                self._ale.act(0)
                if self._ale.game_over():
                    self._ale.reset_game()
        self._begun += 1
        self._lives = self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[1])
        return resize(self._screens[1])[None]

    def step(self, actions: np.ndarray) -> Turn:
        """Repeats an action for four frames; observes the maximum of the last two."""
        action, reward, over = self.actions[actions[0]], 0, False
        for frame in range(ACTION_REPEAT):
            reward += self._ale.act(action)
            over = self._ale.game_over()
            if over:
                break
            if frame >= ACTION_REPEAT - 2:
                self._ale.getScreenGrayscale(self._screens[frame - ACTION_REPEAT])
        lives, self._lives = self._lives, self._ale.lives()
        life_lost = self._lives < lives
        cut_off = over and not self._ale.game_over(with_truncation=False)
        frames = self.reset() if over else resize(np.maximum(*self._screens))[None]
        flags = (np.array([flag]) for flag in (life_lost, over, cut_off))
        return Turn(frames, np.array([reward], np.float32), *flags)

    def screen(self) -> np.ndarray:
        """Returns the screen in colour, uint8 [height, width, 3]."""
        return self._ale.getScreenRGB()

    def save(self) -> bytes:
        """Returns the state of the emulator and its generator."""
        counters = np.array([self._begun, self._lives], np.int64).tobytes()
        state = self._ale.cloneState(include_rng=True).__getstate__()
        return counters + state

    def restore(self, state: bytes) -> None:
        """Restores a state that ``save`` returned."""
        self._begun, self._lives = map(int, np.frombuffer(state, np.int64, 2))
        emulator = self._state_type.__new__(self._state_type)
        emulator.__setstate__(state[16:])
        self._ale.restoreState(emulator)


class VectorEmulator:
    """Several games at once, in ``ale_py.vector_env.AtariVectorEnv``.

    Args:
        rom, seed, sticky_actions, noop_starts: as in ``Emulator``.
        games: number of games.
        threads: shared by the games.

    Raises:
        FathomError: ale-py is missing, or cannot play the ROM.
    """

    def __init__(
        self,
        rom: Path,
        seed: int,
        sticky_actions: float,
        games: int,
        threads: int,
        noop_starts: int = NOOP_STARTS,
    ) -> None:
        check_playable(rom)
        from ale_py import roms
        from ale_py.vector_env import AtariVectorEnv
        from gymnasium.spaces import Discrete
        from gymnasium.vector import AutoresetMode

        self.games = games
        self._seeds = np.random.default_rng(seed).integers(2**31, size=games)
        with mock.patch.object(roms, "get_rom_path", return_value=rom):  # not a packaged one
            self._games = AtariVectorEnv(
                rom.stem,
                games,
                num_threads=min(games, threads),
                max_num_frames_per_episode=LONGEST_GAME,
                repeat_action_probability=sticky_actions,
                autoreset_mode=AutoresetMode.SAME_STEP,
                stack_num=1,
                noop_max=noop_starts,
                reward_clipping=False,
                use_fire_reset=False,
            )
        self.actions = range(cast(Discrete, self._games.single_action_space).n)

    def reset(self) -> np.ndarray:
        """Starts all games."""
        frames, info = self._games.reset(seed=self._seeds)
        self._lives = info["lives"].copy()
        return frames[:, 0]

    def step(self, actions: np.ndarray) -> Turn:
        """Repeats each game's action for four frames."""
        frames, rewards, terminated, truncated, info = self._games.step(actions)
        lives, self._lives = self._lives, info["lives"].copy()
        return Turn(
            frames[:, 0],
            rewards.astype(np.float32),
            self._lives < lives,
            terminated | truncated,
            truncated & ~terminated,
        )

    def save(self) -> None:
        """Returns None: ``AtariVectorEnv`` gives no access to its games' states."""

    def restore(self, state: bytes) -> None:
        """Never called: ``save`` returns no state."""


def check_playable(rom: Path) -> None:
    """Raises FathomError for a ROM that the emulator refuses: it would kill the process."""
    if import_ale().ALEInterface.isSupportedROM(rom) is None:
        raise FathomError(
            f"{rom.stem} cannot be played: {rom} is damaged, or a game for two players alone"
        )


def resize(screen: np.ndarray) -> np.ndarray:
    """Resizes a grey screen, uint8 [height, width], by area averages to uint8 [84, 84].

    Sums have the order of OpenCV's ``INTER_AREA``, so that ties round alike.
    """
    rows, row_shares = _areas(screen.shape[0])
    columns, column_shares = _areas(screen.shape[1])
    screen = screen.astype(np.float32)
    narrow = screen[:, columns[0]] * column_shares[0]
    for column, share in zip(columns[1:], column_shares[1:], strict=True):
        narrow += screen[:, column] * share
    frame = narrow[rows[0]] * row_shares[0][:, None]
    for row, share in zip(rows[1:], row_shares[1:], strict=True):
        frame += narrow[row] * share[:, None]
    return np.rint(frame).astype(np.uint8)


@functools.cache
def _areas(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pixels that each of 84 areas covers and their weights, [most pixels, 84] each."""
    length = size / SIDE
    covered = []
    for begin in np.arange(SIDE) * length:
        pixels = np.arange(int(begin), min(int(np.ceil(begin + length)), size))
        share = np.minimum(pixels + 1, begin + length) - np.maximum(pixels, begin)
        covered.append([(p, s / length) for p, s in zip(pixels, share, strict=True) if s > 1e-3])
    most = max(map(len, covered))
    padded = np.array([area + [(0, 0.0)] * (most - len(area)) for area in covered])
    return padded[..., 0].T.astype(np.intp), padded[..., 1].T.astype(np.float32)
