"""TIMIT (Garofolo et al. 1993): read speech with its phones, in the LDC's folder tree."""

import itertools
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from fathom.core.data.dataset import DataSet, Reading
from fathom.core.data.files import folders_below
from fathom.errors import FathomError
from fathom.speech import features, phones
from fathom.speech.audio import decode
from fathom.speech.features import Settings
from fathom.speech.split import split
from fathom.system.files import exists, list_folder, read_file

STRIDE = 2  # frames from one step of the network to the next, by default
PAST_THE_END = 16  # samples that the last phone may exceed the audio by
_SAMPLE = re.compile("[0-9]{1,18}")
_NLTK_SPEAKER = re.compile(r"dr([1-8])-[fm][a-z]{3}\d")


@dataclass(frozen=True, eq=False)
class Utterances:
    """Utterances in memory, concatenated."""

    names: tuple[str, ...]  # path of each below the data set's folder, without its suffix
    features: np.ndarray  # float32 [sum of frames, size], mean 0 and variance 1 in training
    frames: np.ndarray  # int32 [n], of each utterance
    labels: np.ndarray  # int32 [sum of label_lengths], from 0 to 60, indices of ``phones.PHONES``
    label_lengths: np.ndarray  # int32 [n]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Timit(DataSet):
    """TIMIT without the SA sentences, which every speaker reads; split by ``split.split``."""

    name = "timit"
    title = "TIMIT acoustic-phonetic speech"
    licence = "LDC User Agreement"
    home_page = "https://catalog.ldc.upenn.edu/LDC93S1"
    layout = (
        "{train,test}/<dialect>/<speaker>/<sentence>.{wav,phn}, in upper or lower case, or NLTK's "
        "sample of it"
    )

    train: Utterances  # the training split
    validation: Utterances  # the development split
    test: Utterances  # the test split
    skipped: dict[str, str]  # reasons by skipped utterance

    @classmethod
    def load(
        cls, directory: Path, settings: Settings = features.CEPSTRA, stride: int = 1
    ) -> "Timit":
        """Reads the splits; unusable utterances are skipped and reported.

        Args:
            directory: the tree, or a folder at most two levels above it.
            settings: of the features.
            stride: frames per step of the network; an utterance with more phones than CTC can align
                with its steps cannot be used.

        Raises:
            FathomError: there is no tree, or no usable training utterance.
        """
        root, folders = find_parts(directory)
        skipped: dict[str, str] = {}
        train, validation, test = (
            _load_part(root, paths, settings, stride, skipped)
            for paths in split(folders["train"], folders["test"])
        )
        if not len(train):
            reason = next(iter(skipped.values()), "there is none")
            raise FathomError(f"{root} has no training utterance that can be used: {reason}")
        mean = train.features.mean(0, dtype=np.float64).astype(np.float32)
        deviation = np.maximum(train.features.std(0, dtype=np.float64), 1e-3).astype(np.float32)
        for part in (train, validation, test):
            np.subtract(part.features, mean, out=part.features)
            np.divide(part.features, deviation, out=part.features)
        return cls(train, validation, test, skipped)

    @classmethod
    def verify(cls, directory: Path, options: Reading, everything: bool) -> str:
        """Reads every utterance; one that training by default would skip is an error."""
        root, parts = find_parts(directory)
        if not parts["train"]:
            raise FathomError(f"{root} has no training utterance; expected {cls.layout}")
        for path in itertools.chain(*parts.values()):
            audio = decode(read_file(path), path)
            labels = read_transcription(path, len(audio.samples))
            resampled = audio.resampled(features.CEPSTRA.rate)
            frames = features.CEPSTRA.frames(len(resampled))
            _check_alignable(path, labels, math.ceil(frames / STRIDE))
        counts = " and ".join(f"{len(paths):,} {part}" for part, paths in parts.items())
        return f"{counts} utterances can be read"

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a tree of synthetic speech: see ``fathom.speech.synthetic``."""
        from fathom.speech import synthetic

        synthetic.write_tree(directory, seed)


def find_parts(directory: Path) -> tuple[Path, dict[str, list[Path]]]:
    """Finds the audio files of both splits.

    The tree with ``train`` and ``test`` is the given folder, or up to two levels below. NLTK's
    sample has a folder for each of 16 speakers, ``dr1-fvmh0``, and no splits: the speakers of
    dialect regions 7 and 8 are then the test split.

    Returns:
        the folder of the tree; the audio files of ``train`` and of ``test``.

    Raises:
        FathomError: there is no such folder.
    """
    for root in folders_below(directory, 2):
        folders = {path.name.lower(): path for path in list_folder(root)}
        if {"train", "test"} <= set(folders):
            return root, {part: list(find_audio(folders[part])) for part in ("train", "test")}
        speakers = list(filter(None, map(_NLTK_SPEAKER.fullmatch, sorted(folders))))
        if speakers:
            parts: dict[str, list[Path]] = {"train": [], "test": []}
            for match in speakers:
                parts["test" if int(match[1]) >= 7 else "train"] += find_audio(folders[match[0]])
            return root, parts
    raise FathomError(
        f"{directory} has no folders train and test; {Timit.title} is expected as {Timit.layout}"
    )


def find_audio(part: Path) -> Iterator[Path]:
    """Yields the audio files of a split in order, one per sentence, without the SA sentences.

    A sentence's audio is ``<sentence>.wav`` (SPHERE or RIFF) or ``<sentence>.wav.wav`` (RIFF next
    to SPHERE, as in some conversions), in upper or lower case.
    """
    visited: set[str] = set()  # links may lead in circles
    for folder, folders, files in os.walk(part, onerror=_refuse, followlinks=True):
        if (real := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        seen = set()
        for name in sorted(files, key=lambda name: (sentence(name), len(name))):
            if not name.lower().endswith(".wav") or name.startswith("."):
                continue
            if re.match(r"sa\d", sentence(name)) or sentence(name) in seen:
                continue
            seen.add(sentence(name))
            yield Path(folder) / name


def _refuse(error: OSError) -> NoReturn:
    raise FathomError(f"cannot read {error.filename}: {error.strerror}") from error


def sentence(name: str) -> str:
    """Returns a file's sentence in lower case: ``si1027`` for ``SI1027.WAV.wav``."""
    return name.lower().partition(".")[0]


