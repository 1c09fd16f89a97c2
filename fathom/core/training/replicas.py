"""Synchronous data parallelism: replicas compute parts of a batch, and gradients are summed.

The functions are called within a replica's step; outside a ``tf.distribute`` strategy there is one
replica, whose part is everything. The microbatches of a step are replicas, too, that share the
variables and whose gradients one tape sums: they have neither ``total`` nor ``moments``.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


@dataclass(frozen=True)
class Microbatch:
    """A part of a step's batch, whose operations wait for none of the other parts'.

    Attributes:
        number: from 0.
        count: number of microbatches.
        denominator: what the loss of the whole batch is divided by, as of ``weighted``.
    """

    number: int
    count: int
    denominator: tf.Tensor | float | None


_microbatch: ContextVar[Microbatch | None] = ContextVar("microbatch", default=None)


@contextlib.contextmanager
def computing(microbatch: Microbatch) -> Iterator[None]:
    """Makes what is traced in the block the computation of a microbatch."""
    token = _microbatch.set(microbatch)
    try:
        yield
    finally:
        _microbatch.reset(token)


def count() -> int:
    """Returns the number of replicas that take part in the step being traced."""
    if microbatch := _microbatch.get():
        return microbatch.count
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def rows_of_worker(batch_size: int) -> slice:
    """Returns the rows of a batch that the replicas of this process compute.

    All rows outside the scope of a strategy, and with that of one process.
    """
    resolver = tf.distribute.get_strategy().cluster_resolver
    if resolver is None:
        return slice(0, batch_size)
    size = batch_size // resolver.cluster_spec().num_tasks("worker")
    return slice(resolver.task_id * size, (resolver.task_id + 1) * size)


def part(tensor: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """Returns this replica's part of a tensor of the whole batch.

    Args:
        tensor: whose size along the axis is a multiple of the number of replicas.
        axis: the batch's.
    """
    if count() == 1:
        return tensor
    if microbatch := _microbatch.get():
        return tf.split(tensor, microbatch.count, axis)[microbatch.number]
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    size = tf.shape(tensor)[axis] // count()
    found = tf.gather(tensor, number * size + tf.range(size), axis=axis)
    shape = tensor.shape.as_list()
    shape[axis] = shape[axis] and shape[axis] // count()
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
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, list(values))
