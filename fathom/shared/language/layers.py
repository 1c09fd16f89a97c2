"""Layers of decoders. Matrix products are of rank 2: all tokens are rows of one matrix."""

import abc
from collections.abc import Callable
from typing import Protocol

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, Random, add_bias

STDDEV = 0.02  # of all weights (Radford et al. 2018, section 4.1)


class TokenLayer(Layer):
    """A layer whose work is counted by token."""

    @abc.abstractmethod
    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for tokens that attend to as many keys each."""


class Table(Protocol):
    """An embedding: ``table`` has a row for each token, [vocabulary, width]."""

    table: keras.Variable


class TiedLogits(TokenLayer):
    """The product with the embeddings of all tokens (Press and Wolf 2017).

    Args:
        embedding: whose table it reads.
        time: positions of a sequence, for the count of work.
    """

    def __init__(self, embedding: Table, time: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        # Not tracked by Keras: its weights are not this layer's.
        object.__setattr__(self, "_embedding", embedding)
        self.macs = self.macs_of(time, time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens."""
        vocabulary, width = self._embedding.table.shape
        return tokens * vocabulary * width

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns logits [batch, time, vocabulary] of [batch, time, width]."""
        table = tf.cast(tf.convert_to_tensor(self._embedding.table.value), x.dtype)
        return linear(x, table, transposed=True)


def weight(
    layer: keras.layers.Layer,
    name: str,
    shape: tuple[int, ...],
    random: Random,
    stddev: float = STDDEV,
) -> keras.Variable:
    """Adds normally distributed weights to a layer."""
    initializer = keras.initializers.RandomNormal(0, stddev, random.new_seed())
    return layer.add_weight(shape, initializer=initializer, name=name)


def linear(
    x: tf.Tensor, kernel: tf.Tensor, bias: keras.Variable | None = None, transposed: bool = False
) -> tf.Tensor:
    """Returns x W + b, [batch, ..., outputs]; W is [inputs, outputs], or that transposed."""
    *places, width = x.shape[1:]
    rows = tf.reshape(x, [-1, width])
    product = tf.matmul(rows, tf.cast(kernel, x.dtype), transpose_b=transposed)
    if bias is not None:
        product = add_bias(product, bias)
    return tf.reshape(product, [-1, *places, product.shape[1]])


def swiglu(x: tf.Tensor) -> tf.Tensor:
    """Returns silu(a) b (Shazeer 2020) for a and b side by side, [..., 2 units]."""
    gates, values = tf.split(x, 2, -1)
    return tf.nn.silu(gates) * values


def look_up(table: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table; its gradient is dense, like that of the product with the table."""

    @tf.custom_gradient
    def look_up(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(upstream, rows, table.shape[0])

        return tf.gather(table, rows), gradient

    return look_up(table)
