"""DiT: transformer blocks whose normalisations depend on the time and the class.

Peebles and Xie 2022, "Scalable Diffusion Models with Transformers", section 3.2 and figure 3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, Random
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


class Sizes(NamedTuple):
    """What the layers of a network have in common."""

    side: int  # of an image
    channels: int  # of an image
    returned: int  # channels that the network returns
    patch: int  # side of what is one token
    width: int  # of a token
    heads: int  # of attention
    classes: int  # the number after the last stands for none
    dropout: float  # share of images that lose their class in training
    zero: float  # standard deviation of the weights of gates and output: blocks begin as identity

    @property
    def patches(self) -> int:
        """Along each side of an image."""
        return self.side // self.patch


class Sized(Layer):
    """A layer of a network's sizes, with the random numbers of its initial weights."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._sizes, self._tokens = Sizes(*sizes), Sizes(*sizes).patches ** 2


class Patches(Sized):
    """Cuts images into patches, and makes each a token with its position."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        shape = self._sizes.patch**2 * self._sizes.channels, self._sizes.width
        self.kernel, self.bias = _matrix(self, "", shape, random)
        self.macs = self._tokens * math.prod(shape)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] for [batch, side, side, channels]."""
        sizes, n, p = self._sizes, self._sizes.patches, self._sizes.patch
        x = tf.reshape(images, [-1, n, p, n, p * sizes.channels])
        x = tf.reshape(tf.transpose(x, (0, 1, 3, 2, 4)), [-1, n * n, p * p * sizes.channels])
        places = tf.constant(positions(n, sizes.width))
        return linear(x, self.kernel, self.bias) + tf.cast(places, x.dtype)


class Time(Sized):
    """The first of two matrices of a time, after cosines and sines of it."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        shape = FREQUENCIES, self._sizes.width
        self.kernel, self.bias = _matrix(self, "", shape, random, STDDEV)
        self.macs = math.prod(shape)

    def call(self, times: tf.Tensor) -> tf.Tensor:
        """Returns [batch, width] for int32 [batch]."""
        half = FREQUENCIES // 2
        rates = tf.constant(1e4 ** (-np.arange(half) / half), tf.float32)
        angles = tf.cast(times, tf.float32)[:, None] * rates
        waves = tf.concat([tf.cos(angles), tf.sin(angles)], 1)
        x = linear(tf.cast(waves, self.compute_dtype), self.kernel, self.bias)
        return tf.nn.silu(x)


class Condition(Sized):
    """The vector of a time and a class that all blocks read."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        classes, width = self._sizes.classes, self._sizes.width
        self._noise = random.new_noise()  # of the lost classes
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
        x = linear(time, self.kernel, self.bias)
        if training and self._sizes.dropout:
            lost = self._noise.uniform(tf.shape(classes)) < self._sizes.dropout
            classes = tf.where(lost, self._sizes.classes, classes)
        return tf.nn.silu(x + look_up(tf.convert_to_tensor(self.table), classes))


class Modulation(Sized):
    """So many shifts, scales and gates from the condition (adaLN-Zero)."""

    def __init__(
        self, sizes: Sizes, random: Random, count: int, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(sizes, random, **options)
        self._count, width = count, self._sizes.width
        shape = width, count * width
        self.kernel, self.bias = _matrix(self, "", shape, random, self._sizes.zero)
        self.macs = math.prod(shape)

    def call(self, condition: tf.Tensor) -> list[tf.Tensor]:
        """Returns the vectors, each [batch, 1, width]."""
        return tf.split(linear(condition, self.kernel, self.bias)[:, None], self._count, -1)


class Attention(Sized):
    """x + gate * attention(modulated x), of all tokens of an image to all."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width = self._sizes.width
        self.kernel, self.bias = _matrix(self, "", (width, 3 * width), random)
        self.projection, self.bias2 = _matrix(self, "projection_", (width, width), random)
        self.macs = self._tokens * width * (4 * width + 2 * self._tokens)

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of the same."""
        joined = linear(modulate(x, shift, scale), self.kernel, self.bias)
        q, k, v = (split_heads(each, self._sizes.heads) for each in tf.split(joined, 3, -1))
        y = merge_heads(tf.matmul(attention_weights(q, k), v))
        return x + gate * linear(y, self.projection, self.bias2)


class FeedForward(Sized):
    """x + gate * MLP(modulated x), with GELU (tanh form) and four times the width in between."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width = self._sizes.width
        self.kernel, self.bias = _matrix(self, "", (width, 4 * width), random)
        self.projection, self.bias2 = _matrix(self, "projection_", (4 * width, width), random)
        self.macs = 8 * self._tokens * width**2

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of the same."""
        hidden = linear(modulate(x, shift, scale), self.kernel, self.bias)
        hidden = tf.nn.gelu(hidden, approximate=True)
        return x + gate * linear(hidden, self.projection, self.bias2)


class Pixels(Sized):
    """Returns images of the modulated tokens."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        shape = self._sizes.width, self._sizes.patch**2 * self._sizes.returned
        self.kernel, self.bias = _matrix(self, "", shape, random, self._sizes.zero)
        self.macs = self._tokens * math.prod(shape)

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Returns [batch, side, side, channels]."""
        sizes, n, p = self._sizes, self._sizes.patches, self._sizes.patch
        x = linear(modulate(x, shift, scale), self.kernel, self.bias)
        x = tf.transpose(tf.reshape(x, [-1, n, n, p, p * sizes.returned]), (0, 1, 3, 2, 4))
        return tf.reshape(x, [-1, sizes.side, sizes.side, sizes.returned])


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
