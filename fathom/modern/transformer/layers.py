"""The layers of encoder and decoder (Vaswani et al. 2017, section 3)."""

import math
from typing import NamedTuple

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, PRNGKey, Random, add_bias, normalize
from fathom.modern.transformer.formulas import dropped
from fathom.shared import attention


class Sizes(NamedTuple):
    """What the layers of a network have in common."""

    width: int
    heads: int
    hidden_units: int
    dropout: float


class Linear(Layer):
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
        self._width, self._units, self._seed = width, units, seed
        self._parts, self._bias = parts, bias

    def build(self, shape: tuple | None = None) -> None:
        """Creates the matrix and the bias."""
        limit, columns = math.sqrt(6 / (self._width + self._units)), self._parts * self._units
        self.kernel = self.add_weight(
            shape=(self._width, columns),
            initializer=keras.initializers.RandomUniform(-limit, limit, self._seed),
            name="kernel",
        )
        if self._bias:
            self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")

    def call(self, x: tf.Tensor, columns: slice = slice(None)) -> tf.Tensor:
        """Returns the product of [batch, time, width] with some columns of the matrix."""
        kernel = tf.cast(self.kernel.value, x.dtype)
        if columns != slice(None):
            kernel = kernel[:, columns]
        batch, time = (x.shape[i] or tf.shape(x)[i] for i in (0, 1))
        product = tf.matmul(tf.reshape(x, [-1, kernel.shape[0]]), kernel)
        if self._bias:
            product = add_bias(product, tf.cast(self.bias.value, x.dtype))
        return tf.reshape(product, [batch, time, kernel.shape[1]])


class AddAndNormalize(Layer):
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
        return tf.cast(normalize(total, self.scale, self.offset), x.dtype)


class Composed(Layer):
    """A layer of several parts, its attributes, which are built with it."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._sizes, self._random = Sizes(*sizes), random

    def build(self, shape: tuple | None = None) -> None:
        """Creates the weights of all parts."""
        for part in vars(self).values():
            if isinstance(part, keras.layers.Layer):
                part.build()

    def _residual(self, name: str) -> AddAndNormalize:
        sizes, noise = self._sizes, self._random.new_noise()
        return AddAndNormalize(sizes.width, sizes.dropout, noise, name=name)


class MultiHeadAttention(Composed):
    """Multi-head attention (section 3.2.2).

    The matrices of queries, keys and values of all heads are side by side in one.
    """

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width, new_seed = self._sizes.width, random.new_seed
        self.projections = Linear(width, width, new_seed(), parts=3, name="projections")
        self.output_projection = Linear(width, width, new_seed(), name="output")

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
        return attention.split_heads(
            product, product.shape[2] * self._sizes.heads // self._sizes.width
        )

    def queries(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the queries of [batch, time, width]: [batch, heads, time, width / heads]."""
        return self._split(x, slice(self._sizes.width))

    def keys_and_values(self, x: tf.Tensor) -> attention.Cache:
        """Returns keys and values of [batch, time, width]: [batch, heads, time, width / heads]."""
        keys, values = tf.split(self._split(x, slice(self._sizes.width, None)), 2, 1)
        return keys, values

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
        projected, width = keys if projected is None else projected, self._sizes.width
        return 2 * width * (width * (queries + projected) + queries * keys)


class FeedForward(Composed):
    """max(0, x W1 + b1) W2 + b2 (section 3.3)."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width, units = self._sizes.width, self._sizes.hidden_units
        self.first = Linear(width, units, random.new_seed(), bias=True, name="first")
        self.second = Linear(units, width, random.new_seed(), bias=True, name="second")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width]."""
        return self.second(tf.nn.relu(self.first(x)))

    def macs_of(self, words: int) -> int:
        """Returns the multiply-accumulates of a sentence."""
        return 2 * self._sizes.width * self._sizes.hidden_units * words


class EncoderLayer(Composed):
    """Self-attention and a feed-forward network."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        self.attention = MultiHeadAttention(sizes, random, name="attention")
        self.attended = self._residual("attended")
        self.feed_forward = FeedForward(sizes, random, name="feed_forward")
        self.output_norm = self._residual("fed_forward")

    def call(self, x: tf.Tensor, mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns [batch, source, width]; the mask hides padding."""
        x = self.attended(x, self.attention(x, mask), training=training)
        return self.output_norm(x, self.feed_forward(x), training=training)

    def macs_of(self, source: int) -> int:
        """Returns the multiply-accumulates of a sentence."""
        return self.attention.macs_of(source, source) + self.feed_forward.macs_of(source)


class DecoderLayer(Composed):
    """Masked self-attention, attention to the source, and a feed-forward network."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        self.attention = MultiHeadAttention(sizes, random, name="attention")
        self.attended = self._residual("attended")
        self.source_attention = MultiHeadAttention(sizes, random, name="source_attention")
        self.source_attended = self._residual("source_attended")
        self.feed_forward = FeedForward(sizes, random, name="feed_forward")
        self.output_norm = self._residual("fed_forward")

    def call(
        self,
        x: tf.Tensor,
        source: tf.Tensor | attention.Cache,
        mask: tf.Tensor,
        cache: attention.Cache | None = None,
        position: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, attention.Cache]:
        """Decodes all words at once, or one more word of each hypothesis.

        Args:
            x: [batch, target, width], or [hypotheses, 1, width].
            source: the encoder's output, [batch, source, width]; or keys and values of it, [batch,
                heads, source, width / heads]; each sentence has as many hypotheses.
            mask: hides the source's padding.
            cache: keys and values of the words before, [hypotheses, heads, longest, width / heads];
                None: all words are given.
            position: of the one word, int32 scalar.
            training: drop values.

        Returns:
            a tensor of the shape of ``x``; for one word with it the next cache.
        """
        if cache is not None:
            return self._step(x, cache, position, source, mask)
        x = self._attend_to_target(x, training)
        return self._rest(x, self.source_attention.keys_and_values(source), mask, training)

    def alignment(self, x: tf.Tensor, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the heads' mean attention to the source, [batch, target, source].

        Arguments are those of ``call``.
        """
        queries = self.source_attention.queries(self._attend_to_target(x))
        keys, _ = self.source_attention.keys_and_values(source)
        return tf.reduce_mean(attention.attention_weights(queries, keys, mask), 1)

    def _attend_to_target(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Applies masked self-attention to all words at once."""
        time = x.shape[1] or tf.shape(x)[1]
        attended = self.attention(x, attention.causal_mask(time, time))
        return self.attended(x, attended, training=training)

    def _step(
        self,
        x: tf.Tensor,
        cache: attention.Cache,
        position: tf.Tensor,
        source: attention.Cache,
        mask: tf.Tensor,
    ) -> tuple[tf.Tensor, attention.Cache]:
        """Returns what ``call`` gives for one more word of each hypothesis, and the next cache."""
        queries, keys, values = self.attention.projected(x)
        keys, values, seen = attention.extend(cache, keys, values, position)
        x = self.attended(x, self.attention.attend(queries, keys, values, seen))
        batch, width = tf.shape(source[0])[0], x.shape[2]
        # To the source, the hypotheses of a sentence are as many queries.
        x = self._rest(tf.reshape(x, [batch, -1, width]), source, mask)
        return tf.reshape(x, [-1, 1, width]), (keys, values)

    def _rest(
        self, x: tf.Tensor, source: attention.Cache, mask: tf.Tensor, training: bool = False
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
