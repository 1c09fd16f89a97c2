"""Tokenization, detokenization and vocabularies."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from fathom.shared.translation.symbols import EOS, GO, PAD, SPECIAL_SYMBOLS, UNK

_JOINER = "￭"  # starts a token that follows the previous one without a space
_TOKEN = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")  # noqa: RUF001 - the apostrophe of real text


def tokenize(sentence: str, lowercase: bool = False) -> list[str]:
    """Splits a sentence into words and single punctuation marks.

    Hyphens and apostrophes between letters stay in the word. A token that follows another without a
    space starts with a joiner, so that ``detokenize`` restores the sentence, with each run of
    spaces reduced to one.
    """
    sentence = sentence.lower() if lowercase else sentence
    tokens = []
    end = None
    for match in _TOKEN.finditer(sentence):
        tokens.append(_JOINER * (match.start() == end) + match.group())
        end = match.end()
    return tokens


def without_joiner(token: str) -> str:
    """Returns a token without its joiner."""
    return token[1:] if len(token) > 1 and token[0] == _JOINER else token


def detokenize(tokens: Iterable[str]) -> str:
    """Restores a sentence from its tokens."""
    sentence = ""
    for token in tokens:
        written = without_joiner(token)
        sentence += " " * bool(sentence and written == token) + written
    return sentence


class Vocabulary:
    """The token ids of a language's most frequent words; other words are ``<unk>``.

    The special symbols come first, then the words by decreasing frequency, as the log-uniform
    sampling of ``sampled_softmax`` expects.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: i for i, word in enumerate(self.words)}

    @classmethod
    def of(cls, counts: Counter[str], size: int) -> "Vocabulary":
        """Returns the vocabulary of the ``size`` most frequent words, including special symbols."""
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(SPECIAL_SYMBOLS + tuple(ranked[: size - len(SPECIAL_SYMBOLS)]))

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the id of each token."""
        return [self._ids.get(token, UNK) for token in tokens]

    def sentence(self, ids: np.ndarray) -> str:
        """Returns the sentence for ids int [words] up to ``<eos>``, without ``<unk>``."""
        return detokenize(self.tokens(ids, leave_out=(PAD, GO, UNK)))

    def pieces(self, ids: np.ndarray) -> list[str]:
        """Returns the tokens for ids int [words] up to ``<eos>``, as they are written."""
        return [without_joiner(token) for token in self.tokens(ids)]

    def tokens(self, ids: np.ndarray, leave_out: Sequence[int] = (PAD, GO)) -> list[str]:
        """Returns the tokens for ids int [words] up to ``<eos>``.

        A network may have more ids than the text has words; these are ``<unk>``.
        """
        ended = np.flatnonzero(np.asarray(ids) == EOS)
        kept = ids[: ended[0]] if len(ended) else ids
        known = [i if i < len(self) else UNK for i in kept]
        return [self.words[i] for i in known if i not in leave_out]
