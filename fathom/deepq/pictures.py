"""A recording of a game, and curves of the training."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image  # a dependency of Matplotlib

from fathom.deepq.agent import Player
from fathom.deepq.emulator import Game
from fathom.shared import pictures
from fathom.system.files import atomic_write

_LONGEST_RECORDING = 900  # actions: a minute of play
_MILLISECONDS = 2 * 67  # every second action is shown, and an action lasts 4 / 60 s
_SCORES = 20  # games in the running mean


def record(
    game: Game, player: Player, epsilon: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """Plays a game to its end; returns every second action's screen."""
    player.begin()
    screens = []
    for number in range(_LONGEST_RECORDING):
        if number % 2 == 0:
            screens.append(game.screen())
        if player.act(player.choose(epsilon, rng)).scores:
            break
    return screens


def save_recording(path: Path, screens: Sequence[np.ndarray]) -> None:
    """Writes the screens of a game as a GIF file.

    Raises:
        FathomError: it cannot be written.
    """
    images = [Image.fromarray(screen).quantize(64) for screen in screens]
    with atomic_write(path) as temporary:
        images[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=images[1:],
            duration=_MILLISECONDS,
            loop=0,
        )


def save_curve(
    path: Path,
    title: str,
    history: Mapping[str, Sequence[tuple[int, float]]],
    frames_after: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Draws the scores of training games and the mean Q-value against frames, as a PNG file.

    Args:
        path: of the file.
        title: of the figure.
        history: (updates done, value) of each ``score`` and, if noted, of ``mean_q``.
        frames_after: returns the number of frames played before numbers of updates.

    Raises:
        FathomError: the file cannot be written.
    """
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    updates, scores = np.array(history["score"]).T
    frames = frames_after(updates) / 1e6
    above.plot(frames, scores, ".", color="lightgrey", label="a game")
    if len(scores) >= _SCORES:
        mean = np.convolve(scores, np.full(_SCORES, 1 / _SCORES), "valid")
        above.plot(frames[_SCORES - 1 :], mean, label=f"mean of {_SCORES} games")
    above.set(ylabel="score in training", title=title)
    above.legend()
    if "mean_q" in history:
        updates, values = np.array(history["mean_q"]).T
        below.plot(frames_after(updates) / 1e6, values, "o-")
    below.set(ylabel="mean Q of the best action,\nheld-out states", xlabel="million frames")
    pictures.save(figure, path)
