"""Curves of a training: rewards, lengths, divergence, and where the time goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.shared import pictures

_SMOOTHED = 20  # steps
_CURVES = {
    "reward": "mean reward of sampled answers",
    "length": "mean length of an answer, tokens",
    "divergence": "divergence from the reference",
}


def save(
    directory: Path,
    history: Mapping[str, Sequence[tuple[int, float]]],
    seconds: Mapping[str, float],
) -> Path:
    """Writes a panel for each curve, and one of the sections' shares; returns the path.

    Args:
        directory: of the picture.
        history: (step, value) of each curve.
        seconds: of each section.
    """
    figure = Figure(figsize=(11, 2.8), layout="constrained")
    *panels, last = figure.subplots(1, len(_CURVES) + 1)
    for panel, (name, title) in zip(panels, _CURVES.items(), strict=True):
        steps, values = np.array(history[name]).T
        panel.plot(steps, values, ".", markersize=2, color="lightgrey")
        count = min(_SMOOTHED, len(values))
        mean = np.convolve(values, np.full(count, 1 / count), "valid")
        panel.plot(steps[count - 1 :], mean)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("step", fontsize=8)
    total = sum(seconds.values())
    last.barh(list(seconds), [100 * each / total for each in seconds.values()])
    last.invert_yaxis()
    last.set_title("% of the time", fontsize=9)
    for panel in (*panels, last):
        panel.tick_params(labelsize=7)
    return pictures.save(figure, directory / "grpo-training.png")
