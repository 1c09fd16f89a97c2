"""DiT: transformer blocks whose normalisations depend on the time and the class.

Peebles and Xie 2022, "Scalable Diffusion Models with Transformers", section 3.2 and figure 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, PRNGKey, Random
from fathom.shared.attention import attention_weights, merge_heads, split_heads
from fathom.shared.language.decoder import Parts
from fathom.shared.language.layers import STDDEV, linear, look_up

FREQUENCIES = 256  # values that stand for a time before the first matrix
_EPSILON = 1e-6  # of normalisation


def _matrix(
    layer: Layer, name: str, shape: tuple[int, int], random: Random, stddev: float | None = None
) -> tuple[keras.Variable, keras.Variable]:
    """Adds a matrix and its bias: Glorot's uniform weights, normal ones, or zeros, and zeros."""
    seed = random.new_seed()
    if stddev is None:
        initializer = keras.initializers.GlorotUniform(seed)
    else:
        initializer = keras.initializers.RandomNormal(0, stddev, seed) if stddev else "zeros"
    kernel = layer.add_weight(shape, initializer=initializer, name=f"{name}kernel")
    return kernel, layer.add_weight(shape[1:], initializer="zeros", name=f"{name}bias")


def _affine(x: tf.Tensor, kernel: keras.Variable, bias: keras.Variable) -> tf.Tensor:
    """Returns x W + b for [batch, inputs]."""
    product = tf.matmul(x, tf.convert_to_tensor(kernel))
    return tf.nn.bias_add(product, tf.convert_to_tensor(bias))


