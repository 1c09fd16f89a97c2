"""Shared Keras layers around TensorFlow kernels, and reproducible random numbers for layers."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Self, TypedDict, Unpack

from fathom.core.training import replicas
from fathom.core.training.compilation import Nest
from fathom.core.training.randomness import uniform
from fathom.system.processor import trains_groups


class LayerOptions(TypedDict, total=False):
    """The options of every Keras layer that ours pass on."""

    name: str
    dtype: str | keras.DTypePolicy


class Layer(keras.layers.Layer):
    """A Keras layer that can be saved and loaded: its configuration is its arguments."""

    _given: dict[str, Any]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        keras.saving.register_keras_serializable(cls.__module__)(cls)

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Returns a layer that knows its arguments."""
        layer = super().__new__(cls, *arguments, **options)
        given = inspect.signature(cls.__init__).bind(None, *arguments, **options)
        given.apply_defaults()
        object.__setattr__(layer, "_given", given.arguments)  # Keras would track layers in them
        return layer

    def get_config(self) -> dict[str, object]:
        """Returns the arguments; a variable is its value.

        Keras serializes them: one that two layers share stays shared.
        """
        config = super().get_config()
        of_keras = inspect.signature(keras.layers.Layer.__init__).parameters
        for name, value in self._given.items():
            if name not in (*of_keras, "options"):
                is_variable = isinstance(value, tf.Variable)
                config[name] = value.numpy().item() if is_variable else value
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Returns a layer of the same arguments."""
        deserialize = keras.saving.deserialize_keras_object
        serialized = {k: v for k, v in config.items() if isinstance(v, dict | list)}
        return cls(**{**config, **{k: deserialize(v) for k, v in serialized.items()}})


@keras.saving.register_keras_serializable("fathom.core.layers")
class PRNGKey:
    """The key of one layer's random numbers, determined by the run's seed and the step alone.

    Args:
        seed: differs from layer to layer.
        step: int64 variable that differs from step to step; a number, as in a layer that was
            loaded: the key counts on from it.
    """

    def __init__(self, seed: int, step: tf.Variable | int) -> None:
        self._seed = seed
        self._counts = isinstance(step, int)
        self._step = tf.Variable(step, dtype=tf.int64) if isinstance(step, int) else step

    def tensor(self) -> tf.Tensor:
        """Returns int64 [2] for the functions of ``fathom.core.training.randomness``."""
        step = self._step.read_value()
        if self._counts:
            self._step.assign_add(1)
        return tf.stack([tf.constant(self._seed, tf.int64), step])

    def get_config(self) -> dict[str, int]:
        """Returns the seed and the current step."""
        return {"seed": self._seed, "step": int(self._step)}

    @classmethod
    def from_config(cls, config: Mapping[str, int]) -> Self:
        """Returns a key that continues the same numbers."""
        return cls(**config)

    def uniform(
        self, shape: tf.Tensor, axis: int = 0, stream: tf.Tensor | int | None = None
    ) -> tf.Tensor:
        """Returns float32 random numbers in [0, 1) for a batch, or for a replica's part of it.

        Args:
            shape: of the result.
            axis: the batch's, along which replicas have different numbers.
            stream: numbers of other streams differ.
        """
        seed = self.tensor()
        if stream is not None:
            seed += tf.stack([tf.cast(stream, tf.int64), 0])
        return replicas.part(uniform(replicas.whole_shape(shape, axis), seed), axis)


@keras.saving.register_keras_serializable("fathom.core.layers")
class Random:
    """Where one layer's random numbers come from: each of its parts takes the next seed."""

    def __init__(self, seeds: Iterable[int], step: tf.Variable | int) -> None:
        self._seeds, self._step = iter(seeds), step
        self._used: list[int] = []

    def new_seed(self) -> int:
        """Returns the seed of the next initial weights."""
        self._used.append(next(self._seeds))
        return self._used[-1]

    def new_noise(self) -> PRNGKey:
        """Returns the next PRNG key."""
        return PRNGKey(self.new_seed(), self._step)

    def get_config(self) -> dict[str, object]:
        """Returns the seeds that were used, and the current step."""
        return {"seeds": list(self._used), "step": int(self._step)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the same seeds from the first on, and keys that continue the same numbers."""
        return cls(**config)


def as_float32(outputs: Nest) -> Nest:
    """Casts the symbolic floating-point outputs of a network, a tensor or a nest, to float32."""

    def cast(tensor: keras.KerasTensor) -> keras.KerasTensor:
        narrow = keras.backend.is_float_dtype(tensor.dtype) and tensor.dtype != "float32"
        return keras.ops.cast(tensor, "float32") if narrow else tensor

    return keras.tree.map_structure(cast, outputs)


@keras.saving.register_keras_serializable("fathom.core.layers")
class Convolution2D(keras.layers.Conv2D):
    """``keras.layers.Conv2D`` whose groups are one ``tf.nn.conv2d``.

    Keras compiles a grouped convolution with XLA on the CPU, which hides its ops in a profile.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Convolves [batch, height, width, channels] with [h, w, channels / groups, filters]."""
        convolve = functools.partial(
            tf.nn.conv2d, strides=self.strides, padding=self.padding.upper()
        )
        if self.groups == 1:
            return convolve(inputs, kernel)
        if not trains_groups(inputs.dtype.name):
            parts = (tf.split(tensor, self.groups, 3) for tensor in (inputs, kernel))
            return tf.concat([convolve(x, w) for x, w in zip(*parts, strict=True)], 3)
        convolved = convolve(inputs, kernel)
        # Keeps the bias and the activation apart. Where an exported network runs without oneDNN,
        # TensorFlow would fuse all three into a kernel that knows no groups, and fail.
        return tf.ensure_shape(convolved, convolved.shape)


class LocalResponseNormalization(Layer):
    """Response normalisation across channels (Krizhevsky et al. 2012, section 3.3).

    b_i = a_i / (k + alpha * sum of a_j^2 over the n channels around i)^beta, with beta = 3/4.

    Args:
        n: number of channels in the sum, odd.
        k: additive constant.
        alpha: factor of the sum; not divided by n.
        compiled: compile the formula with XLA; otherwise use TensorFlow's LRN kernels, which are
            several times slower on a CPU (docs/performance.md).
    """

    def __init__(
        self, n: int, k: float, alpha: float, compiled: bool = True, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._n, self._k, self._alpha = n, k, alpha
        self._compiled = compiled

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises [batch, height, width, channels]; computes in float32."""
        x = tf.cast(inputs, tf.float32)
        if self._compiled:
            y = _compiled_normalization(x, self._n, self._k, self._alpha)
        else:
            y = tf.nn.local_response_normalization(x, self._n // 2, self._k, self._alpha, 0.75)
        return tf.cast(y, inputs.dtype)


def _compiled_normalization(x: tf.Tensor, n: int, k: float, alpha: float) -> tf.Tensor:
    """Returns the normalised float32 tensor; forward and backward are compiled kernels."""

    def window_sum(values: tf.Tensor) -> tf.Tensor:
        channels = values.shape[-1]
        padded = tf.pad(values, [[0, 0], [0, 0], [0, 0], [n // 2, n // 2]])
        return tf.add_n([padded[..., i : i + channels] for i in range(n)])

    def scale_of(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        root = tf.math.rsqrt(k + alpha * window_sum(x * x))
        return root * root, root * tf.sqrt(root)  # s^-1 and s^-3/4

    @tf.function(jit_compile=True, autograph=False)
    def LRN(x: tf.Tensor) -> tf.Tensor:  # noqa: N802 - the op type in a profile
        return x * scale_of(x)[1]

    @tf.function(jit_compile=True, autograph=False)
    def LRNGrad(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:  # noqa: N802
        inverse, power = scale_of(x)
        return dy * power - 1.5 * alpha * x * window_sum(dy * x * power * inverse)

    @tf.custom_gradient
    def normalize(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        return LRN(x), lambda dy: LRNGrad(x, dy)

    return normalize(x)


def add_bias(x: tf.Tensor, bias: tf.Tensor | keras.Variable) -> tf.Tensor:
    """Returns x + b for x [..., units] and b [units].

    The CPU kernel for the gradient of ``bias_add`` sums in bfloat16, where 256 + 1 is 256.
    """
    bias = tf.convert_to_tensor(bias)
    return x + bias if x.dtype == tf.bfloat16 else tf.nn.bias_add(x, bias)


class Dropout(Layer):
    """Dropout (Hinton et al. 2012), scaled in training so that inference needs no change.

    Args:
        rate: probability that a value is set to zero.
        noise: PRNG key of the dropped values.
        axis: the batch's.
    """

    def __init__(
        self, rate: float, noise: PRNGKey, axis: int = 0, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._rate, self._noise, self._axis = rate, noise, axis

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Drops values of a tensor of any shape in training."""
        return drop(inputs, self._rate, self._noise, self._axis) if training else inputs


def drop(values: tf.Tensor, rate: float, noise: PRNGKey, axis: int = 0) -> tf.Tensor:
    """Returns a tensor with dropout: values are set to zero with a probability, the rest scaled."""
    if not rate:
        return values
    return tf.where(noise.uniform(tf.shape(values), axis) >= rate, values / (1 - rate), 0)


def normalize(x: tf.Tensor, scale: keras.Variable, offset: keras.Variable) -> tf.Tensor:
    """Normalises float32 [..., width] to mean 0 and variance 1, then scales and shifts, by [width].

    Ba et al. 2016, "Layer Normalization".
    """
    return standardize(x, 1e-5) * scale.value + offset.value


def standardize(x: tf.Tensor, epsilon: float, centre: bool = True) -> tf.Tensor:
    """Divides vectors by their standard deviation, or by their root mean square.

    Ba et al. 2016, and Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".

    The gradient is a single term. TensorFlow adds three and more in an order that depends on time,
    where one of them, here that of a residual branch, is also used elsewhere.

    Args:
        x: float32 [..., width].
        epsilon: added to the mean square.
        centre: whether to subtract the mean first.

    Returns:
        float32 [..., width].
    """

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(values, -1, keepdims=True)

    @tf.custom_gradient
    def standardized(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        centred = x - mean(x) if centre else x
        inverse = tf.math.rsqrt(mean(tf.square(centred)) + epsilon)
        normal = centred * inverse

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            change = upstream - normal * mean(upstream * normal)
            return (change - mean(upstream) if centre else change) * inverse

        return normal, gradient

    return standardized(x)
