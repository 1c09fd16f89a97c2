"""How good translations are, and files to look at them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from fathom.seq2seq import buckets
from fathom.seq2seq.corpus import EncodedPairs
from fathom.seq2seq.vocabulary import PAD, without_joiner
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.seq2seq.model import Seq2Seq

PICTURED = 4  # sentences whose attention is drawn


def translate(model: "Seq2Seq", pairs: EncodedPairs) -> np.ndarray:
    """Translates the source side: int32 [pairs, words], padded after ``<eos>``."""
    assigned = buckets.assign_by_source(pairs, model.buckets)
    words = np.full((len(pairs), model.buckets[-1].target), PAD, np.int32)
    decode = {
        bucket.source: tf.function(
            model.translate,
            [tf.TensorSpec([None, bucket.source], tf.int32)],
            autograph=False,
            jit_compile=model.xla == "step",
        )
        for bucket in model.buckets
    }
    size = model.hyperparameters.batch_size
    for chosen, batch in buckets.batches_in_turn(pairs, assigned, model.buckets, size):
        with tf.device(model.device):
            decoded = decode[batch.source.shape[1]](batch.source).numpy()
        words[chosen, : decoded.shape[1]] = decoded
    return words


def bleu(translations: list[str], references: list[str], lowercase: bool = False) -> float:
    """Returns the corpus' BLEU in percent, by sacrebleu with its default tokenization (13a).

    Args:
        translations: sentences as a person would write them, not tokens.
        references: the right translations, as they stand in the file.
        lowercase: compare without regard to case.
    """
    import sacrebleu  # takes a while

    stripped = [reference.strip() for reference in references]
    return sacrebleu.corpus_bleu(translations, [stripped], lowercase=lowercase).score


def save(model: "Seq2Seq", directory: Path) -> list[Path]:
    """Writes the test text's translations and some sentences' attention; returns the paths."""
    paths = [directory / "seq2seq-translations.txt"]
    with atomic_write(paths[0]) as temporary, temporary.open("w", encoding="utf-8") as file:
        for (source, target), words in zip(model.test_pairs, model.translations, strict=True):
            said = model.corpus.target.sentence(words)
            file.write(f"source:      {source.strip()}\nreference:   {target.strip()}\n")
            file.write(f"translation: {said}\n\n")
    if model.hyperparameters.attention:
        paths.append(directory / "seq2seq-attention.png")
        _save_attention(model, paths[1])
    return paths


def _save_attention(model: "Seq2Seq", path: Path) -> None:
    """Draws the attention of the first test sentences as they were translated."""
    from matplotlib.figure import Figure  # slow to import

    chosen = np.arange(min(PICTURED, len(model.test)))
    batch = buckets.make_batch(model.test, chosen, model.buckets[-1])
    read = np.concatenate([batch.target[:, :1], model.translations[chosen, :-1]], 1)
    attention = model.attention(batch.source, tf.constant(read))
    figure = Figure(figsize=(12, 12), layout="constrained")
    for i, axes in zip(chosen, figure.subplots(2, 2).flat, strict=False):
        source = model.corpus.source.tokens(batch.source[i].numpy())
        said = model.corpus.target.tokens(model.translations[i])
        if not said:  # Matplotlib warns about a picture without rows
            continue
        axes.imshow(attention[i, : len(said), : len(source)], cmap="gray", vmin=0, vmax=1)
        axes.set_xticks(range(len(source)), [without_joiner(word) for word in source], rotation=90)
        axes.set_yticks(range(len(said)), [without_joiner(word) for word in said])
        axes.xaxis.tick_top()
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=80)