def modulate(x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Normalises tokens [batch, tokens, width], then scales and shifts each image's.

    Args:
        x: tokens; normalised in float32.
        shift: [batch, 1, width].
        scale: [batch, 1, width], less 1.
    """
    mean, variance = tf.nn.moments(tf.cast(x, tf.float32), [-1], keepdims=True)
    normal = (tf.cast(x, tf.float32) - mean) * tf.math.rsqrt(variance + _EPSILON)
    return tf.cast(normal, x.dtype) * (1 + scale) + shift


def positions(side: int, width: int) -> np.ndarray:
    """Returns sines and cosines of the column, then of the row, float32 [side^2, width]."""
    rates = 1e4 ** (-np.arange(width // 4) / (width // 4))
    rows, columns = np.mgrid[:side, :side].reshape(2, -1)
    waves = [f(np.outer(place, rates)) for place in (columns, rows) for f in (np.sin, np.cos)]
    return np.concatenate(waves, 1).astype(np.float32)


class Patches(Layer):
    """Cuts images into patches, and makes each a token with its position.

    Args:
        side: of an image.
        channels: of an image.
        patch: side of a patch.
        width: of a token.
        random: of the initial weights.
    """

    def __init__(
        self,
        side: int,
        channels: int,
        patch: int,
        width: int,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._side, self._channels, self._patch = side, channels, patch
        self._width, self._random = width, random
        values, self._count = patch**2 * channels, side // patch
        self.kernel, self.bias = _matrix(self, "", (values, width), random)
        self.macs = self._count**2 * values * width

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] for [batch, side, side, channels]."""
        n, p = self._count, self._patch
        x = tf.reshape(images, [-1, n, p, n, p * self._channels])
        x = tf.reshape(tf.transpose(x, (0, 1, 3, 2, 4)), [-1, n * n, p * p * self._channels])
        places = tf.constant(positions(n, self._width))
        return linear(x, self.kernel, self.bias) + tf.cast(places, x.dtype)


class Time(Layer):
    """The first of two matrices of a time, after cosines and sines of it.

    Args:
        width: of the vector.
        random: of the initial weights.
    """

    def __init__(self, width: int, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._width, self._random = width, random
        self.kernel, self.bias = _matrix(self, "", (FREQUENCIES, width), random, STDDEV)
        self.macs = FREQUENCIES * width

    def call(self, times: tf.Tensor) -> tf.Tensor:
        """Returns [batch, width] for int32 [batch]."""
        half = FREQUENCIES // 2
        rates = tf.constant(1e4 ** (-np.arange(half) / half), tf.float32)
        angles = tf.cast(times, tf.float32)[:, None] * rates
        waves = tf.concat([tf.cos(angles), tf.sin(angles)], 1)
        x = _affine(tf.cast(waves, self.compute_dtype), self.kernel, self.bias)
        return tf.nn.silu(x)


class Condition(Layer):
    """The vector of a time and a class that all blocks read.

    Args:
        classes: number of them; the number after the last stands for none.
        width: of the vector.
        dropout: share of images that lose their class in training.
        random: of the initial weights.
        noise: PRNG key of the lost classes.
    """

    def __init__(
        self,
        classes: int,
        width: int,
        dropout: float,
        random: Random,
        noise: PRNGKey,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._classes, self._width, self._dropout = classes, width, dropout
        self._random, self._noise = random, noise
        self.kernel, self.bias = _matrix(self, "", (width, width), random, STDDEV)
        normal = keras.initializers.RandomNormal(0, STDDEV, random.new_seed())
        self.table = self.add_weight((classes + 1, width), initializer=normal, name="classes")
        self.macs = width**2

    def call(self, time: tf.Tensor, classes: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns SiLU of the sum of both vectors, [batch, width].

        Args:
            time: of ``Time``, [batch, width].
            classes: int32 [batch].
            training: some images lose their class.
        """
        x = _affine(time, self.kernel, self.bias)
        if training and self._dropout:
            lost = self._noise.uniform(tf.shape(classes)) < self._dropout
            classes = tf.where(lost, self._classes, classes)
        return tf.nn.silu(x + look_up(tf.convert_to_tensor(self.table), classes))


class Modulation(Layer):
    """Shifts, scales and gates from the condition (adaLN-Zero).

    Args:
        width: of a token.
        count: number of vectors.
        stddev: of the initial weights: zero, so that blocks begin as the identity.
        random: of them.
    """

    def __init__(
        self,
        width: int,
        count: int,
        stddev: float,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._width, self._count, self._stddev, self._random = width, count, stddev, random
        self.kernel, self.bias = _matrix(self, "", (width, count * width), random, stddev)
        self.macs = count * width**2

    def call(self, condition: tf.Tensor) -> list[tf.Tensor]:
        """Returns the vectors, each [batch, 1, width]."""
        return tf.split(_affine(condition, self.kernel, self.bias)[:, None], self._count, -1)


class Attention(Layer):
    """x + gate * attention(modulated x), of all tokens of an image to all.

    Args:
        width: of a token.
        heads: of attention.
        tokens: of an image, for the count of work.
        random: of the initial weights.
    """

    def __init__(
        self, width: int, heads: int, tokens: int, random: Random, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._width, self._heads, self._tokens, self._random = width, heads, tokens, random
        self.kernel, self.bias = _matrix(self, "", (width, 3 * width), random)
        self.projection, self.bias2 = _matrix(self, "projection_", (width, width), random)
        self.macs = tokens * width * (4 * width + 2 * tokens)

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of the same."""
        joined = linear(modulate(x, shift, scale), self.kernel, self.bias)
        q, k, v = (split_heads(each, self._heads) for each in tf.split(joined, 3, -1))
        y = merge_heads(tf.matmul(attention_weights(q, k), v))
        return x + gate * linear(y, self.projection, self.bias2)


class FeedForward(Layer):
    """x + gate * MLP(modulated x), with GELU (tanh form) and four times the width in between.

    Args:
        width: of a token.
        tokens: of an image, for the count of work.
        random: of the initial weights.
    """

    def __init__(
        self, width: int, tokens: int, random: Random, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._width, self._tokens, self._random = width, tokens, random
        self.kernel, self.bias = _matrix(self, "", (width, 4 * width), random)
        self.projection, self.bias2 = _matrix(self, "projection_", (4 * width, width), random)
        self.macs = 8 * tokens * width**2

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of the same."""
        hidden = linear(modulate(x, shift, scale), self.kernel, self.bias)
        hidden = tf.nn.gelu(hidden, approximate=True)
        return x + gate * linear(hidden, self.projection, self.bias2)


class Pixels(Layer):
    """Returns images of the modulated tokens.

    Args:
        side: of an image.
        channels: that are returned.
        patch: side of a patch.
        width: of a token.
        stddev: of the initial weights: zero.
        random: of them.
    """

    def __init__(
        self,
        side: int,
        channels: int,
        patch: int,
        width: int,
        stddev: float,
        random: Random,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._side, self._channels, self._patch, self._width = side, channels, patch, width
        self._stddev, self._random = stddev, random
        values, self._count = patch**2 * channels, side // patch
        self.kernel, self.bias = _matrix(self, "", (width, values), random, stddev)
        self.macs = self._count**2 * values * width

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Returns [batch, side, side, channels]."""
        n, p = self._count, self._patch
        x = linear(modulate(x, shift, scale), self.kernel, self.bias)
        x = tf.transpose(tf.reshape(x, [-1, n, n, p, p * self._channels]), (0, 1, 3, 2, 4))
        return tf.reshape(x, [-1, self._side, self._side, self._channels])


@keras.saving.register_keras_serializable("fathom.modern.diffusion.layers")
@dataclass(frozen=True)
class Block(Parts):
    """Attention and feed-forward layer, each with shift, scale and gate."""

    modulation: Modulation
    attention: Attention
    feed_forward: FeedForward

    def __call__(self, x: tf.Tensor, condition: tf.Tensor) -> tf.Tensor:
        """Returns the next tokens, [batch, tokens, width]."""
        vectors = self.modulation(condition)
        return self.feed_forward(self.attention(x, *vectors[:3]), *vectors[3:])


@keras.saving.register_keras_serializable("fathom.modern.diffusion.layers")
@dataclass(frozen=True)
class DiT(Parts):
    """The network: the noise in images of a time and a class."""

    patches: Patches
    time: Time
    condition: Condition
    blocks: Sequence[Block]
    modulation: Modulation
    pixels: Pixels

    def __call__(self, x: tf.Tensor, times: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        """Returns [batch, side, side, channels], symbolic or not.

        Args:
            x: images with noise, [batch, side, side, channels].
            times: int32 [batch], from 0.
            classes: int32 [batch].
        """
        condition = self.condition(self.time(times), classes)
        x = self.patches(x)
        for block in self.blocks:
            x = block(x, condition)
        return self.pixels(x, *self.modulation(condition))
