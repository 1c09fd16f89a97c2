"""The loop over a sequence, in which every step multiplies by the same matrices."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from fathom.core.training.compilation import Nest

Multiply = Callable[[str, tf.Tensor], tf.Tensor]


def read(variable: keras.Variable, dtype: str) -> tf.Tensor:
    """Returns a variable's value as a tensor of a dtype."""
    return tf.cast(tf.convert_to_tensor(variable.value), dtype)


def recur(
    step: Callable[[Multiply, tf.Tensor, Nest, Nest], Nest],
    kernels: Mapping[str, tf.Tensor],
    added: Mapping[str, tf.Tensor],
    state: Nest,
    constants: Nest = (),
) -> tuple[tf.Tensor, Nest]:
    """Runs a step for each word of a sequence.

    The gradient of a kernel is one product over all steps, after backpropagation through time.
    TensorFlow's own gradient accumulates a small product in every step.

    Args:
        step: maps (multiply, number of the step, state, constants) to the next state.
            ``multiply(name, x)`` returns the product of x [batch, inputs] and a kernel plus this
            step's part of ``added``; it is called once for each kernel.
        kernels: the matrices by name, [inputs, outputs], or one for each example, [batch, inputs,
            outputs].
        added: what is added to their products, [time, batch, outputs].
        state: initial tensors.
        constants: tensors that every step reads. Gradients flow only to these, to ``kernels``, to
            ``added`` and to ``state``.

    Returns:
        the first tensor of the state after each step, [time, ...], and the final state.
    """
    others = (dict(added), state, constants)

    @tf.custom_gradient
    def run(*read: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
        # A tape around this one would make TensorFlow prepare for gradients of gradients.
        tensors = [tf.stop_gradient(tensor) for tensor in read]
        matrices = dict(zip(kernels, tensors, strict=False))
        watched = tensors[len(kernels) :]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results, reads = _loop(step, matrices, *tf.nest.pack_sequence_as(others, watched))

        def gradient(*d_results: tf.Tensor) -> list[tf.Tensor]:
            d_others = tape.gradient(results, watched, list(d_results), "zero")
            d_products, *_ = tf.nest.pack_sequence_as(others, d_others)
            d_kernels = [
                _gradient_of(matrix, reads[name], d_products[name])
                for name, matrix in matrices.items()
            ]
            return d_kernels + d_others

        return results, gradient

    outputs, *last = run(*kernels.values(), *tf.nest.flatten(others))
    return outputs, tf.nest.pack_sequence_as(state, last)


def _loop(
    step: Callable,
    kernels: Mapping[str, tf.Tensor],
    added: Mapping[str, tf.Tensor],
    state: Nest,
    constants: Nest,
) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
    """Returns the outputs and the final state, flattened, and each kernel's inputs."""
    first = tf.nest.flatten(state)[0]
    sequence = next(iter(added.values()))
    steps = sequence.shape[0] or tf.shape(sequence)[0]
    arrays = {name: steps_of(sequence) for name, sequence in added.items()}
    # oneDNN takes 1.5 times as long if it has to transpose a matrix in every step.
    transposes = {name: tf.linalg.matrix_transpose(kernel) for name, kernel in kernels.items()}
    reads = {
        name: tf.TensorArray(first.dtype, steps, element_shape=(first.shape[0], kernel.shape[-2]))
        for name, kernel in kernels.items()
    }
    outputs = tf.TensorArray(first.dtype, steps, element_shape=first.shape)

    def body(time: tf.Tensor, state: Nest, outputs: tf.TensorArray, reads: dict) -> tuple:
        now = {}

        def multiply(name: str, x: tf.Tensor) -> tf.Tensor:
            now[name] = x
            return _product(x, kernels[name], transposes[name]) + arrays[name].read(time)

        state = step(multiply, time, state, constants)
        reads = {name: array.write(time, now[name]) for name, array in reads.items()}
        return time + 1, state, outputs.write(time, tf.nest.flatten(state)[0]), reads

    _, state, outputs, reads = tf.while_loop(
        lambda time, *_: time < steps,
        body,
        (0, state, outputs, reads),
        maximum_iterations=steps,
    )
    return [outputs.stack(), *tf.nest.flatten(state)], {n: a.stack() for n, a in reads.items()}


def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Returns the products [batch, outputs] of rows [batch, inputs] and a matrix.

    The matrix is [inputs, outputs]; or there is one for each row, [batch, inputs, outputs].
    """
    return x @ kernel if kernel.shape.rank == 2 else (x[:, None] @ kernel)[:, 0]


def _product(x: tf.Tensor, kernel: tf.Tensor, transpose: tf.Tensor) -> tf.Tensor:
    """Returns ``product(x, kernel)``, with a gradient for x only."""

    @tf.custom_gradient
    def multiply(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        return product(x, kernel), lambda dy: product(dy, transpose)

    return multiply(x)


def _gradient_of(kernel: tf.Tensor, x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Returns a kernel's gradient: x [time, batch, inputs] times dy [time, batch, outputs]."""
    if kernel.shape.rank == 3:
        return tf.einsum("tbi,tbo->bio", x, dy)
    x, dy = (tf.reshape(tensor, (-1, tensor.shape[-1])) for tensor in (x, dy))
    return tf.matmul(x, dy, transpose_a=True)


def steps_of(sequence: tf.Tensor) -> tf.TensorArray:
    """Returns [time, ...] as an array that a loop reads step by step."""
    steps = sequence.shape[0] or tf.shape(sequence)[0]
    array = tf.TensorArray(sequence.dtype, steps, element_shape=sequence.shape[1:])
    return array.unstack(sequence)
