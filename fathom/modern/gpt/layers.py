"""The layers of GPT-2, for whole sequences and for one token after others in a cache."""

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, Random, drop, normalize
from fathom.model.decoder import LayerCache
from fathom.shared import attention
from fathom.shared.language.layers import TokenLayer, linear, look_up, weight


class Embedding(Layer):
    """The sum of a token's vector and a position's, both learned."""

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.table = weight(self, "tokens", (vocabulary, width), random)
        self.positions = weight(self, "positions", (context, width), random)

    def call(self, tokens: tf.Tensor, position: tf.Tensor | int = 0) -> tf.Tensor:
        """Returns [batch, time, width] for int32 [batch, time], the first at ``position``.

        Args:
            tokens: see above.
            position: int32 scalar, or [batch]; padding behind the last position has any vector.
        """
        words = look_up(tf.convert_to_tensor(self.table.value), tokens)
        table, time = tf.convert_to_tensor(self.positions), tokens.shape[1]
        if attention.of_each_row(position):
            last = table.shape[0] - 1
            places = tf.gather(table, tf.minimum(attention.places(time, position), last))
        else:
            places = tf.slice(table, [position, 0], [time, table.shape[1]])
        return tf.cast(words, self.compute_dtype) + places


class LayerNormalization(Layer):
    """Normalises each vector to mean 0 and variance 1, then scales and shifts it (Ba et al. 2016).

    Computed in float32.
    """

    def __init__(self, width: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(autocast=False, **options)
        self.scale, self.offset = (
            self.add_weight((width,), initializer=value, name=name, autocast=False)
            for value, name in (("ones", "scale"), ("zeros", "offset"))
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the normalised vectors of [..., width]."""
        return tf.cast(normalize(tf.cast(x, tf.float32), self.scale, self.offset), x.dtype)


class Attention(TokenLayer):
    """Causal self-attention with its projections.

    Args:
        width: of a token's vector.
        heads: of ``width / heads`` each.
        time: positions of a sequence, for the count of work.
        dropout: of the attention, in training.
        output_stddev: of the last projection's weights.
        random: of the dropout and the initial weights.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        time: int,
        dropout: float,
        output_stddev: float,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._heads, self._dropout, self._noise = heads, dropout, random.new_noise()
        self.kernel = weight(self, "kernel", (width, 3 * width), random)
        self.bias = self.add_weight((3 * width,), initializer="zeros", name="bias")
        self.projection = weight(self, "projection", (width, width), random, output_stddev)
        self.projection_bias = self.add_weight(
            (width,), initializer="zeros", name="projection_bias"
        )
        self.macs = self.macs_of(time, time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for tokens that attend to as many keys each."""
        width = self.projection.shape[0]
        return tokens * (4 * width * width + 2 * keys * width)

    def call(
        self,
        x: tf.Tensor,
        cache: attention.Cache | LayerCache | None = None,
        position: tf.Tensor | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Lets each token attend to itself and those before it; as ``decoder.Block``."""
        time, width = x.shape[1:]
        parts = tf.reshape(
            linear(x, self.kernel, self.bias), [-1, time, 3, self._heads, width // self._heads]
        )
        queries, keys, values = tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)), num=3)
        if cache is None:
            mask = attention.causal_mask(time, time)
        else:
            keys, values, mask = attention.extend(cache, keys, values, position)
        weights = attention.attention_weights(queries, keys, mask)
        if training:
            weights = drop(weights, self._dropout, self._noise)
        merged = attention.merge_heads(tf.matmul(weights, values))
        return linear(merged, self.projection, self.projection_bias), keys, values


class Perceptron(TokenLayer):
    """Two dense layers with GELU between (Hendrycks and Gimpel 2016, the form with tanh).

    Args:
        width: of a token's vector; four times as much in between.
        time: positions of a sequence, for the count of work.
        output_stddev: of the second layer's weights.
        random: of the initial weights.
    """

    def __init__(
        self,
        width: int,
        time: int,
        output_stddev: float,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        inner = 4 * width
        self.kernel = weight(self, "kernel", (width, inner), random)
        self.bias = self.add_weight((inner,), initializer="zeros", name="bias")
        self.projection = weight(self, "projection", (inner, width), random, output_stddev)
        self.projection_bias = self.add_weight(
            (width,), initializer="zeros", name="projection_bias"
        )
        self.macs = self.macs_of(time, time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens."""
        inner, width = self.projection.shape
        return 2 * tokens * inner * width

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] of the same."""
        hidden = tf.nn.gelu(linear(x, self.kernel, self.bias), approximate=True)
        return linear(hidden, self.projection, self.projection_bias)
