"""A network with further layers in between: the same layers and variables, called again."""

from collections.abc import Callable

import keras

Insert = Callable[[keras.KerasTensor, str, bool], keras.KerasTensor]


def inserted(network: keras.Model, insert: Insert, skipped: tuple[type, ...] = ()) -> keras.Model:
    """Returns a functional network with a layer after each of its float32 inputs and outputs.

    Args:
        network: functional; its layers and variables are shared.
        insert: called with a symbolic tensor, the name of the input or layer it comes from, and
            whether it is an input; returns what takes its place.
        skipped: the classes of layers after which nothing is inserted.
    """
    inputs = {id(t): insert(t, t.name, True) for t in network.inputs if t.dtype == "float32"}

    def call(layer: keras.Operation, *arguments: object, **named: object) -> object:
        arguments, named = keras.tree.map_structure(
            lambda value: inputs.get(id(value), value), (arguments, named)
        )
        outputs = layer(*arguments, **named)
        if isinstance(layer, skipped):
            return outputs
        flat = keras.tree.flatten(outputs)
        changed = [
            insert(tensor, f"{layer.name}_{i}" if i else layer.name, False)
            if tensor.dtype == "float32"
            else tensor
            for i, tensor in enumerate(flat)
        ]
        return keras.tree.pack_sequence_as(outputs, changed)

    return keras.models.clone_model(
        network, network.input, clone_function=lambda layer: layer, call_function=call
    )
