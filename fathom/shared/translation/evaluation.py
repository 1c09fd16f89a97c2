"""BLEU, and translations and attention in human-readable form."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fathom.system.files import atomic_write


class Alignment(NamedTuple):
    """A translated sentence and its attention."""

    source: list[str]
    translation: list[str]
    attention: np.ndarray  # float32 [translated words, source words]


def bleu(translations: list[str], references: list[str], lowercase: bool = False) -> float:
    """Returns corpus BLEU in percent, by sacrebleu with its default tokenization (13a).

    The translations are detokenized, the references as in the file.
    """
    import sacrebleu  # slow to import

    stripped = [reference.strip() for reference in references]
    return sacrebleu.corpus_bleu(translations, [stripped], lowercase=lowercase).score


def save_translations(
    path: Path, pairs: Iterable[tuple[str, str]], translations: Iterable[str]
) -> None:
    """Writes (source, reference) pairs and translations as text.

    Raises:
        FathomError: the file cannot be written.
    """
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for (source, target), translation in zip(pairs, translations, strict=True):
            file.write(f"source:      {source.strip()}\nreference:   {target.strip()}\n")
            file.write(f"translation: {translation}\n\n")


def save_attention(path: Path, alignments: Iterable[Alignment]) -> None:
    """Draws the first four alignments, as a PNG file.

    Raises:
        FathomError: the file cannot be written.
    """
    from matplotlib.figure import Figure  # slow to import

    from fathom.shared import pictures

    figure = Figure(figsize=(12, 12), layout="constrained")
    for axes, alignment in zip(figure.subplots(2, 2).flat, alignments, strict=False):
        source, translation, attention = alignment
        if not translation:  # Matplotlib warns about an image without rows
            continue
        axes.imshow(attention, cmap="gray", vmin=0, vmax=1)
        axes.set_xticks(range(len(source)), source, rotation=90)
        axes.set_yticks(range(len(translation)), translation)
        axes.xaxis.tick_top()
    pictures.save(figure, path, dpi=80)
