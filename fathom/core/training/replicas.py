"""Synchronous data parallelism: replicas compute parts of a batch, and gradients are summed.

The functions are called within a replica's step; outside a strategy, TensorFlow's or ``Workers``,
there is one replica, whose part is everything. The microbatches of a step are replicas, too, that
share the variables and whose gradients one tape sums: they have neither ``total`` nor ``moments``.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import tensorflow as tf

T = TypeVar("T")
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


@dataclass(frozen=True)
class Microbatch:
    """A part of a step's batch, whose operations wait for none of the other parts'."""

    number: int  # from 0
    count: int  # of microbatches
    denominator: tf.Tensor | float | None  # of the whole batch's loss, as of ``weighted``


class Workers(Protocol):
    """A strategy that is not TensorFlow's: workers of one replica each."""

    index: int  # of this worker
    num_replicas_in_sync: int  # number of workers

    def sums(self, values: Sequence[Gradient]) -> list[Gradient]:
        """Returns the sums of values over all workers."""

    def exchange(self, rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sends rows to other workers, and returns theirs: see ``replicas.exchange``."""


_microbatch: ContextVar[Microbatch | None] = ContextVar("microbatch", default=None)
_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)  # in their scope
_in_step: ContextVar[bool] = ContextVar("in_step", default=False)  # of them


@contextlib.contextmanager
def _within(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def scope_of(workers: Workers, in_step: bool) -> Iterator[None]:
    """Makes the block the scope of workers' strategy, or the step of their replicas."""
    with _within(_workers, workers), _within(_in_step, in_step):
        yield


def computing(microbatch: Microbatch) -> AbstractContextManager[None]:
    """Makes what is traced in the block the computation of a microbatch."""
    return _within(_microbatch, microbatch)


def count() -> int:
    """Returns the number of replicas that take part in the step being traced."""
    if microbatch := _microbatch.get():
        return microbatch.count
    if workers := _workers.get():
        return workers.num_replicas_in_sync if _in_step.get() else 1
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def number() -> int | tf.Tensor:
    """Returns the number of the replica whose step is being traced, from 0."""
    if microbatch := _microbatch.get():
        return microbatch.number
    if workers := _workers.get():
        return workers.index
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def worker() -> tuple[int, int]:
    """Returns the number of this process among the workers of the scope's strategy, and theirs."""
    if workers := _workers.get():
        return workers.index, workers.num_replicas_in_sync
    resolver = tf.distribute.get_strategy().cluster_resolver
    return (resolver.task_id, resolver.cluster_spec().num_tasks("worker")) if resolver else (0, 1)


def rows_of_worker(batch_size: int) -> slice:
    """Returns the rows of a batch that the replicas of this process compute.

    All rows outside the scope of a strategy, and with that of one process.
    """
    index, workers = worker()
    size = batch_size // workers
    return slice(index * size, (index + 1) * size)


def part(tensor: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """Returns this replica's part of a tensor of the whole batch.

    Args:
        tensor: whose size along the axis is a multiple of the number of replicas.
        axis: the batch's.
    """
    return _part(tensor, axis, number(), count()) if count() > 1 else tensor


def part_of_batch(tensor: tf.Tensor) -> tf.Tensor:
    """Returns this replica's part of a tensor of the batch, which has the worker's rows alone.

    It is cut where the batch is: a GPU receives its own part.
    """
    if _microbatch.get():
        return part(tensor)
    local = count() // worker()[1] if count() > 1 else 1
    if local == 1:
        return tensor
    with tf.device("/cpu:0"):
        return _part(tensor, 0, number() % local, local)


def _part(tensor: tf.Tensor, axis: int, number: int | tf.Tensor, count: int) -> tf.Tensor:
    if isinstance(number, int):
        return tf.split(tensor, count, axis)[number]
    size = tf.shape(tensor)[axis] // count
    found = tf.gather(tensor, number * size + tf.range(size), axis=axis)
    shape = tensor.shape.as_list()
    shape[axis] = shape[axis] and shape[axis] // count
    return tf.ensure_shape(found, shape)


def whole_shape(shape: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """Returns the shape for the whole batch of a tensor of one replica's part."""
    if count() == 1:
        return shape
    sizes = tf.unstack(tf.convert_to_tensor(shape, tf.int32))
    sizes[axis] *= count()
    return tf.stack(sizes)


def weighted(loss: tf.Tensor, denominator: tf.Tensor | float | None) -> tf.Tensor:
    """Returns a replica's term of the loss of the whole batch, which is the sum of all terms.

    Args:
        loss: of the replica's part, float32.
        denominator: what the loss was divided by; a number: it is equal for all replicas; None: the
            loss is a sum.
    """
    if count() == 1 or denominator is None:
        return loss
    if isinstance(denominator, float):
        return loss / count()
    microbatch = _microbatch.get()
    whole = microbatch.denominator if microbatch else total([denominator])[0]
    return loss * (denominator / whole)


def add(variable: tf.Variable, value: tf.Tensor | int) -> tf.Tensor:
    """Adds to a variable, or to a replica's copy of it, in the graph; returns the new value."""
    tf.raw_ops.AssignAddVariableOp(
        resource=variable.handle, value=tf.convert_to_tensor(value, variable.dtype)
    )
    return variable.read_value()


def put(variable: tf.Variable, value: tf.Tensor) -> None:
    """Sets a variable, or a replica's copy of it, in the graph."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.cast(value, variable.dtype))


def moments(values: tf.Tensor, axes: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance of the whole batch, which have gradients.

    Args:
        values: of a replica's part, float32.
        axes: over which they are computed, with the batch's.
    """
    mean, variance = tf.nn.moments(values, axes)
    summed = total([tf.stack([mean, variance, mean * mean])])[0]
    mean, within, squares = tf.unstack(summed / count())
    return mean, within + (squares - mean * mean)  # of the parts, and of their means


def total(values: Sequence[Gradient]) -> list[Gradient]:
    """Returns the sums of values over all replicas, which each receives."""
    if count() == 1:
        return list(values)
    if workers := _workers.get():
        return workers.sums(values)
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, list(values))


def exchange(rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sends each replica rows, and returns what all send to this one (all-to-all).

    For workers that are not TensorFlow's, whose strategies have no such collective.

    Args:
        rows: [rows, width]; those for the first replica come first. They have gradients, which go
            back the same way.
        counts: int32 [replicas, groups]: rows of each group that a replica is sent.

    Returns:
        rows, those of the first replica first, and their counts, int32 [replicas, groups].
    """
    workers = _workers.get()
    return workers.exchange(rows, counts) if workers and count() > 1 else (rows, counts)
