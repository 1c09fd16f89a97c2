"""The minimum memory of a run, estimated from its network before most of it is allocated."""

import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from fathom.results import cost
from fathom.system.memory import address_space, require_free_memory

# A process aborts where a kernel or thread is refused memory, as by an address-space limit. Steps
# of alexnet and residual took 2.7 and 2.8 times the estimate; the threads' stacks come on top.
_TAKEN, _THREADS = 3, 512 * 2**20


def require_memory(
    workload: str,
    network: keras.Model,
    batch: Sequence[tf.TensorSpec],
    steps_per_call: int,
    blocks: int,
    trains: bool,
) -> None:
    """Raises FathomError if the steps of a workload do not fit into the machine's free memory."""
    what, remedy = f"a step of {workload}", "use a smaller --batch-size"
    if steps_per_call > 1:
        what = f"a call of {steps_per_call} steps of {workload}"
        remedy += ", or --set steps_per_call=1"
    needed = bytes_needed(network, batch, steps_per_call, blocks, trains)
    if address_space() is not None:
        needed = _TAKEN * needed + _THREADS
    require_free_memory(needed, f"{what} at batch size {batch[0].shape[0]:,}", remedy)


def bytes_needed(
    network: keras.Model,
    batch: Sequence[tf.TensorSpec],
    steps_per_call: int,
    blocks: int,
    trains: bool,
) -> int:
    """Returns the bytes that steps need in addition to parameters and optimizer slots.

    It is an estimate from below: temporary tensors inside operations are not counted, nor what
    layers without parameters return, and a dimension of any length counts as 1.

    Args:
        network: a built network.
        batch: shapes and dtypes of a batch.
        steps_per_call: batches per block.
        blocks: number of blocks in memory at once.
        trains: training steps, which keep every activation for the backward pass.
    """
    size = batch[0].shape[0]
    inputs = blocks * steps_per_call * sum(_item_count(spec) * spec.dtype.size for spec in batch)
    layers = [layer for layer in cost.count(network).layers if layer.parameters]
    activations = [size * layer.activations * _item_bytes(network, layer.name) for layer in layers]
    if trains:
        gradient = max((layer.parameters for layer in layers), default=0) * tf.float32.size
        return inputs + sum(activations) + gradient
    outputs = sum(
        size * _item_count(output) * tf.as_dtype(output.dtype).size
        for output in keras.tree.flatten(network.output)
    )
    return inputs + max(activations, default=0) + steps_per_call * outputs


def _item_count(tensor: tf.TensorSpec | keras.KerasTensor) -> int:
    """Returns the number of values; a dimension of any length counts as 1."""
    return math.prod(length or 1 for length in tensor.shape)


def _item_bytes(network: keras.Model, layer: str) -> int:
    return tf.as_dtype(network.get_layer(layer).compute_dtype).size
