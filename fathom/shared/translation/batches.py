"""Batches: pairs of similar length together, padded to one of few shapes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fathom.core.training import replicas
from fathom.errors import FathomError
from fathom.shared.translation.sentences import EncodedPairs
from fathom.shared.translation.symbols import EOS, GO, PAD
from fathom.system.device import CPU


class Shape(NamedTuple):
    """The shape of a batch; of several, each has longer sentences than the one before."""

    pairs: int
    source: int  # room for a source sentence, in words
    target: int  # room for a target sentence with its <eos>


class Batch(NamedTuple):
    """Sentence pairs of one shape, int32 tensors, padded at the end with ``<pad>``."""

    source: tf.Tensor  # [pairs, source]
    target: tf.Tensor  # [pairs, target], <go> first: the decoder's input
    words: tf.Tensor  # [pairs, target], <eos> last: the decoder's expected output


def assign(pairs: EncodedPairs, shapes: Sequence[Shape]) -> np.ndarray:
    """Returns the number of the first shape that holds each pair, int [pairs].

    It is ``len(shapes)`` for a pair that none holds.
    """
    targets = np.searchsorted([shape.target for shape in shapes], pairs.target.sizes)
    return np.maximum(assign_by_source(pairs, shapes), targets)


def assign_by_source(pairs: EncodedPairs, shapes: Sequence[Shape]) -> np.ndarray:
    """Returns the number of the first shape that holds each source sentence, as ``assign``."""
    return np.searchsorted([shape.source for shape in shapes], pairs.source.sizes)


@dataclass(frozen=True)
class Order:
    """Determines the pairs of each batch from the seed and the step alone.

    In each epoch the pairs of a shape are shuffled and split into batches; the remainder moves to
    the next larger shape. So each epoch has every pair once, except for less than a batch. The
    batches of all shapes are then shuffled.

    Raises:
        FathomError: there are not enough pairs for a batch.
    """

    assigned: np.ndarray  # int [pairs], as from ``assign``; pairs that are too long are left out
    shapes: tuple[Shape, ...]  # of the batches
    seed: int  # of the order

    def __post_init__(self) -> None:
        if self.steps_per_epoch:
            return
        fitting = np.count_nonzero(self.assigned < len(self.shapes))
        size, source, target = self.shapes[-1]
        if not fitting:
            raise FathomError(
                f"none of the {len(self.assigned)} sentence pairs is of at most {source} and "
                f"{target} words: allow longer ones"
            )
        raise FathomError(
            f"batch size {size} is larger than the data: {fitting} sentence pairs of at most "
            f"{source} and {target} words; use a smaller --batch-size, or allow longer ones"
        )

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in one pass over the pairs."""
        batches = left = 0
        for number, shape in enumerate(self.shapes):
            whole, left = divmod(left + np.count_nonzero(self.assigned == number), shape.pairs)
            batches += whole
        return batches

    def epoch(self, number: int) -> list[tuple[Shape, np.ndarray]]:
        """Returns the batches of an epoch in order, each as its shape and its pairs."""
        rng = np.random.default_rng([self.seed, number])
        batches = []
        left = np.zeros(0, np.int64)
        for i, shape in enumerate(self.shapes):
            pairs = np.concatenate([left, rng.permutation(np.flatnonzero(self.assigned == i))])
            whole = len(pairs) - len(pairs) % shape.pairs
            batches += [(shape, part) for part in pairs[:whole].reshape(-1, shape.pairs)]
            left = pairs[whole:]
        return [batches[i] for i in rng.permutation(len(batches))]

    def stream(self, pairs: EncodedPairs, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of batches from ``first_step`` on, a worker's rows of them."""
        rows = {shape: replicas.rows_of_worker(shape.pairs) for shape in self.shapes}
        epoch, skipped = divmod(first_step, self.steps_per_epoch)
        endless = itertools.chain.from_iterable(map(self.epoch, itertools.count(epoch)))
        batches = itertools.islice(endless, skipped, None)
        return (make_batch(pairs, chosen[rows[shape]], shape) for shape, chosen in batches)


def make_batch(pairs: EncodedPairs, chosen: np.ndarray, shape: Shape) -> Batch:
    """Returns the chosen pairs, padded or cut to a shape."""
    source = pairs.source.padded(chosen, shape.source)
    words = pairs.target.padded(chosen, shape.target)
    target = np.roll(words, 1, axis=1)
    target[target == EOS] = PAD
    target[:, 0] = GO
    with CPU.placement():
        return Batch(*(tf.constant(side) for side in (source, target, words)))


def in_turn(
    pairs: EncodedPairs, assigned: np.ndarray, shapes: Sequence[Shape]
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields each pair once, with its number, shape by shape; batches may be smaller.

    Pairs that are too long are cut to the largest shape.
    """
    last = len(shapes) - 1
    for number, shape in enumerate(shapes):
        members = np.flatnonzero(np.minimum(assigned, last) == number)
        for start in range(0, len(members), shape.pairs):
            chosen = members[start : start + shape.pairs]
            yield chosen, make_batch(pairs, chosen, shape)
