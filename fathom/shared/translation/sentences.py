"""Sentences and pairs of sentences as token ids."""

import functools
from dataclasses import dataclass

import numpy as np

from fathom.shared.translation.symbols import EOS, PAD


@dataclass(frozen=True)
class Sentences:
    """Sentences, concatenated in one array."""

    ids: np.ndarray  # int32 [words of all sentences], token ids, without ``<eos>``
    lengths: np.ndarray  # int64 [sentences], in words
    ended: bool  # in a batch, each has an ``<eos>``

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where each sentence begins in ``ids``, int64 [sentences]."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def sizes(self) -> np.ndarray:
        """The room that each sentence takes in a batch, int64 [sentences], in words."""
        return self.lengths + self.ended

    def padded(self, chosen: np.ndarray, length: int) -> np.ndarray:
        """Returns the chosen sentences, padded or cut: int32 [chosen, length].

        An ``<eos>`` takes the place of the last word of a sentence that is cut.
        """
        within = np.arange(length)
        positions = self.starts[chosen, None] + within
        inside = within < self.lengths[chosen, None]
        words = np.where(inside, self.ids[np.where(inside, positions, 0)], np.int32(PAD))
        if self.ended:
            words[np.arange(len(chosen)), np.minimum(self.lengths[chosen], length - 1)] = EOS
        return words


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as token ids: as many ``source`` as ``target`` sentences."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source.lengths)
