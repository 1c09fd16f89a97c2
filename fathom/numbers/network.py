"""What passes between a network's layers, changed or noted wherever the layers are called.

The network stays as it is, with the layers that it has: a step, an encoder that shares its layers
and a loop that decodes word by word all call them, and each call is changed.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

from fathom.core.training.compilation import Nest

Change: TypeAlias = Callable[[tf.Tensor], tf.Tensor]
ChangeOf = Callable[[str, bool], Change | None]
Named: TypeAlias = tuple[str, keras.KerasTensor]


def pass_through(network: keras.Model, change_of: ChangeOf, skipped: tuple[type, ...] = ()) -> None:
    """Lets the network's float32 inputs, and what its layers return, pass through functions.

    Those given later take what those given before return.

    Args:
        network: functional. A layer of it that calls others which are not in its graph has them in
            ``called_layers``, each with one output.
        change_of: called with the name of each input or output, and whether it is an input; returns
            the function, or None to leave it as it is. A layer that is called twice has one.
        skipped: the classes of layers whose outputs are left as they are.
    """
    found = [change_of(t.name, True) if _is_float32(t) else None for t in network.inputs]
    _call_of(network).of_inputs.append(found)
    for operation in _operations(network):
        if not isinstance(operation, skipped):
            names = _names(operation)
            changes = [change_of(name, False) if name else None for name in names]
            _call_of(operation).of_outputs.append(changes)


def passed(network: keras.Model, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns inputs of a network as its layers get them, after the functions."""
    return _changed(list(inputs), _call_of(network).of_inputs)


def outputs_of(network: keras.Model, skipped: tuple[type, ...] = ()) -> list[Named]:
    """Returns what each layer of a network's graph returns in float32 at its first call, by name.

    Args:
        network: functional.
        skipped: the classes of layers that are left out.
    """
    return [
        (name, tensor)
        for operation in network.operations
        if not isinstance(operation, (keras.layers.InputLayer, *skipped))
        for name, tensor in zip(
            _names(operation), keras.tree.flatten(operation.output), strict=True
        )
        if name
    ]


def both_ways(x: tf.Tensor, forward: Change, backward: Change) -> tf.Tensor:
    """Returns a tensor after a function, whose derivative is taken as 1.

    The gradient that comes back passes through another function.
    """

    @tf.custom_gradient
    def changed(x: tf.Tensor) -> tuple[tf.Tensor, Change]:
        return forward(x), lambda gradient: backward(tf.convert_to_tensor(gradient))

    return changed(x)


class _Call:
    """The call of a layer or operation, with lists of functions that its tensors pass."""

    def __init__(self, call: Callable[..., Nest]) -> None:
        self._call = call
        self.of_inputs: list[list[Change | None]] = []
        self.of_outputs: list[list[Change | None]] = []

    def __call__(self, inputs: Nest, *others: Nest, **options: Nest) -> Nest:
        outputs = self._call(_changed(inputs, self.of_inputs), *others, **options)
        return _changed(outputs, self.of_outputs)


def _call_of(operation: keras.Operation) -> _Call:
    """Returns the operation's call, put in place of the original one if it is not there yet."""
    if not isinstance(operation.call, _Call):
        operation.call = _Call(operation.call)
    return operation.call


def _changed(tensors: Nest, changes: list[list[Change | None]]) -> Nest:
    if not changes:
        return tensors
    flat = keras.tree.flatten(tensors)
    for functions in changes:
        # A layer may return more than in the network's graph: its cache, in decoding.
        every = itertools.chain(functions, itertools.repeat(None))
        flat = [  # inputs may be NumPy's
            tensor
            if function is None or not _is_float32(tensor)
            else function(tf.convert_to_tensor(tensor))
            for tensor, function in zip(flat, every, strict=False)
        ]
    return keras.tree.pack_sequence_as(tensors, flat)


def _operations(network: keras.Model) -> list[keras.Operation]:
    """Returns the layers and operations of a network's graph, and those that its layers call."""
    found = []
    for operation in network.operations:
        if not isinstance(operation, keras.layers.InputLayer):
            found += [operation, *getattr(operation, "called_layers", ())]
    return found


def _names(operation: keras.Operation) -> list[str | None]:
    """Returns names of an operation's outputs, None for those that are not float32."""
    if not hasattr(operation, "output"):  # called by another layer alone
        return [operation.name]
    outputs = keras.tree.flatten(operation.output)
    return [
        (f"{operation.name}_{i}" if i else operation.name) if _is_float32(tensor) else None
        for i, tensor in enumerate(outputs)
    ]


def _is_float32(tensor: tf.Tensor | keras.KerasTensor) -> bool:
    return tensor.dtype == "float32"
