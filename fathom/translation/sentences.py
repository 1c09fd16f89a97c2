"""Sentences and pairs of sentences as token ids."""

from dataclasses import dataclass

import numpy as np

from fathom.translation.symbols import PAD


@dataclass(frozen=True)
class Sentences:
    """Sentences, concatenated in one array.

    Attributes:
        ids: int32 [words of all sentences], token ids.
        lengths: int64 [sentences], in words.
    """

    ids: np.ndarray
    lengths: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Where each sentence begins in ``ids``, int64 [sentences]."""
        return np.cumsum(self.lengths) - self.lengths

    def padded(self, chosen: np.ndarray, length: int) -> np.ndarray:
        """Returns the words of the chosen sentences, padded or cut: int32 [chosen, length]."""
        within = np.arange(length)
        positions = self.starts[chosen, None] + within
        inside = within < self.lengths[chosen, None]
        return np.where(inside, self.ids[np.where(inside, positions, 0)], np.int32(PAD))


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as token ids: as many ``source`` as ``target`` sentences."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source.lengths)
