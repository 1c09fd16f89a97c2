"""What a token is: a character, a byte, or a frequent sequence of bytes."""

import abc
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fathom.errors import FathomError
from fathom.system.files import atomic_write, cache_directory, make_cache_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KINDS = ("characters", "bytes", "bpe")
BYTES = 256


class Vocabulary(abc.ABC):
    """Translates text into tokens and back.

    Attributes:
        identity: names what each token stands for; the same for equal vocabularies.
    """

    identity: str

    @abc.abstractmethod
    def __len__(self) -> int:
        """Returns the number of different tokens."""

    @abc.abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Returns the tokens of a text, int32 [tokens].

        Raises:
            FathomError: the text has something that no token stands for.
        """

    @abc.abstractmethod
    def decode(self, tokens: np.ndarray) -> str:
        """Returns the text of tokens, int [tokens]; numbers that are no token are left out."""


class Characters(Vocabulary):
    """The characters of a text, in the order of their code points."""

    def __init__(self, text: str) -> None:
        self._characters = np.unique(_code_points(text))
        self.identity = "characters " + "".join(map(chr, self._characters))

    def __len__(self) -> int:
        return len(self._characters)

    def encode(self, text: str) -> np.ndarray:
        """Returns a token for each character."""
        points = _code_points(text)
        places = np.searchsorted(self._characters, points).clip(max=len(self) - 1)
        unknown = np.flatnonzero(self._characters[places] != points)
        if len(unknown):
            raise FathomError(f"the vocabulary has no character {chr(points[unknown[0]])!r}")
        return places.astype(np.int32)

    def decode(self, tokens: np.ndarray) -> str:
        """Returns a character for each token."""
        return "".join(map(chr, self._characters[tokens[tokens < len(self)]]))


class Bytes(Vocabulary):
    """The 256 bytes, of UTF-8."""

    identity = "bytes"

    def __len__(self) -> int:
        return BYTES

    def encode(self, text: str) -> np.ndarray:
        """Returns a token for each byte."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def decode(self, tokens: np.ndarray) -> str:
        """Returns the text; what is not UTF-8 becomes a replacement character."""
        return tokens[tokens < BYTES].astype(np.uint8).tobytes().decode(errors="replace")


class BytePairs(Vocabulary):
    """Frequent sequences of bytes, found in a text by byte-pair encoding (Sennrich et al. 2016).

    On bytes, as in section 2.2 of Radford et al. The tokenizer is trained once and kept in the
    cache.

    Args:
        text: to train on.
        size: the most tokens.

    Raises:
        FathomError: the cache cannot be written, or the library is missing.
    """

    def __init__(self, text: str, size: int) -> None:
        key = hashlib.sha256(f"{size} {text}".encode()).hexdigest()[:32]
        path = cache_directory() / "gpt" / f"{key}.json"
        self._tokenizer = _read(path) if path.exists() else _train(path, text, size)
        self.identity = f"bpe {key}"

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> np.ndarray:
        """Returns the tokens of a text."""
        return np.array(self._tokenizer.encode(text).ids, np.int32)

    def decode(self, tokens: np.ndarray) -> str:
        """Returns the text of tokens."""
        return str(self._tokenizer.decode(tokens[tokens < len(self)].tolist()))


def build(kind: str, text: str, size: int) -> Vocabulary:
    """Returns the vocabulary of a text.

    Args:
        kind: one of ``KINDS``.
        text: whose tokens it has to have.
        size: of byte pairs: the most tokens.

    Raises:
        FathomError: as ``BytePairs``.
    """
    if kind == "characters":
        return Characters(text)
    return Bytes() if kind == "bytes" else BytePairs(text, size)


def _code_points(text: str) -> np.ndarray:
    """Returns the code points of the characters of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _library() -> None:
    """Raises FathomError if the library of byte-pair encoding is missing."""
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise FathomError("tokens=bpe needs a library: pip install tokenizers") from error


def _read(path: Path) -> "Tokenizer":
    _library()
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no other class
        raise FathomError(f"{path} is damaged: delete it ({error})") from error


def _train(path: Path, text: str, size: int) -> "Tokenizer":
    _library()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    make_cache_folder(path.parent)
    with atomic_write(path) as temporary:
        tokenizer.save(str(temporary))
    return tokenizer
