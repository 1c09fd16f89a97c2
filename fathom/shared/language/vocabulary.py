"""What a token is: a character, a byte, a frequent sequence of bytes, or what a file says."""

import abc
import hashlib
import io
from pathlib import Path

import numpy as np
import sentencepiece

from fathom.errors import FathomError, cause, require
from fathom.system.files import cache_directory, cached, read_file

KINDS = ("characters", "bytes", "bpe", "published")
BYTES = 256


class Vocabulary(abc.ABC):
    """Translates text into tokens and back."""

    identity: str  # names what each token stands for; the same for equal vocabularies

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
    """Frequent sequences of characters, by byte-pair encoding (Sennrich et al. 2016).

    By SentencePiece. A character that the text does not have is encoded as bytes, so that every
    text can be, as in section 2.2 of Radford et al. Trained once and kept in the cache.

    Args:
        text: to train on.
        size: the most tokens; the 256 bytes and the text's characters are among them.

    Raises:
        FathomError: the text has more characters, or the cache cannot be written.
    """

    def __init__(self, text: str, size: int) -> None:
        key = hashlib.sha256(f"3 {size} {text}".encode()).hexdigest()[:32]
        path = cache_directory() / "vocabularies" / f"{key}.model"
        self._processor = cached(
            path,
            lambda: _train(text, size),
            lambda model: sentencepiece.SentencePieceProcessor(model_proto=model),
        )
        self.identity = f"bpe {key}"

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> np.ndarray:
        """Returns the tokens of a text."""
        return np.array(self._processor.encode(text), np.int32)

    def decode(self, tokens: np.ndarray) -> str:
        """Returns the text of tokens."""
        return str(self._processor.decode(tokens[tokens < len(self)].tolist()))


class Published(Vocabulary):
    """The tokens of a file ``tokenizer.json``, as Hugging Face's models have it.

    No special tokens are added to a text.

    Raises:
        FathomError: tokenizers is not installed, or the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        require("tokens=published", "weights", "tokenizers")
        import tokenizers

        content = read_file(path)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # of no class of its own
            raise FathomError(f"{path} is no tokenizer: {cause(error)}") from error
        self.identity = f"tokenizer {hashlib.sha256(content).hexdigest()}"

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> np.ndarray:
        """Returns the tokens of a text."""
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, tokens: np.ndarray) -> str:
        """Returns the text of tokens."""
        known = tokens[tokens < len(self)].tolist()
        return str(self._tokenizer.decode(known, skip_special_tokens=False))


def build(kind: str, text: str, size: int, folder: Path | None = None) -> Vocabulary:
    """Returns the vocabulary of a text.

    Args:
        kind: one of ``KINDS``.
        text: whose tokens it has to have.
        size: of byte pairs: the most tokens.
        folder: of published weights, with ``tokenizer.json``.

    Raises:
        FathomError: as ``BytePairs`` and ``Published``, or published tokens have no folder.
    """
    if kind == "published":
        if not folder:
            raise FathomError("tokens=published are those of a folder: add --set weights=DIR")
        return Published(folder / "tokenizer.json")
    if kind == "characters":
        return Characters(text)
    return Bytes() if kind == "bytes" else BytePairs(text, size)


def _code_points(text: str) -> np.ndarray:
    """Returns the code points of the characters of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _train(text: str, size: int) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.splitlines()),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,  # a small text has fewer tokens
            character_coverage=1.0,
            byte_fallback=True,
            user_defined_symbols=["\n"],
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            max_sentence_length=2**30,  # it would leave longer lines out
            bos_id=-1,
            eos_id=-1,
            num_threads=1,
            minloglevel=3,
        )
    except RuntimeError as error:
        raise FathomError(f"no vocabulary of {size} tokens can be made: {cause(error)}") from error
    return model.getvalue()
