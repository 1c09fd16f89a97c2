"""TIMIT (Garofolo et al. 1993): read speech with its phones, in the tree of the LDC."""

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.data.dataset import DataSet
from fathom.errors import FathomError
from fathom.speech import features, phones

PAST_THE_END = 16  # samples by which the last phone may end after the audio


@dataclass(frozen=True, eq=False)
class Utterances:
    """Utterances in memory, one after the other.

    Attributes:
        names: path of each below the data set's folder, without its suffix.
        features: float32 [sum of frames, 26], of mean 0 and variance 1 in the training part.
        frames: int32 [n], of each utterance.
        labels: int32 [sum of label_lengths], each from 0 to 60, an index of ``phones.PHONES``.
        label_lengths: int32 [n].
    """

    names: tuple[str, ...]
    features: np.ndarray
    frames: np.ndarray
    labels: np.ndarray
    label_lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Timit(DataSet):
    """The two parts of TIMIT without the SA sentences, which every speaker reads.

    Attributes:
        train: the training part.
        test: the test part.
        mean: float32 [26], of the training part's features.
        deviation: float32 [26], their standard deviation.
        skipped: utterance to the reason why it was left out.
    """

    name = "timit"
    title = "TIMIT acoustic-phonetic speech"
    licence = "LDC User Agreement"
    home_page = "https://catalog.ldc.upenn.edu/LDC93S1"
    layout = "{train,test}/<dialect>/<speaker>/<sentence>.{wav,phn}, in upper or lower case"

    train: Utterances
    test: Utterances
    mean: np.ndarray
    deviation: np.ndarray
    skipped: dict[str, str]

    @classmethod
    def load(cls, directory: Path) -> "Timit":
        """Reads both parts; an utterance that cannot be used is left out and named.

        Raises:
            FathomError: there is no tree, or none of the training part's utterances can be used.
        """
        root = _root(directory)
        skipped: dict[str, str] = {}
        train = _load_part(root, "train", skipped)
        test = _load_part(root, "test", skipped)
        if not len(train):
            reason = next(iter(skipped.values()), "there is none")
            raise FathomError(f"{root} has no training utterance that can be used: {reason}")
        mean = train.features.mean(0, dtype=np.float64).astype(np.float32)
        deviation = np.maximum(train.features.std(0, dtype=np.float64), 1e-3).astype(np.float32)
        for part in (train, test):
            np.subtract(part.features, mean, out=part.features)
            np.divide(part.features, deviation, out=part.features)
        return cls(train, test, mean, deviation, skipped)

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a tree of imitated speech: see ``fathom.speech.synthetic``."""
        from fathom.speech import synthetic

        synthetic.write_tree(directory, seed)


def _root(directory: Path) -> Path:
    """Returns the folder with ``train`` and ``test``: this one, or one just below it."""
    for candidate in (directory, *sorted(path for path in directory.iterdir() if path.is_dir())):
        try:
            names = {name.lower() for name in os.listdir(candidate)}
        except OSError:
            continue
        if {"train", "test"} <= names:
            return candidate
    raise FathomError(
        f"{directory} has no folders train and test; {Timit.title} is expected as {Timit.layout}"
    )


def find_audio(part: Path) -> Iterator[Path]:
    """Yields the sound files of a part in order, one a sentence, without the SA sentences.

    A sentence's sound is ``<sentence>.wav`` (SPHERE or RIFF) or ``<sentence>.wav.wav`` (RIFF beside
    SPHERE, as some conversions have it), in upper or lower case.
    """
    for folder, folders, files in os.walk(part):
        folders.sort()
        seen = set()
        for name in sorted(files, key=lambda name: (sentence(name), len(name))):
            if not name.lower().endswith(".wav") or name.startswith("."):
                continue
            if re.match(r"sa\d", sentence(name)) or sentence(name) in seen:
                continue
            seen.add(sentence(name))
            yield Path(folder) / name


def sentence(name: str) -> str:
    """Returns a file's sentence in lower case: ``si1027`` for ``SI1027.WAV.wav``."""
    return name.lower().partition(".")[0]


def _load_part(root: Path, part: str, skipped: dict[str, str]) -> Utterances:
    """Reads one part; adds to ``skipped``."""
    folder = next(path for path in sorted(root.iterdir()) if path.name.lower() == part)
    paths = list(find_audio(folder))
    recordings = features.of_files(paths)
    ends = np.cumsum(recordings.frames)
    names, kept, frames, labels = [], [], [], []
    for i, path in enumerate(paths):
        name = str(path.relative_to(root).with_name(path.name.partition(".")[0]))
        try:
            if recordings.reasons[i]:
                raise FathomError(recordings.reasons[i])
            transcription = read_transcription(path, int(recordings.samples[i]))
            _check_alignable(path, transcription, int(recordings.frames[i]))
        except FathomError as error:
            skipped[name] = str(error)
            continue
        names.append(name)
        kept.append(recordings.values[ends[i] - recordings.frames[i] : ends[i]])
        frames.append(recordings.frames[i])
        labels.append(transcription)
    empty = np.empty((0, features.SETTINGS.size), np.float32)
    return Utterances(
        tuple(names),
        np.concatenate([empty, *kept]),
        np.array(frames, np.int32),
        np.array(list(itertools.chain(*labels)), np.int32),
        np.array([len(label) for label in labels], np.int32),
    )


def read_transcription(audio: Path, samples: int) -> list[int]:
    """Reads the phones beside a sound file: lines of first sample, end and phone.

    Args:
        audio: the sound file.
        samples: its length.

    Returns:
        indices of ``phones.PHONES``.

    Raises:
        FathomError: there is no such file, or a line is not as it should be; the message has its
            number.
    """
    path = _beside(audio, "phn")
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")  # all that counts is ASCII
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error
    labels, last = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
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
    """Returns the file of the same sentence with another suffix, in the case that it has."""
    stem = audio.name.partition(".")[0]
    for name in (f"{stem}.{suffix.upper()}", f"{stem}.{suffix}"):
        if audio.with_name(name).is_file():
            return audio.with_name(name)
    raise FathomError(f"{audio} has no transcription: {stem}.{suffix} is missing beside it")


def _check_alignable(audio: Path, labels: list[int], frames: int) -> None:
    """CTC needs a frame a label, and a blank between two that are equal."""
    needed = len(labels) + sum(a == b for a, b in itertools.pairwise(labels))
    if needed > frames:
        raise FathomError(
            f"{audio} has {len(labels)} phones, which need {needed} frames, but {frames} frames"
        )
