"""Parallel text: pairs of files that are translations of each other, line by line."""

import fnmatch
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import ClassVar

import numpy as np

from fathom.core.data.dataset import DataSet, Reading
from fathom.core.data.files import folders_below, open_unpacked
from fathom.errors import FathomError
from fathom.shared.translation.synthetic import sentence_pair
from fathom.system.files import atomic_write, exists, list_folder, sha256

# Names of texts without the language's extension, in order of preference.
VALIDATION = ("val", "newstest2013", "newstest2012")
TEST = ("test_2016_flickr", "newstest2015", "newstest2014", "newsdiscusstest2015")

_LONGEST_LINE = 1 << 20  # bytes; sentences have hundreds
_SAMPLE = 100_000  # lines of each text to verify by default
_FORM = r"(?:\.(?:tok|lc|norm|true|clean))+"  # what preprocessing adds to a name


@dataclass
class ParallelText:
    """Two files that are translations of each other, line by line.

    Iterating reads them and yields (source sentence, target sentence).

    Raises:
        FathomError: while iterating: a file cannot be read, is not UTF-8, has no sentences, or the
            files differ in length; the message names the file and the line.
    """

    source: Path  # plain or gzip-compressed
    target: Path
    blank: int = field(default=0, init=False)  # pairs left out in the last pass: a side is blank

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.blank = pairs = 0
        source, target = _lines(self.source), _lines(self.target)
        for number, (ours, theirs) in enumerate(zip_longest(source, target)):
            if ours is None or theirs is None:
                longer, rest = (self.target, target) if ours is None else (self.source, source)
                shorter = self.source if ours is None else self.target
                total = number + 1 + sum(1 for _ in rest)
                raise FathomError(
                    f"{shorter} has {number} lines and {longer} {total}: line by line they should "
                    "be translations of each other"
                )
            if ours.strip() and theirs.strip():
                pairs += 1
                yield ours, theirs
            else:
                self.blank += 1
        if not pairs:
            raise FathomError(f"{self.source} and {self.target.name} have no sentence pairs")


def _lines(path: Path) -> Iterator[str]:
    """Yields a file's lines, split only at line feeds.

    A byte order mark at the start is skipped. NUL bytes, which HDF5 cannot store in words, are read
    as spaces.
    """
    number = 0
    with open_unpacked(path) as stream:
        try:
            while line := stream.readline(_LONGEST_LINE):  # at b"\n" alone
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise FathomError(f"{path}, line {number} is longer than {_LONGEST_LINE} bytes")
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                yield line.decode(encoding).replace("\0", " ")
        except UnicodeDecodeError as error:
            raise FathomError(f"{path}, line {number} is not UTF-8: {error.reason}") from error


