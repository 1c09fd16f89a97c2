"""The layers of the transformer (Vaswani et al. 2017, section 3)."""

import math
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.layers import LayerOptions, PRNGKey
from fathom.modern import attention
from fathom.modern.transformer.formulas import dropped
from fathom.translation.symbols import GO, PAD

_EPSILON = 1e-5  # of layer normalization


class Sizes(NamedTuple):
    """What the layers of a network have in common."""

    width: int
    heads: int
    hidden_units: int
    dropout: float


class Random(NamedTuple):
    """Where a layer's random numbers come from."""

    new_seed: Callable[[], int]  # of initial weights
    new_noise: Callable[[], PRNGKey]  # of dropout


class Embedding(keras.layers.Layer):
    """One matrix for both embeddings and the softmax (section 3.4), and the positions (3.5).

    Args:
        vocabulary: rows of the matrix.
        width: its columns.
        seed: of the initial values, N(0, 1 / width).
    """

    def __init__(
        self, vocabulary: int, width: int, seed: int, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._shape, self._seed = (vocabulary, width), seed

    def build(self, shape: tuple | None = None) -> None:
        """Creates the matrix."""
        self.matrix = self.add_weight(
            shape=self._shape,
            initializer=keras.initializers.RandomNormal(0, self._shape[1] ** -0.5, self._seed),
            name="matrix",
            autocast=False,  # positions are added to it in float32
        )

    def call(self, x: tf.Tensor, position: tf.Tensor | int = 0) -> tf.Tensor:
        """Returns words int32 [batch, time], the first of them at a position: [..., width]."""
        width = self.matrix.shape[1]
        words = tf.gather(self.matrix.value, x) * math.sqrt(width)
        places = sinusoids(tf.range(x.shape[1] or tf.shape(x)[1]) + position, width)
        return tf.cast(words + places, self.compute_dtype)

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the logits of all words for outputs [n, width]: float32 [n, vocabulary]."""
        products = tf.matmul(x, tf.cast(self.matrix.value, x.dtype), transpose_b=True)
        return tf.cast(products, tf.float32)

    def logits_to_say(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``logits`` by which neither padding nor ``<go>`` is ever chosen."""
        logits = self.logits(x)
        never = np.isin(np.arange(logits.shape[1]), (PAD, GO))
        return tf.where(never, -1e9, logits)


def sinusoids(positions: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the encoding of positions int32 [time]: float32 [time, width] (section 3.5)."""
    rates = 10_000.0 ** -(np.arange(0, width, 2) / width)
    angles = tf.cast(positions, tf.float32)[:, None] * tf.constant(rates, tf.float32)
    both = tf.stack([tf.sin(angles), tf.cos(angles)], 2)
    return tf.reshape(both, [-1, 2 * len(rates)])[:, :width]


class MostProbable(keras.layers.Layer):
    """The most probable word after each given one.

    Args:
        embedding: of the network, with the softmax.
    """

    def __init__(self, embedding: Embedding, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._logits = embedding.logits_to_say  # its weights are not this layer's

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns int32 [batch, target] for the decoder's outputs [batch, target, width]."""
        logits = self._logits(tf.reshape(x, [-1, x.shape[2]]))
        return tf.reshape(tf.argmax(logits, 1, tf.int32), tf.shape(x)[:2])


class Linear(keras.layers.Layer):
    """A product with a matrix, for all words of a batch at once.

    Args:
        width: of the inputs.
        units: of the outputs.
        seed: of Glorot's uniform initial values, for each of ``parts`` apart.
        parts: matrices side by side.
        bias: add one.
    """

    def __init__(
        self,
        width: int,
        units: int,
        seed: int,
        parts: int = 1,
        bias: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._shape, self._has_bias = (width, parts * units), bias
        limit = math.sqrt(6 / (width + units))
        self._initializer = keras.initializers.RandomUniform(-limit, limit, seed)

    def build(self, shape: tuple | None = None) -> None:
        """Creates the matrix and the bias."""
        self.kernel = self.add_weight(
            shape=self._shape, initializer=self._initializer, name="kernel"
        )
        if self._has_bias:
            self.bias = self.add_weight(shape=self._shape[1:], initializer="zeros", name="bias")

    def call(self, x: tf.Tensor, columns: slice = slice(None)) -> tf.Tensor:
        """Returns the product of [batch, time, width] with some columns of the matrix."""
        kernel = tf.cast(self.kernel.value, x.dtype)
        if columns != slice(None):
            kernel = kernel[:, columns]
        batch, time = (x.shape[i] or tf.shape(x)[i] for i in (0, 1))
        product = tf.matmul(tf.reshape(x, [-1, kernel.shape[0]]), kernel)
        if self._has_bias:
            product = tf.nn.bias_add(product, tf.cast(self.bias.value, x.dtype))
        return tf.reshape(product, [batch, time, kernel.shape[1]])


class AddAndNormalize(keras.layers.Layer):
    """LayerNorm(x + Dropout(y)) for a sublayer's input and output (sections 3.1 and 5.4).

    Args:
        width: of both.
        dropout: probability that an output's value is set to zero in training.
        noise: PRNG key of the dropped values.
    """

    def __init__(
        self, width: int, dropout: float, noise: PRNGKey, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._width, self._dropout, self._noise = width, dropout, noise

    def build(self, shape: tuple | None = None) -> None:
        """Creates scale and offset."""
        self.scale, self.offset = (
            self.add_weight(shape=(self._width,), initializer=value, name=name, autocast=False)
            for name, value in (("scale", "ones"), ("offset", "zeros"))
        )

    def call(self, x: tf.Tensor, y: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns [batch, time, width]; computes in float32."""
        if training and self._dropout:
            y = dropped(y, self._dropout, self._noise.tensor())
        total = tf.cast(x + y, tf.float32)
        mean, variance = tf.nn.moments(total, -1, keepdims=True)
        normal = (total - mean) * tf.math.rsqrt(variance + _EPSILON)
        return tf.cast(normal * self.scale.value + self.offset.value, x.dtype)


class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2).

    The matrices of queries, keys and values of all heads are side by side in one.
    """

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._width, self._heads = sizes.width, sizes.heads
        width, new_seed = sizes.width, random.new_seed
        self.projections = Linear(width, width, new_seed(), parts=3, name="projections")
        self.output_projection = Linear(width, width, new_seed(), name="output")

    def build(self, shape: tuple | None = None) -> None:
        """Creates the weights of all parts."""
        _build_parts(self)

    def call(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns self-attention of [batch, time, width]."""
        queries, keys, values = self.projected(x)
        return self.attend(queries, keys, values, mask)

    def projected(self, x: tf.Tensor) -> list[tf.Tensor]:
        """Returns queries, keys, values of [batch, time, width]: [batch, heads, time, size]."""
        return tf.split(self._split(x, slice(None)), 3, 1)

    def _split(self, x: tf.Tensor, columns: slice) -> tf.Tensor:
        """Returns [batch, heads of the columns, time, width / heads]."""
        product = self.projections(x, columns=columns)
        return attention.split_heads(product, product.shape[2] * self._heads // self._width)

    def queries(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the queries of [batch, time, width]: [batch, heads, time, width / heads]."""
        return self._split(x, slice(self._width))

    def keys_and_values(self, x: tf.Tensor) -> list[tf.Tensor]:
        """Returns keys and values of [batch, time, width]: [batch, heads, time, width / heads]."""
        return tf.split(self._split(x, slice(self._width, None)), 2, 1)

    def attend(
        self, queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the sums of the values, projected: [batch, queries, width]."""
        weights = attention.attention_weights(queries, keys, mask)
        return self.output_projection(attention.merge_heads(tf.matmul(weights, values)))

    def macs_of(self, queries: int, keys: int, projected: int | None = None) -> int:
        """Returns the multiply-accumulates of a sentence.

        Args:
            queries: words that attend, each to all keys, hidden or not.
            keys: words that are attended to.
            projected: those whose keys and values are computed; None: all.
        """
        projected = keys if projected is None else projected
        return 2 * self._width * (self._width * (queries + projected) + queries * keys)


class FeedForward(keras.layers.Layer):
    """max(0, x W1 + b1) W2 + b2 (section 3.3)."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        width, units = self._width, self._units = sizes.width, sizes.hidden_units
        self.first = Linear(width, units, random.new_seed(), bias=True, name="first")
        self.second = Linear(units, width, random.new_seed(), bias=True, name="second")

    def build(self, shape: tuple | None = None) -> None:
        """Creates the weights of all parts."""
        _build_parts(self)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width]."""
        return self.second(tf.nn.relu(self.first(x)))

    def macs_of(self, words: int) -> int:
        """Returns the multiply-accumulates of a sentence."""
        return 2 * self._width * self._units * words


class EncoderLayer(keras.layers.Layer):
    """Self-attention and a feed-forward network."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.attention = MultiHeadAttention(sizes, random, name="attention")
        self.attended = _residual(sizes, random, "attended")
        self.feed_forward = FeedForward(sizes, random, name="feed_forward")
        self.output_norm = _residual(sizes, random, "fed_forward")

    def build(self, shape: tuple | None = None) -> None:
        """Creates the weights of all parts."""
        _build_parts(self)

    def call(self, x: tf.Tensor, mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns [batch, source, width]; the mask hides padding."""
        x = self.attended(x, self.attention(x, mask), training=training)
        return self.output_norm(x, self.feed_forward(x), training=training)

    def macs_of(self, source: int) -> int:
        """Returns the multiply-accumulates of a sentence."""
        return self.attention.macs_of(source, source) + self.feed_forward.macs_of(source)


class DecoderLayer(keras.layers.Layer):
    """Masked self-attention, attention to the source, and a feed-forward network."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.attention = MultiHeadAttention(sizes, random, name="attention")
        self.attended = _residual(sizes, random, "attended")
        self.source_attention = MultiHeadAttention(sizes, random, name="source_attention")
        self.source_attended = _residual(sizes, random, "source_attended")
        self.feed_forward = FeedForward(sizes, random, name="feed_forward")
        self.output_norm = _residual(sizes, random, "fed_forward")

    def build(self, shape: tuple | None = None) -> None:
        """Creates the weights of all parts."""
        _build_parts(self)

    def call(
        self, x: tf.Tensor, source: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Returns [batch, target, width] for all words at once.

        Args:
            x: [batch, target, width].
            source: the encoder's output, [batch, source, width].
            mask: hides the source's padding.
            training: drop values.
        """
        time = x.shape[1] or tf.shape(x)[1]
        attended = self.attention(x, attention.causal_mask(time, time))
        x = self.attended(x, attended, training=training)
        return self._rest(x, self.source_attention.keys_and_values(source), mask, training)

    def step(
        self,
        x: tf.Tensor,
        cache: list[tf.Tensor],
        position: tf.Tensor,
        source: list[tf.Tensor],
        mask: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns what ``call`` gives for one more word of each hypothesis, and the next cache.

        Args:
            x: [hypotheses, 1, width].
            cache: keys and values of the words before, [hypotheses, heads, longest, width / heads].
            position: of the word, int32 scalar.
            source: keys and values, [batch, heads, source, width / heads]; each sentence has as
                many hypotheses.
            mask: hides the source's padding.
        """
        queries, *new = self.attention.projected(x)
        keys, values = (
            attention.write(old, one, position) for old, one in zip(cache, new, strict=True)
        )
        seen = tf.range(keys.shape[2]) <= position
        x = self.attended(x, self.attention.attend(queries, keys, values, seen))
        batch, width = tf.shape(source[0])[0], x.shape[2]
        # To the source, the hypotheses of a sentence are as many queries.
        x = self._rest(tf.reshape(x, [batch, -1, width]), source, mask)
        return tf.reshape(x, [-1, 1, width]), [keys, values]

    def _rest(
        self,
        x: tf.Tensor,
        source: list[tf.Tensor],
        mask: tf.Tensor,
        training: bool = False,
    ) -> tf.Tensor:
        """Applies what follows self-attention, given the source's keys and values."""
        queries = self.source_attention.queries(x)
        keys, values = source
        attended = self.source_attention.attend(queries, keys, values, mask)
        x = self.source_attended(x, attended, training=training)
        return self.output_norm(x, self.feed_forward(x), training=training)

    def macs_of(self, source: int, target: int) -> int:
        """Returns the multiply-accumulates of a sentence pair."""
        attended = self.attention.macs_of(target, target)
        attended += self.source_attention.macs_of(target, source)
        return attended + self.feed_forward.macs_of(target)

    def decoding_macs(self, source: int, steps: int, longest: int, hypotheses: int) -> int:
        """Returns the multiply-accumulates of a translation.

        Args:
            source: words of the sentence.
            steps: words of the translation.
            longest: places in the cache, which each step attends to, filled or not.
            hypotheses: decoded together.
        """
        words = hypotheses * steps
        attended = self.attention.macs_of(words, longest, projected=words)
        attended += self.source_attention.macs_of(words, source)
        return attended + self.feed_forward.macs_of(words)


def _residual(sizes: Sizes, random: Random, name: str) -> AddAndNormalize:
    return AddAndNormalize(sizes.width, sizes.dropout, random.new_noise(), name=name)


def _build_parts(layer: keras.layers.Layer) -> None:
    """Builds the layers that are a layer's attributes, under its name."""
    for part in vars(layer).values():
        if isinstance(part, keras.layers.Layer):
            part.build()
