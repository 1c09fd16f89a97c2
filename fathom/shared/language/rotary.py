"""The layers of decoders with rotary positions: of Llama, and but for one of Mixtral.

For whole sequences, and for one token after others in a cache.
"""

from typing import NamedTuple

import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, Random, standardize
from fathom.model.decoder import LayerCache
from fathom.shared import attention
from fathom.shared.language.layers import TokenLayer, linear, look_up, swiglu, weight
from fathom.shared.language.weights import Published

EPSILON = 1e-5  # of the normalization


class Embedding(Layer):
    """The vectors of tokens."""

    def __init__(
        self, vocabulary: int, width: int, random: Random, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self.table = weight(self, "tokens", (vocabulary, width), random)

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] for int32 [batch, time]."""
        rows = look_up(tf.convert_to_tensor(self.table.value), tokens)
        return tf.cast(rows, self.compute_dtype)


class RMSNorm(Layer):
    """x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich 2019), computed in float32."""

    def __init__(self, width: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(autocast=False, **options)
        self.scale = self.add_weight((width,), initializer="ones", name="scale", autocast=False)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the normalised vectors of [..., width]."""
        normal = standardize(tf.cast(x, tf.float32), EPSILON, centre=False)
        return tf.cast(normal * self.scale.value, x.dtype)


class Sizes(NamedTuple):
    """What the layers of a network's blocks have in common."""

    width: int  # of a token's vector
    heads: int  # of queries, ``width / heads`` each
    kv_heads: int  # of keys and values, each for ``heads / kv_heads`` of queries
    hidden_units: int  # of feed-forward layers
    time: int  # positions of a sequence, for the count of work
    rope_base: float  # of the rotary positions
    output_stddev: float  # of the weights of last products


class Attention(TokenLayer):
    """Causal self-attention whose queries share keys and values in groups (Ainslie et al. 2023).

    The matrices of queries, keys and values are side by side in one.
    """

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._sizes = sizes = Sizes(*sizes)  # a list, where the layer is loaded
        self._size, width = sizes.width // sizes.heads, sizes.width
        columns = (sizes.heads + 2 * sizes.kv_heads) * self._size
        self.kernel = weight(self, "kernel", (width, columns), random)
        self.projection = weight(self, "projection", (width, width), random, sizes.output_stddev)
        self.macs = self.macs_of(sizes.time, sizes.time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for tokens that attend to as many keys each."""
        width, columns = self.kernel.shape
        return tokens * width * (columns + width + 2 * keys)

    def call(
        self,
        x: tf.Tensor,
        cache: attention.Cache | LayerCache | None = None,
        position: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Lets each token attend to itself and those before it; as ``decoder.Block``."""
        time, heads, groups = x.shape[1], self._sizes.heads, self._sizes.kv_heads
        projected = attention.split_heads(linear(x, self.kernel), heads + 2 * groups)
        queries, keys, values = tf.split(projected, [heads, groups, groups], 1)
        places = attention.places(time, 0 if position is None else position)
        queries, keys = (rotate(x, places, self._sizes.rope_base) for x in (queries, keys))
        if cache is None:
            mask = attention.causal_mask(time, time)
        else:
            keys, values, mask = attention.extend(cache, keys, values, position)
        shared = heads // groups  # queries of one group are rows of one product
        rows = tf.reshape(queries, [-1, groups, shared * time, self._size])
        mask = tf.tile(mask, [1] * (mask.shape.rank - 2) + [shared, 1])
        weights = attention.attention_weights(rows, keys, mask)
        mixed = tf.reshape(tf.matmul(weights, values), [-1, heads, time, self._size])
        return linear(attention.merge_heads(mixed), self.projection), keys, values


class SwiGLU(TokenLayer):
    """The feed-forward layer W2 (silu(W1 x) * W3 x) (Shazeer 2020).

    W1 and W3 are side by side in one matrix. W2 is stored as published, [width, units]: its rows
    are longer so, and read faster for one token.
    """

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        sizes = Sizes(*sizes)  # as above
        width, units, stddev = sizes.width, sizes.hidden_units, sizes.output_stddev
        self.kernel = weight(self, "kernel", (width, 2 * units), random)
        self.projection = weight(self, "projection", (width, units), random, stddev)
        self.macs = self.macs_of(sizes.time, sizes.time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens."""
        width, hidden_units = self.projection.shape
        return 3 * tokens * hidden_units * width

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, time, width] of the same."""
        return linear(swiglu(linear(x, self.kernel)), self.projection, transposed=True)

    def published(self, prefix: str) -> list[Published]:
        """Returns what its weights are in the files of ``LlamaForCausalLM``."""
        gate, up, down = (f"{prefix}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        gates = Published(self.kernel, (gate, up), transposed=True)
        return [gates, Published(self.projection, (down,))]


class Logits(TokenLayer):
    """The product with a matrix that is not the embedding's.

    Args:
        vocabulary: number of tokens.
        width: of a token's vector.
        time: positions of a sequence, for the count of work.
        random: of the initial weights.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        time: int,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.kernel = weight(self, "kernel", (width, vocabulary), random)
        self.macs = self.macs_of(time, time)

    def macs_of(self, tokens: int, keys: int) -> int:
        """Returns the multiply-accumulates for some tokens."""
        width, vocabulary = self.kernel.shape
        return tokens * width * vocabulary

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns logits [batch, time, vocabulary] of [batch, time, width]."""
        return linear(x, self.kernel)


def rotate(x: tf.Tensor, positions: tf.Tensor, base: float) -> tf.Tensor:
    """Rotates pairs of values by an angle that grows with the position (Su et al. 2021).

    A pair is value i and value i + d/2, as in the published weights for ``transformers``; the
    paper's neighbours are the same after a permutation of the matrices' columns.

    Args:
        x: [batch, heads, time, d].
        positions: int32 [time], or [batch, time].
        base: the longest wavelength is 2 pi times nearly as much.
    """
    half = x.shape[-1] // 2
    frequencies = base ** (-tf.range(half, dtype=tf.float32) / half)
    if positions.shape.rank == 2:
        positions = positions[:, None]  # of all heads
    angles = tf.cast(positions, tf.float32)[..., None] * frequencies
    cosine, sine = (tf.cast(f(angles), x.dtype) for f in (tf.cos, tf.sin))
    first, second = tf.split(x, 2, -1)
    return tf.concat([first * cosine - second * sine, second * cosine + first * sine], -1)
