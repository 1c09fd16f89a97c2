"""Parallel text as token ids, cached so that a large corpus is read only once."""

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from fathom.seq2seq.vocabulary import Vocabulary, tokenize
from fathom.shared.translation.parallel import ParallelText, digest
from fathom.shared.translation.sentences import EncodedPairs, Sentences
from fathom.shared.translation.symbols import SPECIAL_SYMBOLS
from fathom.system.files import atomic_write, cache_directory, make_cache_folder

_VERSION = 2  # of the cache's contents; increment it to rebuild them
_SIDES = ("source", "target")

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """How text is tokenized."""

    source_size: int  # size of the source vocabulary, including special symbols
    target_size: int  # likewise for the target vocabulary
    lowercase: bool  # lowercase the text


@dataclass(frozen=True)
class Corpus:
    """The vocabularies of a training text, and the text as token ids."""

    source: Vocabulary  # vocabulary of the source language
    target: Vocabulary  # vocabulary of the target language
    pairs: EncodedPairs  # the training pairs
    blank: int  # number of pairs left out because one side is blank
    settings: Settings  # how text is tokenized

    def encode(self, pairs: Iterable[tuple[str, str]]) -> EncodedPairs:
        """Returns sentence pairs as token ids."""
        return _encode(pairs, self.source, self.target, self.settings.lowercase)


def load(texts: tuple[ParallelText, ...], settings: Settings) -> Corpus:
    """Returns the corpus of the training texts, from the cache if possible.

    Raises:
        FathomError: a text is unreadable or malformed, or the cache cannot be written.
    """
    key = digest(texts, _VERSION, SPECIAL_SYMBOLS, vars(settings))
    path = cache_directory() / "wmt" / f"{key}.h5"
    corpus = _read(path, settings)
    if corpus is None:
        corpus = _build(texts, settings)
        _write(path, corpus)
    return corpus


def _build(texts: tuple[ParallelText, ...], settings: Settings) -> Corpus:
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for pair in itertools.chain(*texts):
        for side, sentence in zip(counts, pair, strict=True):
            side.update(tokenize(sentence, settings.lowercase))
    source = Vocabulary.of(counts[0], settings.source_size)
    target = Vocabulary.of(counts[1], settings.target_size)
    pairs = _encode(itertools.chain(*texts), source, target, settings.lowercase)
    return Corpus(source, target, pairs, sum(text.blank for text in texts), settings)


def _encode(
    pairs: Iterable[tuple[str, str]], source: Vocabulary, target: Vocabulary, lowercase: bool
) -> EncodedPairs:
    ids, lengths = (array("i"), array("i")), (array("q"), array("q"))
    for pair in pairs:
        for side, vocabulary in enumerate((source, target)):
            words = vocabulary.ids(tokenize(pair[side], lowercase))
            ids[side].extend(words)
            lengths[side].append(len(words))
    arrays = [(np.array(ids[i], np.int32), np.array(lengths[i], np.int64)) for i in (0, 1)]
    return _pairs(*arrays)


def _pairs(source: Arrays, target: Arrays) -> EncodedPairs:
    """Returns pairs, given ids and lengths; the decoder alone has an end of the sentence."""
    return EncodedPairs(Sentences(*source, ended=False), Sentences(*target, ended=True))


def _read(path: Path, settings: Settings) -> Corpus | None:
    """Returns the cached corpus; None if there is none, or it is unreadable."""
    try:
        with h5py.File(path) as file:
            source, target = (Vocabulary(file[f"{s}/words"].asstr()[:]) for s in _SIDES)
            pairs = _pairs(*((file[f"{s}/ids"][:], file[f"{s}/lengths"][:]) for s in _SIDES))
            blank = int(file.attrs["blank"])
    except (OSError, KeyError):
        return None
    return Corpus(source, target, pairs, blank, settings)


def _write(path: Path, corpus: Corpus) -> None:
    make_cache_folder(path.parent)
    with atomic_write(path) as temporary, h5py.File(temporary, "w") as file:
        for side in _SIDES:
            words, sentences = getattr(corpus, side).words, getattr(corpus.pairs, side)
            file.create_dataset(f"{side}/words", data=list(words), dtype=h5py.string_dtype())
            file[f"{side}/ids"], file[f"{side}/lengths"] = sentences.ids, sentences.lengths
        file.attrs["blank"] = corpus.blank
