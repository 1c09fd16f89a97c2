"""Work and size of a network, counted from its architecture.

MACs are multiply-accumulates of one example's forward pass in convolutions and matrix products;
FLOPs are twice as many. Biases, activations and pooling are not counted, as in the papers' tables.
"""

import math
from dataclasses import dataclass

import keras

from fathom.results import records
from fathom.results.profile import Layer
from fathom.system import private

_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_BY_CHANNEL = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)


@dataclass(frozen=True)
class Cost:
    """The cost of a network for one example."""

    layers: tuple[Layer, ...]
    parameters: int  # trainable values

    @property
    def forward_macs(self) -> int:
        """Multiply-accumulates of one forward pass."""
        return sum(layer.macs for layer in self.layers)

    @property
    def training_macs(self) -> int:
        """Multiply-accumulates of a training step's forward and backward passes."""
        return sum(layer.training_macs for layer in self.layers)

    def record(self) -> records.Cost:
        """Returns the totals, as results state them."""
        return records.Cost(
            parameters=self.parameters,
            forward_macs_per_example=self.forward_macs,
            forward_flops_per_example=2 * self.forward_macs,
            training_flops_per_example=2 * self.training_macs,
        )


def count(network: keras.Model, length: int = 1) -> Cost:
    """Counts a functional network's parameters and work for one example.

    ``length`` replaces each dimension of unknown length.
    """
    reading_input = _reading_input(network)
    layers = []
    for layer in network.layers:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        inputs = keras.tree.flatten(layer.input)
        declared = keras.tree.flatten(layer.output)[0].shape[1:]
        shape = tuple(length if size is None else size for size in declared)
        layers.append(
            Layer(
                name=layer.name,
                kind=type(layer).__name__,
                output_shape=shape,
                parameters=_size(layer.trainable_variables),
                macs=private.calls(network, layer)
                * _macs(layer, inputs[0].shape, shape, length if None in declared else 1),
                activations=math.prod(shape),
                reads_input=layer.name in reading_input,
            )
        )
    return Cost(tuple(layers), _size(network.trainable_variables))


def _reading_input(network: keras.Model) -> set[str]:
    """Returns the names of the layers and operations without trainable variables before them."""
    names = set()
    untrained = {id(tensor) for tensor in network.inputs}  # tensors before all such variables
    for operation in network.operations:  # in execution order
        if isinstance(operation, keras.layers.InputLayer):
            continue
        if all(id(tensor) in untrained for tensor in keras.tree.flatten(operation.input)):
            names.add(operation.name)
            if not getattr(operation, "trainable_variables", ()):
                untrained |= {id(tensor) for tensor in keras.tree.flatten(operation.output)}
    return names


def _size(variables: list[keras.Variable]) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def _macs(layer: keras.Layer, input_shape: tuple, output_shape: tuple, length: int) -> int:
    """Returns a layer's multiply-accumulates; custom layers report their own.

    Their ``macs`` are per example, or per unit of length if the length is unknown.
    """
    if isinstance(layer, _CONVOLUTIONS):
        kernel = math.prod(layer.kernel_size) * input_shape[-1] // layer.groups
        return math.prod(output_shape) * kernel
    if isinstance(layer, _BY_CHANNEL):
        return math.prod(output_shape) * math.prod(layer.kernel_size)
    if isinstance(layer, keras.layers.Dense):
        return math.prod(output_shape) * input_shape[-1]
    return getattr(layer, "macs", 0) * length