def _load_part(
    root: Path, paths: list[Path], settings: Settings, stride: int, skipped: dict[str, str]
) -> Utterances:
    """Reads one split; adds to ``skipped``."""
    recordings = features.of_files(paths, settings)
    ends = np.cumsum(recordings.frames)
    names, kept, frames, labels = [], [], [], []
    for i, path in enumerate(paths):
        name = str(path.relative_to(root).with_name(path.name.partition(".")[0]))
        try:
            if recordings.reasons[i]:
                raise FathomError(recordings.reasons[i])
            transcription = read_transcription(path, int(recordings.samples[i]))
            _check_alignable(path, transcription, math.ceil(recordings.frames[i] / stride))
        except FathomError as error:
            skipped[name] = str(error)
            continue
        names.append(name)
        kept.append(recordings.values[ends[i] - recordings.frames[i] : ends[i]])
        frames.append(recordings.frames[i])
        labels.append(transcription)
    empty = np.empty((0, settings.size), np.float32)
    return Utterances(
        tuple(names),
        np.concatenate([empty, *kept]),
        np.array(frames, np.int32),
        np.array(list(itertools.chain(*labels)), np.int32),
        np.array([len(label) for label in labels], np.int32),
    )


def read_transcription(audio: Path, samples: int) -> list[int]:
    """Reads the transcription of an audio file of some samples.

    It has lines of first sample, end and phone.

    Returns:
        indices of ``phones.PHONES``.

    Raises:
        FathomError: there is no such file, or a line is malformed; the message has its number.
    """
    path = _beside(audio, "phn")
    text = read_file(path).decode("utf-8-sig", errors="replace")  # everything relevant is ASCII
    labels, last = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 3 or not all(_SAMPLE.fullmatch(part) for part in parts[:2]):
            raise FathomError(
                f"{path}, line {number}: expected first sample, end and phone, not {line[:60]!r}"
            )
        begin, end, phone = int(parts[0]), int(parts[1]), parts[2].lower()
        if begin < last or end <= begin:
            raise FathomError(
                f"{path}, line {number} is out of order: {begin} to {end} after sample {last}"
            )
        if end > samples + PAST_THE_END:
            raise FathomError(
                f"{path}, line {number} ends at sample {end}, but the audio has {samples}"
            )
        if phone not in phones.INDEX:
            raise FathomError(f"{path}, line {number}: {phone!r} is none of TIMIT's 61 phones")
        labels.append(phones.INDEX[phone])
        last = end
    if not labels:
        raise FathomError(f"{path} has no phones")
    return labels


def _beside(audio: Path, suffix: str) -> Path:
    """Returns the file of the same sentence with another suffix, in upper or lower case."""
    stem = audio.name.partition(".")[0]
    for name in (f"{stem}.{suffix.upper()}", f"{stem}.{suffix}"):
        if exists(audio.with_name(name)):
            return audio.with_name(name)
    raise FathomError(f"{audio} has no transcription: {stem}.{suffix} is missing beside it")


def _check_alignable(audio: Path, labels: list[int], steps: int) -> None:
    """CTC needs one step of the network per label, and one for a blank between equal labels."""
    needed = len(labels) + sum(a == b for a, b in itertools.pairwise(labels))
    if needed > steps:
        raise FathomError(
            f"{audio} has {len(labels)} phones, which need {needed} steps, but only {steps} steps"
        )
