"""Batches determined by the seed and the step alone.

A resumed run therefore has the same batches as an uninterrupted one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.randomness import bits
from fathom.errors import FathomError, cause
from fathom.system.device import CPU

Tensors = tuple[tf.Tensor, ...]
LoadBatch = Callable[[tf.Tensor, tf.Tensor], Tensors]

PREFETCHED = 2  # batches, or blocks of batches
_ROUNDS = 8  # of the cipher: with 4 (TensorFlow) or 6, neighbours stay neighbours too often


def shuffled(positions: tf.Tensor, size: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the values at some positions of an epoch's permutation of 0 to ``size - 1``.

    ``tf.random.experimental.index_shuffle`` uses only the low 8 or 16 bits of seed and epoch, so
    that its permutations repeat after 256 epochs. This function uses all bits.

    Args:
        positions: int64, scalar or [n], each from 0 to ``size - 1``.
        size: of the permutation.
        seed: of the permutations.
        epoch: int64 scalar; each has its own permutation.

    Returns:
        int64, with the shape of ``positions``.
    """
    return tf.raw_ops.RandomIndexShuffle(
        index=positions,
        seed=bits([3], tf.stack([tf.constant(seed, tf.int64), epoch])),
        max_index=tf.constant(size - 1, tf.int64),
        rounds=_ROUNDS,
    )


@dataclass(frozen=True)
class Sampler:
    """Determines the examples of each batch.

    With shuffling, each example occurs at most once per epoch; the ``size % batch_size`` examples
    left out vary between epochs. Without, batches cycle through the examples in order.

    Attributes:
        size: number of examples.
        batch_size: examples per batch.
        seed: of the order.
        shuffle: use a new permutation for each epoch; otherwise the examples in order.

    Raises:
        FathomError: there are no examples, or too few for a shuffled batch.
    """

    size: int
    batch_size: int
    seed: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        if self.size == 0:
            raise FathomError("the data set is empty")
        if self.batch_size < 1:
            raise FathomError(f"batch size {self.batch_size} is not a positive number")
        if self.shuffle and self.batch_size > self.size:
            raise FathomError(
                f"batch size {self.batch_size} is larger than the data: {self.size} examples; "
                f"use --batch-size {self.size} or less"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in one pass over the examples."""
        return self.size // self.batch_size

    def indices(self, step: tf.Tensor) -> tf.Tensor:
        """Returns a batch's examples, int64 [batch_size]; the int64 ``step`` counts over epochs."""
        in_batch = tf.range(self.batch_size, dtype=tf.int64)
        if not self.shuffle:
            return (step * self.batch_size + in_batch) % self.size
        epoch, step_in_epoch = step // self.steps_per_epoch, step % self.steps_per_epoch
        positions = step_in_epoch * self.batch_size + in_batch
        return shuffled(positions, self.size, self.seed, epoch)

    def seeds(self, step: tf.Tensor) -> tf.Tensor:
        """Returns a seed for each example of a step, for augmentation: int64 [batch_size, 2]."""
        positions = step * self.batch_size + tf.range(self.batch_size, dtype=tf.int64)
        return tf.stack([tf.fill(positions.shape, tf.constant(self.seed, tf.int64)), positions], 1)


class DataLoader(Iterator[Tensors]):
    """An endless stream of batches, loaded in parallel and prefetched.

    Made in the scope of a training's strategy, it has the rows of this worker alone.

    Args:
        order: the sampler.
        load: maps (indices int64 [batch], seeds int64 [batch, 2]) to a batch, in TensorFlow
            operations.
        first_step: the step of the first batch.
        workers: number of batches loaded in parallel.
        steps_per_call: if above 1, batches are stacked into blocks of this size; the first block
            contains ``first_step``.
        by_example: ``load`` loads each example on its own, and need not load other workers'.
        cut: leave out other workers' rows, the first axis; otherwise ``load`` does.
        recover: called with (indices, seeds) of a batch that failed to load; returns the batch
            with its damaged examples replaced, or raises FathomError. Without it, failure is final.
    """

    def __init__(
        self,
        order: Sampler,
        load: LoadBatch,
        first_step: int = 0,
        workers: int = 1,
        recover: LoadBatch | None = None,
        steps_per_call: int = 1,
        by_example: bool = False,
        cut: bool = True,
    ) -> None:
        rows = replicas.rows_of_worker(order.batch_size)
        if cut and rows != slice(0, order.batch_size):
            load = _only(rows, load, by_example)
            recover = recover and _only(rows, recover, by_example)
        self._order = order
        self._recover = recover
        options = tf.data.Options()
        options.threading.private_threadpool_size = workers
        options.deterministic = True
        options.autotune.enabled = False  # nothing to tune, and it can delay the end by 20 s
        first_step -= first_step % steps_per_call
        self._step, self._stride = first_step, steps_per_call

        # ``load`` is made of TensorFlow operations: converting its source by AutoGraph takes 0.4 s.
        @tf.autograph.experimental.do_not_convert
        def load_step(step: tf.Tensor) -> Tensors:
            return load(order.indices(step), order.seeds(step))

        # Without a device, TensorFlow makes an operation of each of the pipeline's constants.
        with CPU.placement():
            stream = tf.data.Dataset.range(first_step, tf.int64.max).map(load_step, workers)
            if steps_per_call > 1:
                stream = stream.batch(steps_per_call)
            self._iterator = iter(stream.prefetch(PREFETCHED).with_options(options))

    def __next__(self) -> Tensors:
        """Returns the next batch."""
        step = self._step
        self._step += self._stride
        try:
            return next(self._iterator)
        except tf.errors.OpError as error:
            if self._recover is None:
                raise FathomError(f"batch {step} cannot be loaded: {cause(error)}") from error
        position = tf.constant(step, tf.int64)
        return self._recover(self._order.indices(position), self._order.seeds(position))


def _only(rows: slice, load: LoadBatch, by_example: bool) -> LoadBatch:
    """Returns a function that loads some rows of a batch."""
    if by_example:
        return lambda indices, seeds: load(indices[rows], seeds[rows])
    return lambda indices, seeds: tuple(tensor[rows] for tensor in load(indices, seeds))
