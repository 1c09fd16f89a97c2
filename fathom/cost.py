"""Work and size of a network, counted from its architecture.

MACs are multiply-accumulates of one example's forward pass in convolutions and matrix products;
FLOPs are twice as many. Biases, activations and pooling are not counted, as in the papers' tables.
"""

import math
from dataclasses import dataclass

import keras


@dataclass(frozen=True)
class LayerCost:
    """What one layer costs for one example.

    Attributes:
        name: the layer's name in the network.
        kind: its class.
        output_shape: shape of its (first) output without the batch dimension.
        parameters: number of trainable values.
        macs: multiply-accumulates of the forward pass.
        activations: number of output values.
        reads_input: the layer works on the network's input, so that training computes no gradient
            for what it reads.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    macs: int
    activations: int
    reads_input: bool


@dataclass(frozen=True)
class Cost:
    """What a network costs for one example."""

    layers: tuple[LayerCost, ...]
    parameters: int  # trainable values

    @property
    def forward_macs(self) -> int:
        """Multiply-accumulates of a forward pass."""
        return sum(layer.macs for layer in self.layers)

    @property
    def training_macs(self) -> int:
        """Multiply-accumulates of a forward and backward pass.

        The backward pass has two products for each one of the forward pass: the gradient of the
        weights and, but for layers that read the network's input, the gradient of what they read.
        """
        return sum((2 if layer.reads_input else 3) * layer.macs for layer in self.layers)


def count(network: keras.Model, length: int = 1) -> Cost:
    """Counts a functional network's parameters and work for one example.

    Args:
        network: the network.
        length: what stands for each dimension that is of any length.
    """
    network_inputs = {id(tensor) for tensor in network.inputs}
    layers = []
    for layer in network.layers:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        inputs = keras.tree.flatten(layer.input)
        declared = keras.tree.flatten(layer.output)[0].shape[1:]
        shape = tuple(length if size is None else size for size in declared)
        layers.append(
            LayerCost(
                name=layer.name,
                kind=type(layer).__name__,
                output_shape=shape,
                parameters=_size(layer.trainable_variables),
                macs=_macs(layer, inputs[0].shape, shape, length if None in declared else 1),
                activations=math.prod(shape),
                reads_input=any(id(tensor) in network_inputs for tensor in inputs),
            )
        )
    return Cost(tuple(layers), _size(network.trainable_variables))


def _size(variables: list[keras.Variable]) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def _macs(layer: keras.Layer, input_shape: tuple, output_shape: tuple, length: int) -> int:
    """Returns a layer's multiply-accumulates; a layer of ours that has some says so itself.

    Its ``macs`` are those of an example, or of one unit of length where the length is unknown.
    """
    if isinstance(layer, keras.layers.Conv2D):
        kernel = math.prod(layer.kernel_size) * input_shape[-1] // layer.groups
        return math.prod(output_shape) * kernel
    if isinstance(layer, keras.layers.Dense):
        return math.prod(output_shape) * input_shape[-1]
    return getattr(layer, "macs", 0) * length
