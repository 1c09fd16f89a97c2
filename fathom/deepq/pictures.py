"""Pictures of what the agent has learned."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from PIL import Image  # Matplotlib needs it too

from fathom.deepq.emulator import ACTION_REPEAT
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.deepq.model import DeepQ

_LONGEST_RECORDING = 900  # actions: a minute of play
_MILLISECONDS = 2 * 67  # every second action is shown, and an action lasts 4 / 60 s
_SCORES = 20  # games that the curve's mean is of


def save(model: "DeepQ", directory: Path) -> list[Path]:
    """Writes a recording of a game, a GIF, and, after training, the curve of its scores, a PNG.

    Returns:
        their paths.

    Raises:
        FathomError: they cannot be written.
    """
    game = model.hyperparameters.game
    recording = directory / f"deepq-{game}.gif"
    screens = [Image.fromarray(screen).quantize(64) for screen in record(model)]
    with atomic_write(recording) as temporary:
        screens[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=screens[1:],
            duration=_MILLISECONDS,
            loop=0,
        )
    if "score" not in model.history:
        return [recording]
    curve = directory / f"deepq-{game}-training.png"
    with atomic_write(curve) as temporary:
        draw_curve(model).savefig(temporary, format="png", dpi=100)
    return [recording, curve]


def record(model: "DeepQ") -> list[np.ndarray]:
    """Plays until the first game is over; returns every second action's screen."""
    player, rng = model.recorded_player()
    player.begin()
    screens = []
    for number in range(_LONGEST_RECORDING):
        if number % 2 == 0:
            screens.append(player.environment.screen())
        actions = player.choose(model.hyperparameters.evaluation_epsilon, rng)
        if player.act(actions).scores:
            break
    return screens


def draw_curve(model: "DeepQ") -> Figure:
    """Returns the scores of the training's games and the mean Q-value, against frames."""
    chosen = model.hyperparameters
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)

    def millions_of_frames(steps: np.ndarray) -> np.ndarray:
        actions = chosen.learning_starts + steps * chosen.update_frequency
        return actions * ACTION_REPEAT / 1e6

    steps, scores = np.array(model.history["score"]).T
    above.plot(millions_of_frames(steps), scores, ".", color="lightgrey", label="a game")
    if len(scores) >= _SCORES:
        mean = np.convolve(scores, np.full(_SCORES, 1 / _SCORES), "valid")
        above.plot(millions_of_frames(steps[_SCORES - 1 :]), mean, label=f"mean of {_SCORES} games")
    above.set(ylabel="score in training", title=f"{model.title}: {chosen.game}")
    above.legend()
    if "mean_q" in model.history:
        steps, values = np.array(model.history["mean_q"]).T
        below.plot(millions_of_frames(steps), values, "o-")
    below.set(ylabel="mean Q of the best action,\nheld-out states", xlabel="million frames")
    return figure
