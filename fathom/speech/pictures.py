"""A picture of a test utterance: its features and the recognised phones."""

import itertools
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.shared import pictures
from fathom.speech.phones import BLANK, PHONES


def save(
    directory: Path,
    name: str,
    x: np.ndarray,
    probabilities: np.ndarray,
    reference: np.ndarray,
    recognised: np.ndarray,
    frame_seconds: float,
) -> Path:
    """Writes an utterance: its features above the probabilities of the phones.

    Args:
        directory: of the picture.
        name: of the utterance.
        x: its features, float32 [frames, size].
        probabilities: of the phones and the blank, float32 [steps, 62].
        reference: the reference phones, int [phones].
        recognised: the phones that the network recognised, int [phones].
        frame_seconds: from one frame to the next.
    """
    seconds = len(x) * frame_seconds
    figure = Figure(figsize=(8, 6), layout="constrained")
    figure.suptitle(name, fontsize=9)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
    extent = (0, seconds, 0, x.shape[1])
    upper.imshow(x.T, aspect="auto", origin="lower", extent=extent, vmin=-3, vmax=3, cmap="RdBu_r")
    upper.set_ylabel("feature, deviations from its mean", fontsize=8)

    time = (np.arange(len(probabilities)) + 0.5) * seconds / len(probabilities)
    lower.plot(time, probabilities[:, BLANK], color="0.8", linewidth=1)
    colours = {}
    for label in sorted({int(label) for label in [*reference, *recognised]}):
        (line,) = lower.plot(time, probabilities[:, label], linewidth=1.2)
        colours[label] = line.get_color()
    for step, label in _peaks(probabilities):
        place = (time[step], probabilities[step, label] + 0.02)
        lower.annotate(PHONES[label], place, color=colours.get(label), fontsize=8, ha="center")
    lower.set_ylim(0, 1.1)
    lower.set_xlabel(
        f"seconds\nsaid: {_text(reference)}\nrecognised: {_text(recognised)}", fontsize=8, wrap=True
    )
    lower.set_ylabel("probability (blank in grey)", fontsize=8)
    return pictures.save(figure, directory / "speech-utterance.png")


def _peaks(probabilities: np.ndarray) -> list[tuple[int, int]]:
    """Returns (step, phone) at the peak of each run of steps with the same likeliest phone."""
    best = probabilities.argmax(axis=1)
    edges = np.flatnonzero(np.diff(best, prepend=-1, append=-1))
    peaks = []
    for begin, end in itertools.pairwise(edges):
        label = int(best[begin])
        if label != BLANK:
            peaks.append((int(begin + probabilities[begin:end, label].argmax()), label))
    return peaks


def _text(labels: np.ndarray) -> str:
    return " ".join(PHONES[int(label)] for label in labels)
