"""A picture of a test utterance: what the network saw, and what it recognised."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from fathom.speech import decoding, features
from fathom.speech.phones import BLANK, PHONES
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.speech.model import Speech


def save(model: "Speech", directory: Path) -> list[Path]:
    """Writes one PNG file, of the test utterance whose length is the median.

    Returns:
        its path.

    Raises:
        FathomError: it cannot be written.
    """
    part = model.timit.test
    chosen = int(np.argsort(part.frames, kind="stable")[len(part) // 2])
    *inputs, labels, _ = model.test_feed.load(tf.constant([chosen]))
    logits = model.network(inputs, training=False)
    recognised = decoding.decode(logits, inputs[1], model.hyperparameters.beam_width)
    figure = _draw(
        inputs[0][0].numpy(), tf.nn.softmax(logits)[0].numpy(), labels[0].numpy(), recognised.values
    )
    figure.suptitle(part.names[chosen], fontsize=9)
    path = directory / "speech-utterance.png"
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)
    return [path]


def _draw(
    x: np.ndarray, probabilities: np.ndarray, said: np.ndarray, recognised: tf.Tensor
) -> Figure:
    """Draws features [frames, 26] over phone probabilities [frames, 62]."""
    settings = features.SETTINGS
    seconds = len(x) * settings.hop / settings.rate
    figure = Figure(figsize=(8, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
    extent = (0, seconds, 0, settings.size)
    upper.imshow(x.T, aspect="auto", origin="lower", extent=extent, vmin=-3, vmax=3, cmap="RdBu_r")
    upper.set_ylabel("feature, deviations from its mean", fontsize=8)

    time = (np.arange(len(x)) + 0.5) * settings.hop / settings.rate
    lower.plot(time, probabilities[:, BLANK], color="0.8", linewidth=1)
    colours = {}
    for label in sorted({int(label) for label in [*said, *recognised]}):
        (line,) = lower.plot(time, probabilities[:, label], linewidth=1.2)
        colours[label] = line.get_color()
    for frame, label in _peaks(probabilities):
        place = (time[frame], probabilities[frame, label] + 0.02)
        lower.annotate(PHONES[label], place, color=colours.get(label), fontsize=8, ha="center")
    lower.set_ylim(0, 1.1)
    lower.set_xlabel(
        f"seconds\nsaid: {_text(said)}\nrecognised: {_text(recognised)}", fontsize=8, wrap=True
    )
    lower.set_ylabel("probability (blank in grey)", fontsize=8)
    return figure


def _peaks(probabilities: np.ndarray) -> list[tuple[int, int]]:
    """Returns (frame, phone) where each run of frames with the same likeliest phone is surest."""
    best = probabilities.argmax(axis=1)
    edges = np.flatnonzero(np.diff(best, prepend=-1, append=-1))
    peaks = []
    for begin, end in itertools.pairwise(edges):
        label = int(best[begin])
        if label != BLANK:
            peaks.append((int(begin + probabilities[begin:end, label].argmax()), label))
    return peaks


def _text(labels: np.ndarray | tf.Tensor) -> str:
    return " ".join(PHONES[int(label)] for label in labels)
