"""A text in one file, as character and byte models read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fathom.core.data import DataSet, RemoteFile
from fathom.core.data.files import read_known
from fathom.errors import FathomError
from fathom.shared.language import grammar
from fathom.system.files import atomic_write, read_file

TRAINING_SHARE = 0.9  # the first part; the rest is for validation, as in nanoGPT
_FILE = "input.txt"
_ENTROPY = "entropy.txt"  # beside a synthetic text, in nats per character


@dataclass(frozen=True)
class TinyShakespeare(DataSet):
    """A text in memory; any other text can be put in its place."""

    name = "tinyshakespeare"
    title = "Tiny Shakespeare"
    licence = "public domain"
    home_page = "https://github.com/karpathy/char-rnn"
    layout = "input.txt, any text in UTF-8"
    files: ClassVar[tuple[RemoteFile, ...]] = (
        RemoteFile(
            _FILE,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            (
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
                "tinyshakespeare/input.txt",
            ),
        ),
    )

    training: str  # the first nine tenths of the characters
    validation: str  # the rest
    entropy: float | None  # of a synthetic text, in nats per character; None: not known
    sequence: int = 1  # characters, at whose first one an example begins; 1: anywhere

    @classmethod
    def load(cls, directory: Path) -> "TinyShakespeare":
        """Reads the text.

        Raises:
            FathomError: it cannot be read, is empty, or is not UTF-8; or its entropy is no number.
        """
        path = directory / _FILE
        try:
            text = read_file(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FathomError(f"{path} is not UTF-8 text: byte {error.start}") from error
        if not text:
            raise FathomError(f"{path} is empty")
        cut = int(len(text) * TRAINING_SHARE)
        known = read_known(directory / _ENTROPY, 1)
        return cls(text[:cut], text[cut:], None if known is None else float(known[0]))

    @classmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads the whole text."""
        text = cls.load(directory)
        whole = text.training + text.validation
        return f"{len(whole):,} characters, {len(set(whole))} different"

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes sentences of a small grammar, and their entropy."""
        text, entropy = grammar.write(seed)
        (directory / _FILE).write_text(text)
        (directory / _ENTROPY).write_text(f"{entropy!r}\n")


def save_samples(path: Path, samples: Sequence[tuple[str, str]]) -> None:
    """Writes prompts and what the network wrote after them.

    Raises:
        FathomError: the file cannot be written.
    """
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for prompt, written in samples:
            file.write(f"--- prompt: {prompt!r}\n{prompt}{written}\n\n")
