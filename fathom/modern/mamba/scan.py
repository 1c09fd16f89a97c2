"""The selective scan (Gu and Dao 2023, section 3): a linear recurrence whose factors are data.

    h_t = exp(s_t A) h_(t-1) + b_t u_t,    y_t = sum over n of c_t h_t

for each of E channels with N states; u_t is the input times its step size s_t. A sequence is
divided into chunks that are scanned side by side: a first scan from zero tells what each chunk adds
to the state, these follow from one chunk to the next, and a second scan begins with the states so
found. One chunk needs no first scan.

No tensor has a state for every position but one, during the gradient, which computes the states
again, as in section 3.3.2 of the paper.
"""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

Gradients = tuple[tf.Tensor, ...]


def selective_scan(
    steps: tf.Tensor,
    u: tf.Tensor,
    b: tf.Tensor,
    c: tf.Tensor,
    a: tf.Tensor,
    begin: tf.Tensor,
    chunks: int = 1,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the results y, [batch, time, E], and the last states, [batch, N, E].

    Args:
        steps: step sizes s, [batch, time, E], at least 0.
        u: inputs times their step sizes, [batch, time, E].
        b: of inputs to states, [batch, time, N].
        c: of states to results, [batch, time, N].
        a: rates A, [N, E], negative.
        begin: states before the first position, [batch, N, E].
        chunks: scanned side by side.
    """
    if u.shape[1] == 1:  # decoding
        h = tf.exp(steps * a) * begin + u * tf.linalg.matrix_transpose(b)
        return tf.reduce_sum(h * tf.linalg.matrix_transpose(c), 1, keepdims=True), h

    @tf.custom_gradient
    def scan(
        *tensors: tf.Tensor,
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], Gradients]]:
        chunked = _Chunks(tensors, chunks)
        return chunked.results(), chunked.gradients

    return scan(steps, u, b, c, a, begin)


class _Chunks:
    """A sequence in chunks: the first axis of its tensors is the position in a chunk.

    The tensors are the first arguments of ``selective_scan``, in its order.
    """

    def __init__(self, tensors: tuple[tf.Tensor, ...], chunks: int) -> None:
        steps, u, b, c, a, begin = tensors
        self._time, self._a, self._chunks = steps.shape[1], a, chunks
        self._length = -(-self._time // chunks)
        self._steps, self._u, self._b, self._c = map(self._fold, (steps, u, b, c))
        self._begins, self._last = begin, None
        if chunks > 1:
            (ends,) = self._loop(
                lambda i, h: (self._next(i, h),), tf.zeros_like(tf.repeat(begin, chunks, 0))
            )
            self._begins, self._last = self._carried(begin, ends, range(chunks))

    def results(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what ``selective_scan`` does."""

        def step(i: tf.Tensor, h: tf.Tensor, y: tf.TensorArray) -> tuple:
            h = self._next(i, h)
            return h, y.write(i, tf.reduce_sum(h * self._c[i][..., None], 1))

        h, y = self._loop(step, self._begins, self._array(self._u))
        return self._unfold(y.stack()), h if self._last is None else self._last

    def gradients(self, upstream: tf.Tensor, last: tf.Tensor) -> Gradients:
        """Returns the gradients of the arguments, given those of the results."""
        dy = self._fold(upstream)

        def forward(i: tf.Tensor, h: tf.Tensor, kept: tf.TensorArray, dc: tf.TensorArray) -> tuple:
            decayed = self._decay(i) * h
            h = decayed + self._added(i)
            of_c = tf.reduce_sum(h * dy[i][:, None], 2)
            return h, kept.write(i, decayed), dc.write(i, of_c)

        states = tf.TensorArray(tf.float32, self._length, element_shape=self._begins.shape)
        _, kept, dc = self._loop(forward, self._begins, states, self._array(self._c))
        decayed = kept.stack()

        def into(i: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
            return g + dy[i][:, None] * self._c[i][..., None]

        def backward(
            i: tf.Tensor, g: tf.Tensor, da: tf.Tensor, ds: tf.TensorArray, *rest: tf.TensorArray
        ) -> tuple:
            i, (du, db) = self._length - 1 - i, rest
            g = into(i, g)  # of the states at this position
            of_rate = g * decayed[i]
            da += tf.reduce_sum(of_rate * self._steps[i][:, None], 0)
            ds = ds.write(i, tf.reduce_sum(of_rate * self._a, 1))
            du = du.write(i, tf.reduce_sum(g * self._b[i][..., None], 1))
            db = db.write(i, tf.reduce_sum(g * self._u[i][:, None], 2))
            return g * self._decay(i), da, ds, du, db

        ends = last
        if self._chunks > 1:

            def add(i: tf.Tensor, g: tf.Tensor) -> tuple:
                i = self._length - 1 - i
                return (into(i, g) * self._decay(i),)

            (added,) = self._loop(add, tf.zeros_like(self._begins))
            ends, _ = self._carried(last, added, range(self._chunks)[::-1])
        arrays = map(self._array, (self._steps, self._u, self._b))
        g, da, *found = self._loop(backward, ends, tf.zeros_like(self._a), *arrays)
        ds, du, db, dc = (self._unfold(each.stack()) for each in (*found, dc))
        return ds, du, db, dc, da, self._by_chunk(g)[:, 0]

    def _decay(self, i: tf.Tensor) -> tf.Tensor:
        return tf.exp(self._steps[i][:, None] * self._a)

    def _added(self, i: tf.Tensor) -> tf.Tensor:
        return self._u[i][:, None] * self._b[i][..., None]

    def _next(self, i: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
        return self._decay(i) * h + self._added(i)

    def _loop(self, body: Callable[..., tuple], *state: Any) -> tuple:
        """Returns what a body makes of a state, from the first position of all chunks on."""
        _, *state = tf.while_loop(
            lambda i, *_: i < self._length, lambda i, *each: (i + 1, *body(i, *each)), (0, *state)
        )
        return tuple(state)

    def _carried(
        self, first: tf.Tensor, added: tf.Tensor, order: Iterable[int]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the states that chunks begin with in an order, and those after the last."""
        decays = self._by_chunk(tf.exp(tf.reduce_sum(self._steps, 0)[:, None] * self._a))
        added, state = self._by_chunk(added), first
        begins = {}
        for k in order:
            begins[k] = state
            state = decays[:, k] * state + added[:, k]
        stacked = tf.stack([begins[k] for k in sorted(begins)], 1)
        return tf.reshape(stacked, [-1, *stacked.shape[2:]]), state

    def _by_chunk(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, chunks, N, E] of [batch * chunks, N, E]."""
        return tf.reshape(x, [-1, self._chunks, *x.shape[1:]])

    def _array(self, like: tf.Tensor) -> tf.TensorArray:
        return tf.TensorArray(tf.float32, self._length, element_shape=like.shape[1:])

    def _fold(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [length, batch * chunks, K] of [batch, time, K]; zeros are added at the end."""
        more = self._length * self._chunks - self._time
        padded = tf.pad(x, ((0, 0), (0, more), (0, 0))) if more else x
        return tf.transpose(tf.reshape(padded, [-1, self._length, x.shape[2]]), (1, 0, 2))

    def _unfold(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(tf.transpose(x, (1, 0, 2)), [-1, self._length * self._chunks, x.shape[2]])
        return rows[:, : self._time]
