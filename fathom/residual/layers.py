"""The layers of residual networks that Keras does not have, or not in TensorFlow's fast kernels."""

from typing import Any

import keras
import tensorflow as tf


class EvenlyPaddedConvolution2D(keras.layers.Conv2D):
    """A convolution with zeros around its input, ``size // 2`` on every side.

    Caffe and Torch pad so; TensorFlow's own padding is uneven where ``strides`` is 2.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Convolves [batch, height, width, channels] with [size, size, channels, filters]."""
        edge = self.kernel_size[0] // 2
        if edge == 0 or self.strides == (1, 1):
            return tf.nn.conv2d(inputs, kernel, self.strides, "SAME")
        # conv2d can pad by itself, but its gradients then are not oneDNN's: 70 times slower in
        # bfloat16.
        padded = tf.pad(inputs, [[0, 0], [edge, edge], [edge, edge], [0, 0]])
        return tf.nn.conv2d(padded, kernel, self.strides, "VALID")


class BatchNormalization(keras.layers.Layer):
    """Batch normalisation (Ioffe and Szegedy 2015) in TensorFlow's fused kernel.

    Keras' own layer is a dozen small operations. In float32 inference on a CPU, TensorFlow makes
    this one a part of the convolution before it.

    Args:
        momentum: share of the moving statistics that a training step keeps.
        epsilon: added to the variance.
    """

    def __init__(self, momentum: float, epsilon: float, **options: Any) -> None:
        super().__init__(**options)
        self._momentum = momentum
        self._epsilon = epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes a scale, an offset and the moving statistics for each channel, all float32."""
        vector = {"shape": input_shape[-1:], "dtype": "float32", "autocast": False}
        self.scale = self.add_weight(name="scale", initializer="ones", **vector)
        self.offset = self.add_weight(name="offset", initializer="zeros", **vector)
        fixed = vector | {"trainable": False}
        self.mean = self.add_weight(name="mean", initializer="zeros", **fixed)
        self.variance = self.add_weight(name="variance", initializer="ones", **fixed)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalises [batch, height, width, channels].

        With the batch's statistics when ``training``, and moves the moving ones towards them (the
        variance unbiased); else with the moving statistics.
        """
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=self.scale.value,
            offset=self.offset.value,
            mean=self.mean.value,
            variance=self.variance.value,
            epsilon=self._epsilon,
            exponential_avg_factor=1 - self._momentum,
            is_training=bool(training),
        )
        if training:
            self.mean.assign(mean)
            self.variance.assign(variance)
        return outputs


class IdentityShortcut(keras.layers.Layer):
    """The shortcut of option A: the input itself, every ``strides``-th pixel of it.

    The channels that the output has in addition are zero (He et al. 2015, section 3.3).

    Args:
        filters: channels of the output.
        strides: distance in pixels.
    """

    def __init__(self, filters: int, strides: int, **options: Any) -> None:
        super().__init__(**options)
        self._filters = filters
        self._strides = strides

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [batch, ceil(height / strides), ceil(width / strides), filters]."""
        pixels = inputs[:, :: self._strides, :: self._strides]
        return tf.pad(pixels, [[0, 0], [0, 0], [0, 0], [0, self._filters - inputs.shape[-1]]])
