"""Layers of residual networks that Keras lacks, or does not run on TensorFlow's fast kernels."""

import math

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions
from fathom.core.training import replicas

# Floats of an AVX-512 register. From four threads on, oneDNN's gradient of the filters of a
# convolution of 1 x 1 with strides writes past its memory where there are fewer input channels.
_VECTOR = 16


class BatchNormalization(Layer):
    """Batch normalisation (Ioffe and Szegedy 2015) by TensorFlow's fused kernel.

    Keras' own layer consists of a dozen small operations.

    Args:
        momentum: of the moving statistics.
        epsilon: added to the variance.
        synchronized: several replicas use the statistics of the whole batch; otherwise each those
            of its part, and its moving statistics are its own.
    """

    def __init__(
        self,
        momentum: float,
        epsilon: float,
        synchronized: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._momentum = momentum
        self._epsilon = epsilon
        self._synchronized = synchronized

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Creates a scale, an offset and the moving statistics for each channel, all float32."""
        vector = {"shape": input_shape[-1:], "dtype": "float32", "autocast": False}
        self.scale = self.add_weight(name="scale", initializer="ones", **vector)
        self.offset = self.add_weight(name="offset", initializer="zeros", **vector)
        fixed = vector | {"trainable": False}
        self.mean = self.add_weight(name="mean", initializer="zeros", **fixed)
        self.variance = self.add_weight(name="variance", initializer="ones", **fixed)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalises [batch, height, width, channels].

        Training uses the batch's statistics and updates the moving ones (with the unbiased
        variance); inference uses the moving statistics.
        """
        if training and self._synchronized and replicas.count() > 1:
            return self._normalize_together(inputs)
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

    def _normalize_together(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises a replica's part of a batch by the statistics of the whole batch.

        The fused kernel has no gradient for statistics that it did not compute itself.
        """
        mean, variance = replicas.moments(tf.cast(inputs, tf.float32), axes=[0, 1, 2])
        count = tf.cast(replicas.count() * tf.size(inputs) // tf.size(mean), tf.float32)
        share = 1 - self._momentum
        self.mean.assign(self.mean.value + share * (mean - self.mean.value))
        unbiased = variance * (count / (count - 1))
        self.variance.assign(self.variance.value + share * (unbiased - self.variance.value))
        factor = self.scale.value * tf.math.rsqrt(variance + self._epsilon)
        outputs = (tf.cast(inputs, tf.float32) - mean) * factor + self.offset.value
        return tf.cast(outputs, inputs.dtype)

    def linear(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns inference as a linear transform (Ioffe and Szegedy 2015, section 3.1).

        The factor and the offset are float32 [channels].
        """
        factor = self.scale.value * tf.math.rsqrt(self.variance.value + self._epsilon)
        return factor, self.offset.value - self.mean.value * factor


class NormalizedConvolution2D(Layer):
    """A convolution followed by batch normalisation (He et al. 2015, section 3.4).

    It has no biases: the normalisation would cancel them.

    The input is padded with ``size // 2`` zeros on every side, as in Caffe and Torch; TensorFlow's
    own padding is uneven if ``strides`` is 2.

    Inference normalises by one factor and one offset a channel. In float32 they follow the
    convolution: to multiply the filters by the factor takes longer for a single example, and so
    does TensorFlow's fusion of the convolution with a normalisation kernel, many times where there
    is no AVX-512 (docs/performance.md). In lower precision the filters take the factor, so that
    values are rounded once.

    Args:
        filters: channels of the output.
        size: side of a filter in pixels.
        strides: in pixels.
        kernel_initializer: of the filters.
        momentum, epsilon, synchronized: as in ``BatchNormalization``.
    """

    def __init__(
        self,
        filters: int,
        size: int,
        strides: int,
        kernel_initializer: keras.initializers.Initializer,
        momentum: float,
        epsilon: float,
        synchronized: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._filters, self._size, self._strides = filters, size, strides
        self._kernel_initializer = kernel_initializer
        self.normalization = BatchNormalization(
            momentum, epsilon, synchronized, name="norm", dtype=self.dtype_policy
        )

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Creates the filters [size, size, channels, filters], float32, and the normalisation."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self._size, self._size, input_shape[-1], self._filters),
            dtype="float32",
            autocast=False,
            initializer=self._kernel_initializer,
        )
        output_shape = self.compute_output_shape(input_shape)
        self.normalization.build(output_shape)
        self.macs = math.prod(output_shape[1:]) * math.prod(self.kernel.shape[:-1])

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns [batch, height, width, filters] for [batch, height, width, channels]."""
        batch, *sides, _ = input_shape
        edges = 2 * (self._size // 2)
        sides = [(side + edges - self._size) // self._strides + 1 for side in sides]
        return (batch, *sides, self._filters)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Convolves and normalises [batch, height, width, channels]."""
        kernel = tf.convert_to_tensor(self.kernel.value)
        if training:
            outputs = self._convolve(inputs, tf.cast(kernel, inputs.dtype))
            return self.normalization(outputs, training=True)
        factor, offset = self.normalization.linear()
        if inputs.dtype == tf.float32:
            return tf.nn.bias_add(self._convolve(inputs, kernel) * factor, offset)
        outputs = self._convolve(inputs, tf.cast(kernel * factor, inputs.dtype))
        return tf.nn.bias_add(outputs, tf.cast(offset, inputs.dtype))

    def _convolve(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        edge = self._size // 2
        if edge == 0 and self._strides > 1 and inputs.shape[-1] < _VECTOR:
            return tf.nn.conv2d(inputs[:, :: self._strides, :: self._strides], kernel, 1, "SAME")
        if edge == 0 or self._strides == 1:
            return tf.nn.conv2d(inputs, kernel, self._strides, "SAME")
        # conv2d can pad by itself, but its gradients then do not use oneDNN: 70 times slower in
        # bfloat16.
        padded = tf.pad(inputs, [[0, 0], [edge, edge], [edge, edge], [0, 0]])
        return tf.nn.conv2d(padded, kernel, self._strides, "VALID")


class IdentityShortcut(Layer):
    """The shortcut of option A: every ``strides``-th pixel of the input.

    The output has ``filters`` channels; additional ones are zero (He et al. 2015, section 3.3).
    """

    def __init__(self, filters: int, strides: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._filters = filters
        self._strides = strides

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [batch, ceil(height / strides), ceil(width / strides), filters]."""
        pixels = inputs[:, :: self._strides, :: self._strides]
        return tf.pad(pixels, [[0, 0], [0, 0], [0, 0], [0, self._filters - inputs.shape[-1]]])
