"""Parallel text: the files of the WMT-15 translation task, and Multi30k under its own names."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np

from fathom.data.dataset import DataSet
from fathom.errors import FathomError
from fathom.system.files import atomic_write

# Names without the language's ending, in the order of preference; "{pair}" is both languages.
TRAINING = (
    "train",
    "giga-fren.release2.fixed",
    "giga-fren.release2",
    "europarl-v7.{pair}",
    "commoncrawl.{pair}",
    "news-commentary-v10.{pair}",
)
VALIDATION = ("val", "newstest2013", "newstest2012")
TEST = ("test_2016_flickr", "newstest2015", "newstest2014", "newsdiscusstest2015")


@dataclass
class ParallelText:
    """Two files of which line n of the one translates line n of the other.

    Iterating reads them, and yields (source sentence, target sentence).

    Attributes:
        source: the file of the source language, plain or gzip-compressed.
        target: the file of the target language.
        blank: pairs that the last pass left out, for a side of them is blank.

    Raises:
        FathomError: while iterating: a file cannot be read, is not UTF-8, is of another length
            than the other one, or has no sentences; the message names the file and the line.
    """

    source: Path
    target: Path
    blank: int = field(default=0, init=False)

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
    """Yields a file's lines, split at line feeds alone.

    A byte order mark at the start is left out. A NUL byte is read as a space: no word that is kept
    in HDF5 can have one.
    """
    number = 0
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if compressed else path.open("rb") as file:
            for line in file:  # bytes are split at b"\n" alone
                number += 1
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                yield line.decode(encoding).replace("\0", " ")
    except UnicodeDecodeError as error:
        raise FathomError(f"{path}, line {number} is not UTF-8: {error.reason}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FathomError(f"{path} is damaged after line {number}: {error}") from error
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error


@dataclass(frozen=True)
class Wmt(DataSet):
    """The parallel texts of one pair of languages.

    Attributes:
        training: one or more corpora.
        validation: a text that the learning rate is decided on; None if there is none.
        test: the text that is translated in the end; None if there is none.
    """

    name = "wmt"
    title = "parallel text (WMT-15, Multi30k)"
    licence = "by corpus; WMT-15: free for research, Multi30k: images non-commercial"
    home_page = "https://www.statmt.org/wmt15/translation-task.html"
    layout = (
        "{train,val,test_2016_flickr}.{en,de}, or WMT-15's names such as "
        "giga-fren.release2.fixed.{en,fr}, newstest2013.{en,fr}, newstest2015.{en,fr}, each plain "
        "or with .gz"
    )

    training: tuple[ParallelText, ...]
    validation: ParallelText | None
    test: ParallelText | None

    @classmethod
    def find(cls, directory: Path, source: str, target: str) -> "Wmt":
        """Finds the texts of a pair of languages, in the folder or in one folder below it.

        Raises:
            FathomError: there is no training text of these languages, or a text is there in only
                one language.
        """
        below = sorted(path for path in directory.iterdir() if path.is_dir())
        for folder in (directory, *below):
            training = _present(folder, TRAINING, source, target)
            if training:
                validation = _present(folder, VALIDATION, source, target)
                test = _present(folder, TEST, source, target)
                return cls(tuple(training), *(next(iter(t), None) for t in (validation, test)))
        raise FathomError(
            f"{directory} has no training text of {source} and {target}: {cls.title} is expected "
            f"as {cls.layout}; --set source_language and target_language choose others"
        )

    @classmethod
    def load(cls, directory: Path, source: str = "en", target: str = "de") -> "Wmt":
        """Finds the texts of a pair of languages and reads them once, to check them.

        Raises:
            FathomError: there is no training text, or a file is unreadable or malformed.
        """
        found = cls.find(directory, source, target)
        for text in (*found.training, found.validation, found.test):
            for _ in text or ():
                pass
        return found

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 4_000, test_size: int = 200
    ) -> None:
        """Writes sentences of an artificial pair of languages, under Multi30k's names."""
        from fathom.seq2seq.synthetic import sentence_pair

        rng = np.random.default_rng(seed)
        for name, size in (("train", train_size), (VALIDATION[0], test_size), (TEST[0], test_size)):
            pairs = [sentence_pair(rng) for _ in range(size)]
            for language, sentences in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
                write_lines(directory / f"{name}.{language}.gz", sentences)


def _present(folder: Path, names: tuple[str, ...], source: str, target: str) -> list[ParallelText]:
    """Returns those of the texts whose two files are there.

    Raises:
        FathomError: a text is there in one of the languages, and in no other language at all.
    """
    found = []
    for name in names:
        for pair in dict.fromkeys((f"{source}-{target}", f"{target}-{source}")):
            stem = name.replace("{pair}", pair)
            sides = [_either(folder / f"{stem}.{language}") for language in (source, target)]
            if all(sides):
                found.append(ParallelText(*sides))
            elif any(sides) and len(_languages(folder, stem)) == 1:
                here, missing = (source, target) if sides[0] else (target, source)
                raise FathomError(
                    f"{folder / stem}.{missing} is missing: {stem}.{here} is there without its "
                    f"translation; add it, or remove {stem}.{here}"
                )
            if stem == name:
                break
    return found


def _languages(folder: Path, stem: str) -> set[str]:
    """Returns the languages in which a text is there."""
    names = (path.name.removesuffix(".gz") for path in folder.glob(f"{stem}.*"))
    endings = (name.removeprefix(f"{stem}.") for name in names)
    return {ending for ending in endings if "." not in ending}


def _either(plain: Path) -> Path | None:
    """Returns the file, or else its compressed twin, or None."""
    twin = plain.with_name(f"{plain.name}.gz")
    return next((path for path in (plain, twin) if path.is_file()), None)


def write_lines(path: Path, lines: tuple[str, ...]) -> None:
    """Writes a gzip-compressed text file; the same lines give the same bytes.

    Raises:
        FathomError: the file cannot be written.
    """
    with (
        atomic_write(path) as temporary,
        temporary.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream,
    ):
        stream.write("".join(f"{line}\n" for line in lines).encode())
