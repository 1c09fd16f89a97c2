"""The process that turns images into noise, and the loop that goes back (Ho et al. 2020)."""

import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, PRNGKey
from fathom.core.training import randomness, replicas
from fathom.modern.diffusion.layers import DiT

TIMES = 1000  # T of section 4; times are counted from 0 here, as in the published code


def signal() -> np.ndarray:
    """Returns the share of an image's variance that each time leaves, float64 [1000].

    It is alpha-bar of equation 4, with beta from 1e-4 to 0.02 (section 4).
    """
    return np.cumprod(1 - np.linspace(1e-4, 0.02, TIMES))


class Noising(Layer):
    """x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e, for a random t and e (equation 4).

    Args:
        times: PRNG key of t.
        noise: PRNG key of e.
    """

    def __init__(self, times: PRNGKey, noise: PRNGKey, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**{**options, "dtype": "float32"})
        self._times, self._noise = times, noise

    def call(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns x_t, t int32 [batch] from 0, and e; x_t and e are like the images."""
        drawn = self._times.uniform(tf.shape(images)[:1])
        times = tf.minimum(tf.cast(drawn * TIMES, tf.int32), TIMES - 1)
        shape = replicas.whole_shape(tf.shape(images))
        noise = randomness.normal(shape, self._noise.tensor())
        noise = tf.ensure_shape(replicas.part(noise), images.shape)
        share = tf.gather(tf.constant(signal(), tf.float32), times)[:, None, None, None]
        return tf.sqrt(share) * images + tf.sqrt(1 - share) * noise, times, noise


def steps_back(sampler: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the times of sampling, and the factors of each step.

    A step returns a x_0 + b x + c e + s z: x_0 the image estimated from x and e, z new noise.

    Args:
        sampler: ``ddim``, Song et al. 2021, equation 12 with sigma 0; ``ddpm``, Ho et al. 2020,
            equations 6 and 7.
        count: number of steps.

    Returns:
        int32 [count], falling to 0; float32 [count, 4], a, b, c and s.
    """
    times = (np.arange(count) * TIMES // count)[::-1]
    now = signal()[times]
    then = np.append(now[1:], 1.0)
    if sampler == "ddim":
        zero = np.zeros(count)
        factors = [np.sqrt(then), zero, np.sqrt(1 - then), zero]
    else:
        alpha = now / then
        posterior = (1 - then) / (1 - now)
        factors = [
            np.sqrt(then) * (1 - alpha) / (1 - now),
            np.sqrt(alpha) * posterior,
            np.zeros(count),
            np.sqrt((1 - alpha) * posterior),
        ]
    return times.astype(np.int32), np.stack(factors, 1).astype(np.float32)


class Sampling(Layer):
    """Goes from noise to images, step by step.

    Args:
        network: its layers are not this layer's own.
        sampler: as of ``steps_back``.
        count: number of steps.
        guidance: the scale of classifier-free guidance (Ho and Salimans 2022); 1: none.
        noise: PRNG key of the steps' noise.
    """

    def __init__(
        self,
        network: DiT,
        sampler: str,
        count: int,
        guidance: float,
        noise: PRNGKey,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(autocast=False, **options)
        self._network, self._count, self._guidance = network, count, guidance
        self._times, self._factors = steps_back(sampler, count)
        self._noise = noise

    def call(self, x: tf.Tensor, classes: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        """Returns images like x, without the second half of a guided batch.

        Args:
            x: float32 [batch, side, side, channels], noise.
            classes: int32 [batch].
            first: what the network returns for them at the first time.
        """
        images = tf.split(x, 2)[0] if self._guided else x
        _, images = tf.while_loop(
            lambda i, _: i < self._count,
            lambda i, x: (i + 1, self.next(i, x, classes)),
            (tf.constant(1), self._step(0, images, first)),
        )
        return images

    def next(self, i: tf.Tensor, x: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        """Returns the images after one step more, like x.

        Args:
            i: int32 scalar, the step, from 0.
            x: float32 [batch, side, side, channels], without a second half.
            classes: int32 [batch], with guidance [2 batch].
        """
        both = tf.concat([x, x], 0) if self._guided else x
        times = tf.fill(tf.shape(classes), tf.constant(self._times)[i])
        return self._step(i, x, self._network(both, times, classes))

    @property
    def _guided(self) -> bool:
        return self._guidance != 1

    def _step(self, i: tf.Tensor | int, x: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
        """Returns the images after a step, for what the network returns."""
        noise = tf.cast(prediction[..., : x.shape[-1]], tf.float32)
        if self._guided:
            given, unknown = tf.split(noise, 2)
            noise = unknown + self._guidance * (given - unknown)
        share = tf.constant(signal()[self._times], tf.float32)[i]
        image = (x - tf.sqrt(1 - share) * noise) / tf.sqrt(share)
        image = tf.clip_by_value(image, -1.0, 1.0)
        noise = (x - tf.sqrt(share) * image) / tf.sqrt(1 - share)  # what is left without the image
        a, b, c, s = tf.unstack(tf.constant(self._factors)[i])
        x = a * image + b * x + c * noise
        if self._factors[:, 3].any():
            key = self._noise.tensor() + tf.stack([tf.cast(i, tf.int64), 0])
            x += s * randomness.normal(tf.shape(x), key)
        return x
