"""DiT: transformer blocks whose normalisations depend on the time and the class.

Peebles and Xie 2022, "Scalable Diffusion Models with Transformers", section 3.2 and figure 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Self, Unpack

from fathom.core.layers import Layer, LayerOptions, Random, standardize
from fathom.shared.attention import attention_weights, merge_heads, split_heads
from fathom.shared.language.decoder import Parts
from fathom.shared.language.layers import STDDEV, linear, look_up

FREQUENCIES = 256  # values that stand for a time before the first matrix
_EPSILON = 1e-6  # of normalisation


def modulate(x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Normalises tokens [batch, tokens, width], then scales and shifts each image's.

    Args:
        x: tokens; normalised in float32.
        shift: [batch, 1, width].
        scale: [batch, 1, width], less 1.
    """
    normal = standardize(tf.cast(x, tf.float32), _EPSILON)
    return tf.cast(normal, x.dtype) * (1 + scale) + shift


def positions(side: int, width: int) -> np.ndarray:
    """Returns sines and cosines of the column, then of the row, float32 [side^2, width]."""
    rates = 1e4 ** (-np.arange(width // 4) / (width // 4))
    rows, columns = np.mgrid[:side, :side].reshape(2, -1)
    waves = [f(np.outer(place, rates)) for place in (columns, rows) for f in (np.sin, np.cos)]
    return np.concatenate(waves, 1).astype(np.float32)


class Sizes(NamedTuple):
    """What the layers of a network have in common, by the hyperparameters' names."""

    side: int  # of an image
    channels: int  # of an image
    patch: int  # side of what is one token
    width: int  # of a token
    heads: int  # of attention
    classes: int  # the number after the last stands for none
    class_dropout: float  # share of images that lose their class in training
    learned_variance: bool  # the network returns twice the channels
    zero: float  # standard deviation of the weights of gates and output: blocks begin as identity

    @property
    def patches(self) -> int:
        """Along each side of an image."""
        return self.side // self.patch

    @property
    def returned(self) -> int:
        """Channels that the network returns."""
        return self.channels * (1 + self.learned_variance)


class Sized(Layer):
    """A layer of a network's sizes, which counts its multiply-accumulates of an image."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._sizes, self._random, self.macs = Sizes(*sizes), random, 0
        self._tokens = self._sizes.patches**2

    def _matrix(
        self, inputs: int, outputs: int, rows: int, stddev: float | None = None, name: str = ""
    ) -> tuple[keras.Variable, keras.Variable]:
        """Adds a matrix for so many rows of an image, and its bias of zeros.

        Weights are normal with ``stddev``, zeros if that is 0, and Glorot's uniform ones if None.
        """
        seed = self._random.new_seed()
        if stddev is None:
            initializer = keras.initializers.GlorotUniform(seed)
        else:
            initializer = keras.initializers.RandomNormal(0, stddev, seed) if stddev else "zeros"
        self.macs += rows * inputs * outputs
        kernel = self.add_weight((inputs, outputs), initializer=initializer, name=f"{name}kernel")
        return kernel, self.add_weight((outputs,), initializer="zeros", name=f"{name}bias")


class Patches(Sized):
    """Cuts images into patches, and makes each a token with its position."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        values = self._sizes.patch**2 * self._sizes.channels
        self.kernel, self.bias = self._matrix(values, self._sizes.width, self._tokens)

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
        self.kernel, self.bias = self._matrix(FREQUENCIES, self._sizes.width, 1, STDDEV)

    def call(self, times: tf.Tensor) -> tf.Tensor:
        """Returns [batch, width] for int32 [batch]."""
        half = FREQUENCIES // 2
        rates = tf.constant(1e4 ** (-np.arange(half) / half), tf.float32)
        angles = tf.cast(times, tf.float32)[:, None] * rates
        waves = tf.concat([tf.cos(angles), tf.sin(angles)], 1)
        return tf.nn.silu(linear(tf.cast(waves, self.compute_dtype), self.kernel, self.bias))


class Condition(Sized):
    """The vector of a time and a class that all blocks read."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        classes, width = self._sizes.classes, self._sizes.width
        self._noise = random.new_noise()  # of the lost classes
        self.kernel, self.bias = self._matrix(width, width, 1, STDDEV)
        normal = keras.initializers.RandomNormal(0, STDDEV, random.new_seed())
        self.table = self.add_weight((classes + 1, width), initializer=normal, name="classes")

    def call(self, time: tf.Tensor, classes: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns SiLU of the sum of both vectors, [batch, width].

        Args:
            time: of ``Time``, [batch, width].
            classes: int32 [batch].
            training: some images lose their class.
        """
        x = linear(time, self.kernel, self.bias)
        if training and self._sizes.class_dropout:
            lost = self._noise.uniform(tf.shape(classes)) < self._sizes.class_dropout
            classes = tf.where(lost, self._sizes.classes, classes)
        return tf.nn.silu(x + look_up(tf.convert_to_tensor(self.table), classes))


class Modulation(Sized):
    """So many shifts, scales and gates from the condition (adaLN-Zero)."""

    def __init__(
        self, sizes: Sizes, random: Random, count: int, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(sizes, random, **options)
        self._count, width = count, self._sizes.width
        self.kernel, self.bias = self._matrix(width, count * width, 1, self._sizes.zero)

    def call(self, condition: tf.Tensor) -> list[tf.Tensor]:
        """Returns the vectors, each [batch, 1, width]."""
        return tf.split(linear(condition, self.kernel, self.bias)[:, None], self._count, -1)


class Residual(Sized):
    """x + gate * f(modulated x), where f has a matrix first and another one last."""

    widths: ClassVar[tuple[int, int]]  # after the first matrix and before the last, of the tokens'

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width, (first, last) = self._sizes.width, self.widths
        self.kernel, self.bias = self._matrix(width, first * width, self._tokens)
        sizes_of_last = last * width, width, self._tokens
        self.projection, self.bias2 = self._matrix(*sizes_of_last, name="projection_")

    def call(self, x: tf.Tensor, shift: tf.Tensor, scale: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of the same."""
        hidden = self.between(linear(modulate(x, shift, scale), self.kernel, self.bias))
        return x + gate * linear(hidden, self.projection, self.bias2)

    def between(self, x: tf.Tensor) -> tf.Tensor:
        """Returns what the last matrix is multiplied with, of the first one's product."""
        raise NotImplementedError


class Attention(Residual):
    """Attention of all tokens of an image to all."""

    widths = 3, 1

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        self.macs += 2 * self._tokens**2 * self._sizes.width

    def between(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [batch, tokens, width] of queries, keys and values, side by side."""
        q, k, v = (split_heads(each, self._sizes.heads) for each in tf.split(x, 3, -1))
        return merge_heads(tf.matmul(attention_weights(q, k), v))


class FeedForward(Residual):
    """An MLP with GELU (tanh form), and four times the width in between."""

    widths = 4, 4

    def between(self, x: tf.Tensor) -> tf.Tensor:
        """Returns GELU of each value."""
        return tf.nn.gelu(x, approximate=True)


class Pixels(Sized):
    """Returns images of the modulated tokens."""

    def __init__(self, sizes: Sizes, random: Random, **options: Unpack[LayerOptions]) -> None:
        super().__init__(sizes, random, **options)
        width, values = self._sizes.width, self._sizes.patch**2 * self._sizes.returned
        self.kernel, self.bias = self._matrix(width, values, self._tokens, self._sizes.zero)

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

    @classmethod
    def create(cls, sizes: Sizes, random: Callable[[], Random], name: str) -> Self:
        """Returns a block with new weights."""
        return cls(
            Modulation(sizes, random(), 6, name=f"{name}_modulation"),
            Attention(sizes, random(), name=f"{name}_attention"),
            FeedForward(sizes, random(), name=f"{name}_feed_forward"),
        )

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

    @classmethod
    def create(cls, sizes: Sizes, blocks: int, random: Callable[[], Random]) -> Self:
        """Returns a network with new weights."""
        of_blocks = [Block.create(sizes, random, f"block{i}") for i in range(1, blocks + 1)]
        return cls(
            Patches(sizes, random(), name="patches"),
            Time(sizes, random(), name="time"),
            Condition(sizes, random(), name="condition"),
            of_blocks,
            Modulation(sizes, random(), 2, name="modulation"),
            Pixels(sizes, random(), name="pixels"),
        )

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
