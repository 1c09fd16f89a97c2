"""The layers of Deep Speech, all time-major: [frames, batch, ...].

A layer that is the same for every frame is one matrix product over all frames of the batch.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, add_bias


def steps_of(lengths: tf.Tensor, stride: int) -> tf.Tensor:
    """Returns the steps of ``lengths`` frames: a number, an array or a tensor."""
    return (lengths + stride - 1) // stride


class ContextWindow(Layer):
    """Concatenates frames with their neighbours, zero-padded at an utterance's ends.

    Args:
        context: C, the number of neighbours on each side.
        stride: frames from one window to the next (section 3.3); the first window is that of the
            first frame.
    """

    def __init__(self, context: int, stride: int = 1, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._context, self._stride = context, stride

    def call(self, features: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the windows, [steps, batch, (2 C + 1) * size], and each utterance's steps.

        Args:
            features: [batch, frames, size]; values after an utterance's end are ignored.
            lengths: int32 [batch], frames of each utterance.
        """
        count = tf.shape(features)[1]
        valid = tf.sequence_mask(lengths, count)[..., None]
        frames = tf.transpose(tf.where(valid, features, 0), [1, 0, 2])
        padded = tf.pad(frames, [[self._context] * 2, [0, 0], [0, 0]])
        neighbours = range(2 * self._context + 1)
        windows = tf.concat([padded[i : i + count : self._stride] for i in neighbours], axis=2)
        return windows, steps_of(lengths, self._stride)


