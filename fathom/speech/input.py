"""Batches of utterances of similar lengths."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from fathom.core.data.pipeline import DataLoader, Sampler, Tensors, shuffled
from fathom.speech.timit import Utterances
from fathom.system.device import CPU


@dataclass(frozen=True, eq=False)
class OrderByLength(Sampler):
    """Determines the utterances of each batch, which have similar lengths.

    In every epoch the utterances of its whole batches are drawn at random, stably sorted by length
    and split into batches, and the batches are shuffled. Without shuffling, utterances are sorted
    by length.
    """

    lengths: np.ndarray = field(kw_only=True)  # int32 [size], in frames

    def indices(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the utterances of one batch, int64 [batch_size]; ``step`` counts from 0."""
        if not self.shuffle:
            by_length = tf.constant(np.argsort(self.lengths, kind="stable"))
            return tf.gather(by_length, super().indices(step))
        steps = self.steps_per_epoch
        epoch, step_in_epoch = step // steps, step % steps
        positions = tf.range(steps * self.batch_size, dtype=tf.int64)
        drawn = shuffled(positions, self.size, self.seed, epoch)
        by_length = tf.gather(drawn, tf.argsort(tf.gather(self.lengths, drawn), stable=True))
        batch = shuffled(step_in_epoch, steps, self.seed, epoch)
        return tf.reshape(by_length, [steps, self.batch_size])[batch]


class Feed:
    """Streams of batches of one split of the data.

    A batch is (features float32 [batch, frames, size], frames int32 [batch], phones int32 [batch,
    most phones], their numbers int32 [batch]), zero-padded after an utterance's end.
    """

    def __init__(self, part: Utterances, batch_size: int, seed: int) -> None:
        self._part, self._batch_size, self._seed = part, batch_size, seed
        with CPU.placement():
            self._features = tf.RaggedTensor.from_row_lengths(part.features, part.frames)
            self._phones = tf.RaggedTensor.from_row_lengths(part.labels, part.label_lengths)

    def shuffled(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of training batches from ``first_step`` on."""
        return DataLoader(self._order(shuffle=True), self.load, first_step)

    def in_turn(self) -> Iterator[Tensors]:
        """Returns an endless stream of batches, the shortest utterances first."""
        return DataLoader(self._order(shuffle=False), self.load)

    def once(self) -> Iterator[Tensors]:
        """Returns each utterance once, the shortest first; the last batch may be smaller."""
        by_length = np.argsort(self._part.frames, kind="stable")
        for start in range(0, len(by_length), self._batch_size):
            yield self.load(tf.constant(by_length[start : start + self._batch_size]))

    def load(self, indices: tf.Tensor, seeds: tf.Tensor | None = None) -> Tensors:
        """Returns the batch of some utterances, int64 [batch], without randomness."""
        features, phones = tf.gather(self._features, indices), tf.gather(self._phones, indices)
        lengths, counts = features.row_lengths(), phones.row_lengths()
        return (
            features.to_tensor(),
            tf.cast(lengths, tf.int32),
            phones.to_tensor(),
            tf.cast(counts, tf.int32),
        )

    def _order(self, shuffle: bool) -> OrderByLength:
        part = self._part
        return OrderByLength(len(part), self._batch_size, self._seed, shuffle, lengths=part.frames)