def digest(texts: Iterable[ParallelText], *identity: object) -> str:
    """Returns a digest of the texts' bytes and of all else that determines what is made of them."""
    digests = [sha256(path) for text in texts for path in (text.source, text.target)]
    return hashlib.sha256(json.dumps([*identity, digests]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Languages(Reading):
    """The file extensions of two languages."""

    source_language: str = "en"
    target_language: str = "de"


@dataclass(frozen=True)
class ParallelTexts(DataSet):
    """The parallel texts of one pair of languages: the base of the translation data sets."""

    TRAINING: ClassVar[tuple[str, ...]]  # as in ``VALIDATION``; "{pair}" is both languages
    SYNTHETIC: ClassVar[tuple[str, str, str]]  # training, validation and test texts
    Options = Languages

    training: tuple[ParallelText, ...]  # one or more
    validation: ParallelText | None  # for the learning-rate schedule
    test: ParallelText | None  # to translate in the evaluation

    @classmethod
    def recognizes(cls, directory: Path) -> bool:
        """Returns whether the folder, or one level below, has a training text of any language."""
        patterns = [f"{name.replace('{pair}', '*')}.*" for name in cls.TRAINING]
        return any(_named(folder, p) for folder in folders_below(directory, 1) for p in patterns)

    @classmethod
    def load(cls, directory: Path, source: str = "en", target: str = "de") -> "ParallelTexts":
        """Finds the texts of a pair of languages, in the folder or one level below.

        They are read when iterated.

        Raises:
            FathomError: there is no training text of these languages, or a text has only one
                language.
        """
        for folder in folders_below(directory, 1):
            training = _present(folder, cls.TRAINING, source, target)
            if training:
                validation = _present(folder, VALIDATION, source, target)
                test = _present(folder, TEST, source, target)
                return cls(tuple(training), *(next(iter(t), None) for t in (validation, test)))
        raise FathomError(
            f"{directory} has no training text of {source} and {target}: {cls.title} is expected "
            f"as {cls.layout}; --set source_language and target_language choose others"
        )

    @classmethod
    def verify(cls, directory: Path, options: Languages, everything: bool) -> str:
        """Reads all texts of the two languages, or the first lines of each."""
        texts = cls.load(directory, options.source_language, options.target_language).texts()
        limit = None if everything else _SAMPLE
        pairs = sum(1 for text in texts for _ in islice(text, limit))
        languages = f"{options.source_language} and {options.target_language}"
        sample = "" if everything else f" (up to {_SAMPLE:,} of each text; --all: all)"
        return f"{pairs:,} sentence pairs of {languages} can be read{sample}"

    def texts(self) -> list[ParallelText]:
        """Returns the available training, validation and test texts."""
        return [text for text in (*self.training, self.validation, self.test) if text]

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 4_000, test_size: int = 200
    ) -> None:
        """Writes sentences of a synthetic pair of languages."""
        rng = np.random.default_rng(seed)
        sizes = (train_size, test_size, test_size)
        for name, size in zip(cls.SYNTHETIC, sizes, strict=True):
            pairs = [sentence_pair(rng) for _ in range(size)]
            for language, sentences in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
                write_lines(directory / f"{name}.{language}.gz", sentences)


def _named(folder: Path, pattern: str) -> list[str]:
    """Returns the names in a folder that match a pattern."""
    return fnmatch.filter([path.name for path in list_folder(folder)], pattern)


def _present(folder: Path, names: tuple[str, ...], source: str, target: str) -> list[ParallelText]:
    """Returns the texts that have both files."""
    found = []
    for name in names:
        for pair in dict.fromkeys((f"{source}-{target}", f"{target}-{source}")):
            stem = _existing_form(folder, name.replace("{pair}", pair), source, target)
            ours, theirs = (_either(folder / f"{stem}.{lang}") for lang in (source, target))
            if ours and theirs:
                found.append(ParallelText(ours, theirs))
            elif (ours or theirs) and len(_languages(folder, stem)) == 1:
                here, missing = (source, target) if ours else (target, source)
                raise FathomError(
                    f"{folder / stem}.{missing} is missing: {stem}.{here} is there without its "
                    f"translation; add it, or remove {stem}.{here}"
                )
            if "{pair}" not in name:
                break
    return found


def _existing_form(folder: Path, stem: str, source: str, target: str) -> str:
    """Returns the stem of a text's files, or its only form such as ``train.lc.tok``."""
    if any(_either(folder / f"{stem}.{language}") for language in (source, target)):
        return stem
    languages = f"(?:{re.escape(source)}|{re.escape(target)})"
    pattern = re.compile(rf"({re.escape(stem)}{_FORM})\.{languages}(?:\.gz)?")
    matches = map(pattern.fullmatch, _named(folder, f"{stem}.*"))
    forms = sorted({match[1] for match in matches if match})
    if len(forms) > 1:
        raise FathomError(f"{folder} has {stem} as {' and '.join(forms)}: keep one of them")
    return forms[0] if forms else stem


def _languages(folder: Path, stem: str) -> set[str]:
    names = (name.removesuffix(".gz") for name in _named(folder, f"{stem}.*"))
    endings = (name.removeprefix(f"{stem}.") for name in names)
    return {ending for ending in endings if "." not in ending}


def _either(plain: Path) -> Path | None:
    """Returns the file, its compressed version, or None."""
    twin = plain.with_name(f"{plain.name}.gz")
    return next(filter(exists, (plain, twin)), None)


def write_lines(path: Path, lines: tuple[str, ...]) -> None:
    """Writes a gzip-compressed text file; the same lines give the same bytes.

    Raises:
        FathomError: the file cannot be written.
    """
    content = "".join(f"{line}\n" for line in lines).encode()
    with atomic_write(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0))
