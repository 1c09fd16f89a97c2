"""The memory that a run needs at least, known from its network before most of it is allocated."""

import math
from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from fathom.results import cost


def bytes_needed(
    network: keras.Model,
    batch: Sequence[tf.TensorSpec],
    steps_per_call: int,
    blocks: int,
    trains: bool,
) -> int:
    """Returns the bytes that steps take beside parameters and optimizer slots.

    It is an estimate from below: temporary tensors inside operations are not counted, nor what
    layers without parameters return.

    Args:
        network: a built network.
        batch: shapes and dtypes of a batch.
        steps_per_call: batches of a block.
        blocks: how many blocks are in memory at once.
        trains: the steps train, which keeps every activation for the backward pass.
    """
    size = batch[0].shape[0]
    a_batch = sum(_known_size(spec.shape) * spec.dtype.size for spec in batch)
    inputs = blocks * steps_per_call * a_batch
    layers = [layer for layer in cost.count(network).layers if layer.parameters]
    activations = [size * layer.activations * _item_bytes(network, layer.name) for layer in layers]
    if trains:
        gradient = max((layer.parameters for layer in layers), default=0) * tf.float32.size
        return inputs + sum(activations) + gradient
    outputs = sum(
        size * _known_size(output.shape[1:]) * tf.as_dtype(output.dtype).size
        for output in keras.tree.flatten(network.output)
    )
    return inputs + max(activations, default=0) + steps_per_call * outputs


def _known_size(shape: Iterable[int | None]) -> int:
    """Returns the product of the dimensions that do not vary from batch to batch."""
    return math.prod(n or 1 for n in shape)


def _item_bytes(network: keras.Model, layer: str) -> int:
    return tf.as_dtype(network.get_layer(layer).compute_dtype).size
