"""Buckets: pairs of similar length share a batch, padded to the bucket's lengths."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.translation.sentences import EncodedPairs
from fathom.translation.symbols import EOS, GO, PAD


class Bucket(NamedTuple):
    """The lengths that a batch is padded to, in words."""

    source: int  # largest length of a source sentence
    target: int  # largest length of a target sentence with its <eos>


class Batch(NamedTuple):
    """Sentence pairs of one bucket, int32 tensors, padded at the end with ``<pad>``."""

    source: tf.Tensor  # [batch, bucket.source]
    target: tf.Tensor  # [batch, bucket.target], <go> first: the decoder's input
    words: tf.Tensor  # [batch, bucket.target], <eos> last: the decoder's expected output


def parse(text: str) -> tuple[Bucket, ...]:
    """Parses buckets from text such as ``5-10 10-15``, the smallest first.

    Raises:
        FathomError: the text cannot be parsed, or the buckets do not grow.
    """
    try:
        buckets = [Bucket(*map(int, part.split("-"))) for part in text.split()]
    except (ValueError, TypeError):
        buckets = []
    grows = all(
        a.source < b.source and a.target <= b.target for a, b in itertools.pairwise(buckets)
    )
    if not buckets or not grows or min(buckets[0]) < 1:
        raise FathomError(
            f"buckets must be SOURCE-TARGET lengths that grow, such as '5-10 10-15', not {text!r}"
        )
    return tuple(buckets)


def assign(pairs: EncodedPairs, buckets: tuple[Bucket, ...]) -> np.ndarray:
    """Returns the number of each pair's smallest bucket, int [pairs]; -1 if it fits in none."""
    chosen = np.full(len(pairs), -1)
    for number, bucket in reversed(list(enumerate(buckets))):
        fits = (pairs.source.lengths <= bucket.source) & (pairs.target.lengths < bucket.target)
        chosen[fits] = number
    return chosen


def assign_by_source(pairs: EncodedPairs, buckets: tuple[Bucket, ...]) -> np.ndarray:
    """Returns each source sentence's smallest bucket, int [pairs]; the largest if it fits none."""
    limits = [bucket.source for bucket in buckets]
    return np.minimum(np.searchsorted(limits, pairs.source.lengths), len(buckets) - 1)


def bucket_of_source(length: int, buckets: tuple[Bucket, ...]) -> int:
    """Returns the number of a source sentence's smallest bucket; the largest for longer ones."""
    fitting = (i for i, bucket in enumerate(buckets) if length <= bucket.source)
    return next(fitting, len(buckets) - 1)


@dataclass(frozen=True)
class BucketSampler:
    """Determines the pairs of each batch from the seed and the step alone.

    In each epoch the pairs of a bucket are shuffled and split into batches; the remainder moves to
    the next larger bucket. So each epoch has every pair once, except for less than a batch. The
    batches of all buckets are then shuffled.

    Attributes:
        assigned: int [pairs], each pair's bucket; pairs with -1 are left out.
        batch_size: pairs per batch.
        seed: of the order.

    Raises:
        FathomError: there are no pairs, or fewer than a batch.
    """

    assigned: np.ndarray
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        size = np.count_nonzero(self.assigned >= 0)
        if size == 0:
            raise FathomError(
                f"none of the {len(self.assigned)} sentence pairs fits in a bucket: set larger ones"
            )
        if self.batch_size > size:
            raise FathomError(
                f"batch size {self.batch_size} is larger than the data: {size} sentence pairs that "
                f"fit in a bucket; use --batch-size {size} or less, or larger buckets"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in one pass over the pairs."""
        return np.count_nonzero(self.assigned >= 0) // self.batch_size

    def epoch(self, number: int) -> list[tuple[int, np.ndarray]]:
        """Returns the batches of an epoch in order, each as a bucket's number and its pairs."""
        rng = np.random.default_rng([self.seed, number])
        batches = []
        left = np.zeros(0, np.int64)
        for bucket in range(self.assigned.max() + 1):
            pairs = np.concatenate([left, rng.permutation(np.flatnonzero(self.assigned == bucket))])
            whole = len(pairs) - len(pairs) % self.batch_size
            batches += [(bucket, part) for part in pairs[:whole].reshape(-1, self.batch_size)]
            left = pairs[whole:]
        return [batches[i] for i in rng.permutation(len(batches))]


def make_batch(pairs: EncodedPairs, chosen: np.ndarray, bucket: Bucket) -> Batch:
    """Returns the chosen pairs, padded or truncated to the bucket's lengths."""
    source = pairs.source.padded(chosen, bucket.source)
    words = pairs.target.padded(chosen, bucket.target)
    lengths = np.minimum(pairs.target.lengths[chosen], bucket.target - 1)
    words[np.arange(len(chosen)), lengths] = EOS
    words[np.arange(bucket.target) > lengths[:, None]] = PAD
    target = np.concatenate([np.full((len(chosen), 1), GO, np.int32), words[:, :-1]], 1)
    target[target == EOS] = PAD
    with tf.device("/cpu:0"):
        return Batch(tf.constant(source), tf.constant(target), tf.constant(words))


def training_batches(
    pairs: EncodedPairs, order: BucketSampler, buckets: tuple[Bucket, ...], first_step: int
) -> Iterator[Batch]:
    """Returns the endless stream of batches from ``first_step`` on."""
    epoch, skipped = divmod(first_step, order.steps_per_epoch)
    while True:
        for number, chosen in order.epoch(epoch)[skipped:]:
            yield make_batch(pairs, chosen, buckets[number])
        epoch, skipped = epoch + 1, 0


def batches_in_turn(
    pairs: EncodedPairs, assigned: np.ndarray, buckets: tuple[Bucket, ...], batch_size: int
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields each pair once, with its number, bucket by bucket; batches may be smaller."""
    for number, bucket in enumerate(buckets):
        members = np.flatnonzero(assigned == number)
        for start in range(0, len(members), batch_size):
            chosen = members[start : start + batch_size]
            yield chosen, make_batch(pairs, chosen, bucket)
