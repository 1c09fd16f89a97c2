"""The encoder's layers.

Sequences are time-major internally, [time, batch, units], so that each step is contiguous. The
recurrences are loops in the graph, of any length and quick to trace. docs/workloads/seq2seq.md
compares them with unrolled cells and fused kernels.
"""

from typing import TypeAlias

import keras
import tensorflow as tf
from keras.initializers import Initializer
from typing_extensions import Unpack

from fathom.core.layers import Layer, LayerOptions, Random
from fathom.core.training.compilation import Nest
from fathom.seq2seq.recurrence import Multiply, read, recur
from fathom.shared.translation.symbols import PAD

Shape: TypeAlias = tuple[int | None, ...]


def lstm_cell(gates: tf.Tensor, memory: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The LSTM without peepholes: the gates do not read the memory.

    Sutskever et al. 2014 take the formulation of Graves 2013, which has peepholes.

    Args:
        gates: [batch, 4 units]: input, forget and output gates and candidate, before activation.
        memory: [batch, units], the cell state.

    Returns:
        the new hidden state and the new memory, [batch, units].
    """
    i, f, o, g = tf.split(gates, 4, 1)
    memory = tf.sigmoid(f) * memory + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(memory), memory


def uniform(largest: float, random: Random) -> Initializer:
    """Returns an initializer of uniform values up to a largest absolute one, with the next seed."""
    return keras.initializers.RandomUniform(-largest, largest, random.new_seed())


class Embedding(Layer):
    """Word vectors of length ``units``, with a sparse gradient."""

    def __init__(
        self, vocabulary: int, units: int, initializer: Initializer, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(autocast=False, **options)
        self._vocabulary, self._units, self._initializer = vocabulary, units, initializer

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates the vectors."""
        shape = (self._vocabulary, self._units)
        self.embedding = self.add_weight(
            shape=shape, initializer=self._initializer, name="embedding"
        )

    def compute_output_spec(self, words: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the shape that ``call`` returns."""
        time, batch = words.shape[::-1]
        return keras.KerasTensor((time, batch, self._units), self.compute_dtype)

    def call(self, words: tf.Tensor) -> tf.Tensor:
        """Looks up words int32 [batch, time]; returns [time, batch, units]."""
        vectors = tf.gather(self.embedding.value, tf.transpose(words))
        return tf.cast(vectors, self.compute_dtype)


class LSTM(Layer):
    """One layer of the encoder.

    The input projection of the gates is one product over all time steps. It is set to zero for
    padding, which keeps a zero state at zero: leading padding has no effect.

    Args:
        units: of the hidden state and of the memory.
        largest: absolute value of the initial weights.
        random: of them.
    """

    def __init__(
        self, units: int, largest: float, random: Random, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(autocast=False, **options)
        self._units, self._largest, self._random = units, largest, random

    def build(self, inputs_shape: Shape, words_shape: Shape) -> None:
        """Creates the weights."""
        inputs, gates = inputs_shape[-1], 4 * self._units
        shapes = {"input_kernel": (inputs, gates), "kernel": (self._units, gates), "bias": (gates,)}
        self.input_kernel, self.kernel, self.bias = (
            self.add_weight(shape, uniform(self._largest, self._random), name=name)
            for name, shape in shapes.items()
        )

    def macs_of(self, steps: int) -> int:
        """Returns the multiply-accumulates of a sequence."""
        return steps * 4 * self._units * (self.input_kernel.shape[0] + self._units)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, words: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, ...]:
        """Returns the shapes that ``call`` returns."""
        time, batch, _ = inputs.shape
        shapes = (time, batch, self._units), (batch, self._units), (batch, self._units)
        return tuple(keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)

    def call(self, inputs: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Runs over a sequence.

        Args:
            inputs: [time, batch, inputs].
            words: int32 [batch, time], to find the padding.

        Returns:
            the hidden states [time, batch, units], the last of them and the last memory.
        """
        cast = self.compute_dtype
        gates = tf.tensordot(inputs, tf.cast(self.input_kernel, cast), 1) + tf.cast(self.bias, cast)
        gates *= tf.cast(tf.transpose(words) != PAD, cast)[:, :, None]
        zero = tf.zeros_like(gates[0, :, : self._units])

        def step(multiply: Multiply, _: tf.Tensor, state: Nest, __: tuple[()]) -> Nest:
            hidden, memory = state
            return lstm_cell(multiply("gates", hidden), memory)

        kernels = {"gates": read(self.kernel, cast)}
        states, last = recur(step, kernels, {"gates": gates}, (zero, zero))
        return states, *last