class FrameLayer(Layer):
    """A dense layer, g(W x + b), for every frame: one product over all frames.

    Args:
        units: number of outputs.
        clip: g is the clipped rectifier min(max(x, 0), clip); None: g(x) = x.
        initializer: of W; b starts at 0.
    """

    def __init__(
        self,
        units: int,
        clip: float | None,
        initializer: keras.initializers.Initializer,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self._units, self.clip, self._initializer = units, clip, initializer

    def build(self, input_shape: tuple) -> None:
        """Creates W and b."""
        shape = (input_shape[-1], self._units)
        self.kernel = self.add_weight(shape, self._initializer, name="kernel")
        self.bias = self.add_weight((self._units,), "zeros", name="bias")

    @property
    def macs(self) -> int:
        """Multiply-accumulates per frame."""
        return self.kernel.shape[0] * self.kernel.shape[1]

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [frames, batch, units] for inputs [frames, batch, size]."""
        x = all_frames(inputs, self.kernel, self.bias)
        return x if self.clip is None else clipped_relu(x, self.clip)


def all_frames(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Returns W x + b, [frames, batch, units], of inputs [frames, batch, size]."""
    kernel = tf.convert_to_tensor(kernel)
    rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
    outputs = add_bias(tf.matmul(rows, kernel), bias)
    return tf.reshape(outputs, (*keras.ops.shape(inputs)[:2], kernel.shape[1]))


def clipped_relu(x: tf.Tensor, clip: float) -> tf.Tensor:
    """Returns min(max(x, 0), clip): g of section 2. Its gradient needs only its value."""

    @tf.custom_gradient
    def clipped(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        y = tf.clip_by_value(x, 0, clip)
        return y, lambda dy: tf.where(_passes(y, clip), dy, 0)

    return clipped(x)


def _passes(y: tf.Tensor, clip: float) -> tf.Tensor:
    """Returns where the clipped rectifier with value y has slope 1; elsewhere it is 0."""
    return tf.logical_and(y > 0, y < clip)


class BidirectionalRecurrent(Layer):
    """Layer 4: the sum of units that run forward and backward in time.

    h_f(t) = g(W x(t) + V_f h_f(t - 1) + b), h_b(t) = g(W x(t) + V_b h_b(t + 1) + b), and the output
    is h_f + h_b. The shared input projection W x(t) + b is one product over all frames. The
    backward units start at each utterance's last frame.

    Args:
        units: per direction.
        clip: of the clipped rectifier g.
        initializers: of W, V_f and V_b; b starts at 0.
    """

    def __init__(
        self, units: int, clip: float, initializers: Sequence, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._units, self.clip, self._initializers = units, clip, initializers

    def build(self, input_shape: tuple, *_: tuple) -> None:
        """Creates W, b, V_f and V_b."""
        shape, square = (input_shape[-1], self._units), (self._units, self._units)
        of_input, of_forward, of_backward = self._initializers
        self.kernel = self.add_weight(shape, of_input, name="kernel")
        self.bias = self.add_weight((self._units,), "zeros", name="bias")
        self.forward_kernel = self.add_weight(square, of_forward, name="forward_kernel")
        self.backward_kernel = self.add_weight(square, of_backward, name="backward_kernel")

    @property
    def macs(self) -> int:
        """Multiply-accumulates per frame."""
        return (self.kernel.shape[0] + 2 * self._units) * self._units

    def call(self, inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns h_f + h_b, [frames, batch, units].

        The inputs are [frames, batch, size], and their lengths int32 [batch].
        """
        z = all_frames(inputs, self.kernel, self.bias)
        kernels = map(tf.convert_to_tensor, (self.forward_kernel, self.backward_kernel))
        valid = tf.sequence_mask(lengths, tf.shape(z)[0], z.dtype)
        valid = tf.transpose(valid)[..., None]  # [frames, batch, 1]
        return tf.add_n(
            recurrence(z, kernel, valid, self.clip, backward=backward)
            for kernel, backward in zip(kernels, (False, True), strict=True)
        )


def recurrence(
    z: tf.Tensor, kernel: tf.Tensor, valid: tf.Tensor, clip: float, backward: bool
) -> tf.Tensor:
    """Returns h(t) = g(z(t) + V h(t - 1)), or with h(t + 1) when ``backward``.

    Running one direction after the other keeps V in the cache between frames; interleaving them, or
    one batched product, takes longer (docs/workloads/speech.md).

    Args:
        z: [frames, batch, units].
        kernel: V, [units, units].
        valid: [frames, batch, 1], 1 within an utterance and 0 after its end, where h is 0.
        clip: of the clipped rectifier g.
        backward: start with the last frame.

    Returns:
        [frames, batch, units]. The gradient of V is one product over all frames, after
        backpropagation through time.
    """

    @tf.custom_gradient
    def run(z: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        h = _through_time(
            lambda t, before: (
                tf.clip_by_value(z[t] + tf.matmul(before, kernel), 0, clip) * valid[t]
            ),
            z,
            backward,
        )

        def gradient(dh: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            passes = _passes(h, clip)
            transposed = tf.transpose(kernel)  # once: makes the loop's products faster
            dz = _through_time(
                lambda t, after: tf.where(passes[t], dh[t] + tf.matmul(after, transposed), 0),
                dh,
                not backward,
            )
            before, now = (h[1:], dz[:-1]) if backward else (h[:-1], dz[1:])
            before, now = (tf.reshape(value, [-1, kernel.shape[0]]) for value in (before, now))
            return dz, tf.matmul(before, now, transpose_a=True)

        return h, gradient

    return run(z, kernel)


def _through_time(step: Callable, like: tf.Tensor, backward: bool) -> tf.Tensor:
    """Returns state(t) = step(t, previous state) for all frames; the initial state is zero.

    The result is of the shape and dtype of ``like``, [frames, batch, units].
    """
    count = keras.ops.shape(like)[0]
    states = tf.TensorArray(like.dtype, count, element_shape=like.shape[1:])

    def body(done: tf.Tensor, state: tf.Tensor, states: tf.TensorArray) -> tuple:
        t = count - 1 - done if backward else done
        state = step(t, state)
        return done + 1, state, states.write(t, state)

    start = (0, tf.zeros_like(like[0]), states)
    *_, states = tf.while_loop(lambda done, *_: done < count, body, start)
    return states.stack()
