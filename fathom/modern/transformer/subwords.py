"""The byte-pair vocabulary that both languages share (Sennrich et al. 2016)."""

import io
from collections.abc import Iterable, Iterator

import numpy as np
import sentencepiece

from fathom.errors import FathomError, cause
from fathom.shared.translation.parallel import ParallelText, digest
from fathom.shared.translation.sentences import EncodedPairs, Sentences
from fathom.shared.translation.symbols import EOS, GO, PAD, UNK
from fathom.system.files import cache_directory, cached

_VERSION = 1  # of the training; increment it to train anew
_SAMPLE = 2_000_000  # sentences that a vocabulary is trained on, at most


class Subwords:
    """Splits sentences into subwords, and joins them.

    Args:
        model: of SentencePiece, as a file's bytes.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.model = model

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, pairs: Iterable[tuple[str, str]]) -> EncodedPairs:
        """Returns sentence pairs as token ids."""
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        return EncodedPairs(*(self._sentences(side) for side in sides))

    def _sentences(self, texts: Iterable[str]) -> Sentences:
        split = self._processor.encode([text.strip() for text in texts])
        lengths = np.array([len(ids) for ids in split], np.int64)
        ids = np.array([i for ids in split for i in ids], np.int32)
        return Sentences(ids, lengths, ended=True)

    def sentence(self, ids: np.ndarray) -> str:
        """Returns the sentence for ids int [subwords] up to ``<eos>``, without ``<unk>``."""
        return " ".join(self._processor.decode(self._kept(ids)).split())

    def pieces(self, ids: np.ndarray) -> list[str]:
        """Returns the subwords for ids int [subwords] up to ``<eos>``; a word's first has a bar.

        A network may have more ids than the text has subwords; these are ``<unk>``.
        """
        known = [int(i) if i < len(self) else UNK for i in _said(ids)]
        return [self._processor.id_to_piece(i) for i in known]

    def _kept(self, ids: np.ndarray) -> list[int]:
        return [int(i) for i in _said(ids) if i != UNK and i < len(self)]


def _said(ids: np.ndarray) -> np.ndarray:
    """Returns ids up to ``<eos>``, without padding and ``<go>``."""
    ended = np.flatnonzero(ids == EOS)
    sentence = ids[: ended[0]] if len(ended) else ids
    return sentence[(sentence != PAD) & (sentence != GO)]


def load(texts: tuple[ParallelText, ...], size: int) -> Subwords:
    """Returns the vocabulary of the training texts, from the cache if possible.

    Args:
        texts: both languages of which count.
        size: the largest, including special symbols; a small text has fewer subwords.

    Raises:
        FathomError: a text is unreadable or malformed, the vocabulary has no room for the text's
            letters, or the cache cannot be written.
    """
    path = cache_directory() / "wmt" / f"{digest(texts, _VERSION, size)}.model"
    return cached(path, lambda: _train(texts, size), Subwords)


def _train(texts: tuple[ParallelText, ...], size: int) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,  # a small text has fewer subwords
            character_coverage=1.0,
            normalization_rule_name="identity",
            input_sentence_size=_SAMPLE,
            num_threads=1,
            minloglevel=3,
            pad_id=PAD,
            bos_id=GO,
            eos_id=EOS,
            unk_id=UNK,
        )
    except RuntimeError as error:
        for _ in _lines(texts):  # an error in reading them is lost in SentencePiece: have it again
            pass
        raise FathomError(
            f"no vocabulary of {size} subwords can be made: {cause(error)}"
        ) from error
    return model.getvalue()


def _lines(texts: tuple[ParallelText, ...]) -> Iterator[str]:
    for text in texts:
        for pair in text:
            yield from pair
