"""Workers whose sums are gloo's, in place of TensorFlow's collectives, which go through gRPC.

gloo is the library for CPUs of PyTorch's ``torch.distributed``. Each worker is a TensorFlow of its
own; gloo's threads add gradients while the backward pass goes on.
"""

import atexit
import contextlib
import datetime
import ipaddress
import itertools
import os
import socket
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.rendezvous import split
from fathom.core.training.replicas import Gradient
from fathom.errors import FathomError, cause

_LONGEST_SUM = 3600  # seconds, with waiting for the slowest worker
_BUCKET_BYTES = 25 * 2**20  # of small gradients, which are summed together
_ALIGNED = 64  # bytes: TensorFlow copies arrays that begin elsewhere
_INTERFACE = "GLOO_SOCKET_IFNAME"


class Gloo:
    """A strategy of workers with one replica each, as ``tf.distribute.Strategy`` where needed.

    Args:
        workers: addresses, ``host:port``; the first one's port is gloo's, too.
        index: of this worker.
        limit: seconds that a worker waits for the others.

    Attributes:
        index: of this worker.
        num_replicas_in_sync: number of workers.

    Raises:
        FathomError: PyTorch is not installed, or the workers cannot connect.
    """

    def __init__(self, workers: Sequence[str], index: int, limit: float) -> None:
        try:
            import torch
            import torch.distributed
        except ImportError as error:
            raise FathomError(
                "--collectives gloo needs PyTorch: pip install 'fathom-workloads[gloo]'"
            ) from error
        self.index, self.num_replicas_in_sync = index, len(workers)
        self._torch, self._numbers = torch, itertools.count()
        self._begun: dict[int, tuple[Any, Any, list[slice]]] = {}
        self._last: weakref.WeakKeyDictionary[tf.Graph, tf.Tensor] = weakref.WeakKeyDictionary()
        torch.set_num_threads(1)  # it computes nothing here
        host, port = split(workers[0])
        if all(_is_loopback(split(each)[0]) for each in workers):
            os.environ.setdefault(_INTERFACE, "lo" if sys.platform == "linux" else "lo0")
        seconds = datetime.timedelta(seconds=limit)
        try:
            store = torch.distributed.TCPStore(host, port, len(workers), index == 0, seconds)
            torch.distributed.init_process_group(
                "gloo",
                store=store,
                rank=index,
                world_size=len(workers),
                timeout=datetime.timedelta(seconds=_LONGEST_SUM),
            )
        except RuntimeError as error:
            raise FathomError(f"gloo cannot connect the workers: {cause(error)}") from error
        atexit.register(torch.distributed.destroy_process_group)  # its threads may abort the end

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Variables and steps made in the block are a worker's."""
        with replicas.scope_of(self, in_step=False), tf.device("/cpu:0"):
            yield

    def run(self, function: Callable[..., tf.Tensor], args: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Runs a function as the step of this worker's replica."""
        with replicas.scope_of(self, in_step=True):
            return function(*args)

    def experimental_local_results(self, value: tf.Tensor) -> tuple[tf.Tensor]:
        """Returns what the replicas of this process have returned."""
        return (value,)

    def sums(self, values: Sequence[Gradient]) -> list[Gradient]:
        """Returns the sums of values over all workers, in the graph of a step."""

        @tf.custom_gradient
        def sums(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
            # Each tensor has a part in the losses of all workers.
            return self._sum(tensors), lambda *gradients: self._sum(gradients)

        dense = [value for value in values if not isinstance(value, tf.IndexedSlices)]
        summed = iter(sums(*dense) if dense else ())  # a list in, a list out, even of one
        return [
            self._gathered(value) if isinstance(value, tf.IndexedSlices) else next(summed)
            for value in values
        ]

    def exchange(self, rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sends rows to other workers, and returns theirs: see ``replicas.exchange``."""

        @tf.custom_gradient
        def exchanged(rows: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable]:
            sent = [_bits(rows), counts]
            found, theirs = self._in_turn(self._all_to_all, sent, [each.dtype for each in sent])
            found = tf.bitcast(found, rows.dtype)
            found.set_shape([None, rows.shape[1]])
            theirs.set_shape(counts.shape)
            return (found, theirs), lambda upstream, _: self.exchange(upstream, theirs)[0]

        return exchanged(rows)

    def _sum(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Begins the sums of all tensors, the last first as in a backward pass; then ends them.

        All workers have to begin them in the same order: that of tracing.
        """
        found: dict[int, tf.Tensor] = {}
        begun = [
            (bucket, self._in_turn(self._begin, [_bits(tensors[i]) for i in bucket], [tf.int64])[0])
            for bucket in _buckets(tensors)
        ]
        for bucket, number in begun:
            parts = [_bits(tensors[i]) for i in bucket]
            # Waits on the thread that may have to compute other gradients: only when all are there.
            with tf.control_dependencies([begun[-1][1]]):
                ended = tf.numpy_function(self._end, [number], [each.dtype for each in parts])
            for i, tensor in zip(bucket, ended, strict=True):
                found[i] = tf.reshape(tf.bitcast(tensor, tensors[i].dtype), tf.shape(tensors[i]))
                found[i].set_shape(tensors[i].shape)
        return [found[i] for i in range(len(tensors))]

    def _in_turn(
        self, function: Callable, tensors: Sequence[tf.Tensor], types: Sequence[tf.DType]
    ) -> list[tf.Tensor]:
        """Calls a function of arrays in the graph, after the one that was traced before it."""
        graph = tf.compat.v1.get_default_graph()
        before = [self._last[graph]] if graph in self._last else []
        with tf.control_dependencies(before):
            returned = tf.numpy_function(function, tensors, types)
        self._last[graph] = returned[0]
        return returned

    def _begin(self, *arrays: np.ndarray) -> np.ndarray:
        """Begins the sum of arrays of one type; returns its number."""
        kind = self._torch.from_numpy(np.empty(0, arrays[0].dtype)).dtype
        step = max(1, _ALIGNED // arrays[0].itemsize)
        places, length = [], 0
        for array in arrays:
            places.append(slice(length, length + array.size))
            length += -(-array.size // step) * step
        whole = self._torch.empty(length, dtype=kind)
        for array, place in zip(arrays, places, strict=True):
            whole.numpy()[place] = array.reshape(-1)
        number = next(self._numbers)
        work = self._torch.distributed.all_reduce(self._typed(whole), async_op=True)
        self._begun[number] = whole, work, places
        return np.int64(number)

    def _typed(self, bits: Any) -> Any:
        """Returns a view of a PyTorch tensor as what ``_bits`` was given."""
        is_bfloat16 = bits.dtype == self._torch.uint16
        return bits.view(self._torch.bfloat16) if is_bfloat16 else bits

    def _end(self, number: np.ndarray) -> list[np.ndarray]:
        whole, work, places = self._begun.pop(int(number))
        work.wait()
        return [whole.numpy()[place] for place in places]

    def _gathered(self, rows: tf.IndexedSlices) -> tf.IndexedSlices:
        """Returns the rows of all workers, in their order."""
        sent = [_bits(rows.values), rows.indices]
        values, indices = self._in_turn(self._gather, sent, [each.dtype for each in sent])
        values = tf.bitcast(values, rows.values.dtype)
        values.set_shape([None, *rows.values.shape[1:]])
        indices.set_shape([None])
        return tf.IndexedSlices(values, indices, rows.dense_shape)

    def _all_to_all(self, rows: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        exchange = self._torch.distributed.all_to_all_single
        own, sizes = (self._torch.from_numpy(each.copy()) for each in (rows, counts))
        theirs = self._torch.empty_like(sizes)
        exchange(theirs, sizes)
        sent, received = (each.sum(1).tolist() for each in (sizes, theirs))
        found = own.new_empty((sum(received), own.shape[1]))
        exchange(*map(self._typed, (found, own)), received, sent)
        return [found.numpy(), theirs.numpy()]

    def _gather(self, *arrays: np.ndarray) -> list[np.ndarray]:
        found = []
        for array in arrays:
            own = self._torch.from_numpy(array.copy())
            whole = own.new_empty((self.num_replicas_in_sync * own.shape[0], *own.shape[1:]))
            self._torch.distributed.all_gather_into_tensor(*map(self._typed, (whole, own)))
            found.append(whole.numpy())
        return found


def _bits(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor, in bfloat16 as integers: PyTorch takes no NumPy arrays of bfloat16."""
    return tf.bitcast(tensor, tf.uint16) if tensor.dtype == tf.bfloat16 else tensor


def _buckets(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """Returns the tensors that are summed together, by number: of one type, from the last on."""
    buckets: list[list[int]] = []
    room, kind = 0, None
    for i in reversed(range(len(tensors))):
        size = (tensors[i].shape.num_elements() or 0) * tensors[i].dtype.size
        if not buckets or tensors[i].dtype != kind or size > room:
            buckets.append([])
            room, kind = _BUCKET_BYTES, tensors[i].dtype
        buckets[-1].append(i)
        room -= size
    return buckets


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except (OSError, ValueError):
        return False
