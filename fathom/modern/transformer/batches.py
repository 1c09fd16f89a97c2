"""Batches of as many tokens each: pairs of like length together, padded to one of few lengths."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.translation.sentences import EncodedPairs
from fathom.translation.symbols import EOS, GO, PAD


class Shape(NamedTuple):
    """The shape of a batch."""

    pairs: int
    length: int  # of source and target, each with its <eos>


class Batch(NamedTuple):
    """Sentence pairs of one length, int32 tensors [pairs, length], padded with ``<pad>``."""

    source: tf.Tensor  # <eos> last
    target: tf.Tensor  # <go> first: the decoder's input
    words: tf.Tensor  # <eos> last: the decoder's expected output


def parse(text: str) -> tuple[int, ...]:
    """Parses lengths such as ``12 16 24``.

    Raises:
        FathomError: the text cannot be parsed, or the lengths do not grow.
    """
    try:
        lengths = tuple(int(part) for part in text.split())
    except ValueError:
        lengths = ()
    if not lengths or lengths[0] < 2 or any(a >= b for a, b in itertools.pairwise(lengths)):
        raise FathomError(f"lengths must be numbers that grow, such as '12 16 24', not {text!r}")
    return lengths


def shapes(lengths: tuple[int, ...], pairs: int) -> tuple[Shape, ...]:
    """Returns a shape for each length, all of about as many tokens as ``pairs`` of the last."""
    return tuple(Shape(pairs * lengths[-1] // length, length) for length in lengths)


def assign(pairs: EncodedPairs, lengths: tuple[int, ...]) -> np.ndarray:
    """Returns the number of the length that each pair is padded to, int [pairs].

    It is ``len(lengths)`` for a pair that is longer than all of them.
    """
    return np.searchsorted(lengths, np.maximum(pairs.source.lengths, pairs.target.lengths) + 1)


@dataclass(frozen=True)
class Order:
    """Determines the pairs of each batch from the seed and the step alone.

    In each epoch the pairs of a length are shuffled and split into batches; the remainder moves to
    the next larger length. So each epoch has every pair once, except for less than a batch. The
    batches of all lengths are then shuffled.

    Attributes:
        assigned: int [pairs], as from ``assign``; pairs that are too long are left out.
        shapes: of the batches of each length.
        seed: of the order.

    Raises:
        FathomError: there are not enough pairs for a batch.
    """

    assigned: np.ndarray
    shapes: tuple[Shape, ...]
    seed: int

    def __post_init__(self) -> None:
        if not self.steps_per_epoch:
            fitting = np.count_nonzero(self.assigned < len(self.shapes))
            raise FathomError(
                f"batch size {self.shapes[-1].pairs} is larger than the data: {fitting} sentence "
                f"pairs of at most {self.shapes[-1].length} subwords; use a smaller --batch-size"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in one pass over the pairs."""
        batches = left = 0
        for number, shape in enumerate(self.shapes):
            whole, left = divmod(left + np.count_nonzero(self.assigned == number), shape.pairs)
            batches += whole
        return batches

    def epoch(self, number: int) -> list[tuple[int, np.ndarray]]:
        """Returns the batches of an epoch in order, each as its length and its pairs."""
        rng = np.random.default_rng([self.seed, number])
        batches = []
        left = np.zeros(0, np.int64)
        for i, shape in enumerate(self.shapes):
            pairs = np.concatenate([left, rng.permutation(np.flatnonzero(self.assigned == i))])
            whole = len(pairs) - len(pairs) % shape.pairs
            batches += [(shape.length, part) for part in pairs[:whole].reshape(-1, shape.pairs)]
            left = pairs[whole:]
        return [batches[i] for i in rng.permutation(len(batches))]

    def stream(self, pairs: EncodedPairs, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of batches from ``first_step`` on."""
        epoch, skipped = divmod(first_step, self.steps_per_epoch)
        while True:
            for length, chosen in self.epoch(epoch)[skipped:]:
                yield make_batch(pairs, chosen, length)
            epoch, skipped = epoch + 1, 0


def make_batch(pairs: EncodedPairs, chosen: np.ndarray, length: int) -> Batch:
    """Returns the chosen pairs, padded or cut to a length."""
    source, words = (
        _ended(side.padded(chosen, length), side.lengths[chosen])
        for side in (pairs.source, pairs.target)
    )
    target = np.roll(words, 1, axis=1)
    target[target == EOS] = PAD
    target[:, 0] = GO
    with tf.device("/cpu:0"):
        return Batch(*(tf.constant(side) for side in (source, target, words)))


def _ended(words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns sentences int32 [sentences, length] with ``<eos>``, in place of the last if full."""
    words[np.arange(len(words)), np.minimum(lengths, words.shape[1] - 1)] = EOS
    return words


def in_turn(
    pairs: EncodedPairs, assigned: np.ndarray, sizes: tuple[Shape, ...]
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields each pair once, with its number, length by length; batches may be smaller.

    Pairs that are too long are cut to the largest length.
    """
    last = len(sizes) - 1
    for number, shape in enumerate(sizes):
        members = np.flatnonzero(np.minimum(assigned, last) == number)
        for start in range(0, len(members), shape.pairs):
            chosen = members[start : start + shape.pairs]
            yield chosen, make_batch(pairs, chosen, shape.length)
