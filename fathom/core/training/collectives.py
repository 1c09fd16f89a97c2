"""The sums of gradients over the replicas of a strategy, with their bytes and their time."""

import statistics
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.replicas import Gradient
from fathom.core.training.strategies import Strategy
from fathom.options import Execution
from fathom.results import distribution
from fathom.results.distribution import Distribution, Link, ring_bytes

_LINK_BYTES = 2**22  # of the sum that measures the bandwidth
_LINK_ROUNDS = 7


class Collectives:
    """Sums a step's loss and gradients over the replicas, and times it in each of them.

    The time of a replica is that from the last of its own gradients to the last sum: what the step
    does not hide behind the backward pass. It is the time of the transfers and, for a replica that
    was early, of waiting for the slowest one. It travels with the loss of the next step, so that
    every replica knows all times without a further collective.

    Created in the scope of the strategy, with a copy of the variables for each replica.

    Args:
        strategy: of the workers or devices.
        execution: names it.
        statistics: what batch normalization uses; None: there is none.
    """

    def __init__(
        self,
        strategy: Strategy,
        execution: Execution,
        statistics: distribution.Statistics | None,
    ) -> None:
        self._strategy, self._statistics = strategy, statistics
        self._name, self._engine = execution.strategy, execution.collectives
        self._dtype = tf.as_dtype(execution.reduce_dtype)
        self._replicas, self._workers = strategy.num_replicas_in_sync, replicas.worker()[1]
        self._link: Link | None = None
        self._gradient_bytes = self._row_bytes = 0  # of the traced step; rows are of embeddings
        self._seconds: list[list[float]] = [[], []]
        self._left_out = tf.Variable(0, trainable=False, dtype=tf.int64, name="left_out")
        self._counted = tf.Variable(0, trainable=False, dtype=tf.int64, name="counted")
        self._last = tf.Variable(0.0, trainable=False, dtype=tf.float32, name="last_seconds")
        sums = tf.zeros([2, self._replicas], tf.float64)
        self._sums = tf.Variable(sums, trainable=False, name="collective_seconds")
        self._asked = tf.Variable(0.0, trainable=False, name="asked_to_stop")
        self._stops = tf.Variable(0.0, trainable=False, name="stops")  # the sum of all

    def measure_link(self) -> None:
        """Measures the connection of the workers, if there are several; all have to call it.

        It times sums over the workers: of one number, and of 4 MiB.
        """
        if self._workers > 1:
            latency = _seconds(self._strategy, 1)
            large = _seconds(self._strategy, _LINK_BYTES // 4)
            transfer = max(large - latency, 1e-9)  # the clock's resolution
            rate = ring_bytes(_LINK_BYTES, self._workers) / transfer
            self._link = Link(bytes_per_second=rate, latency_seconds=latency)

    def begin(self, warmup: int) -> None:
        """Starts a run, whose first steps do not count."""
        self._seconds = [[], []]
        self._left_out.assign(warmup + 1)  # a step knows the times of the one before it
        for variable in (self._counted, self._sums, self._asked, self._stops):
            variable.assign(tf.zeros_like(variable))

    def stop(self, asked: bool) -> bool:
        """Returns whether all replicas stop here; tells the others, with the next step.

        Args:
            asked: this process was asked to stop.
        """
        if asked:
            self._asked.assign(1)
        return bool(self._stops.numpy())

    def end(self) -> None:
        """Reads the times of the run; not called where a worker was lost."""
        if counted := int(self._counted.numpy()):
            self._seconds = (self._sums.numpy() / counted).tolist()

    def record(self, steps: Sequence[float]) -> Distribution:
        """Returns the record of the run.

        Args:
            steps: seconds of each step after the warm-up.
        """
        n, rows = self._workers, self._row_bytes
        ring = ring_bytes(self._gradient_bytes - rows, n) + (n - 1) * rows
        seconds, waiting = self._seconds
        own = seconds[: self._replicas // n]  # the others' steps begin and end at other times
        timed = steps[: int(self._counted.numpy())]
        return Distribution(
            strategy=self._name,
            collectives=self._engine,
            reduce_dtype=self._dtype.name,
            workers=n,
            replicas=self._replicas,
            batch_statistics=self._statistics,
            gradient_bytes=self._gradient_bytes,
            sent_bytes=ring if n > 1 else None,
            link=self._link,
            collective_seconds=seconds,
            waiting_seconds=waiting,
            collective_share=float(np.mean(own) / np.mean(timed)) if own else None,
        )

    def total(self, loss: tf.Tensor, gradients: Sequence[Gradient]) -> list[Gradient]:
        """Returns the sums of the loss and the gradients over all replicas."""
        dtypes = [each.dtype for each in gradients]
        gradients = [tf.cast(each, self._dtype) for each in gradients]
        self._note_bytes(gradients)
        own = tf.one_hot(replicas.number(), self._replicas) * self._last.read_value()
        with tf.control_dependencies([loss, *gradients]):
            begun = tf.timestamp()
        with_times = tf.concat([loss[None], self._asked.read_value()[None], own], 0)
        summed, *gradients = replicas.total([with_times, *gradients])
        with tf.control_dependencies([summed, *gradients]):
            ended = tf.timestamp()
        replicas.put(self._stops, summed[1])
        self._count_times(tf.cast(summed[2:], tf.float64))
        replicas.put(self._last, ended - begun)
        return [summed[0], *map(tf.cast, gradients, dtypes)]

    def _count_times(self, seconds: tf.Tensor) -> None:
        """Adds the times of all replicas' last step, unless they are left out."""
        counts = replicas.add(self._left_out, -1) < 0
        waits = seconds - tf.reduce_min(seconds)  # the last one does not wait
        replicas.add(self._counted, tf.cast(counts, tf.int64))
        replicas.add(self._sums, tf.where(counts, tf.stack([seconds, waits]), 0))

    def _note_bytes(self, gradients: Sequence[Gradient]) -> None:
        rows = [each for each in gradients if isinstance(each, tf.IndexedSlices)]
        self._row_bytes = sum(_size(each.values) + _size(each.indices) for each in rows)
        dense = sum(_size(each) for each in gradients if not isinstance(each, tf.IndexedSlices))
        self._gradient_bytes = dense + self._row_bytes


def _size(tensor: tf.Tensor) -> int:
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size


def _seconds(strategy: Strategy, values: int) -> float:
    """Returns the median time of a sum of float32 values; the first one, which prepares, apart."""

    @tf.function(autograph=False)
    def together() -> tf.Tensor:
        sums = strategy.run(lambda: replicas.total([tf.ones([values])])[0][0])
        return strategy.experimental_local_results(sums)[0]

    def once() -> float:
        started = time.perf_counter()
        np.asarray(together())
        return time.perf_counter() - started

    once()
    return statistics.median(once() for _ in range(_LINK_ROUNDS))
