"""The cost of a sentence pair, which depends on its lengths."""

import keras

from fathom.modern.transformer.layers import DecoderLayer, EncoderLayer
from fathom.modern.transformer.search import Search
from fathom.results.cost import Cost, count


def cost_of(network: keras.Model, length: int, steps: int) -> Cost:
    """Returns the cost of a pair of sentences of one length, padding included.

    Attention's products count in full, hidden or not: their number grows as the length's square.

    Args:
        network: of the workload.
        length: of both sentences.
        steps: of free decoding.
    """
    counted = count(network, length)
    matrix = network.get_layer("embedding").count_params()
    predicts = "words" if "words" in {layer.name for layer in network.layers} else "embedding"
    layers = []
    for row in counted.layers:
        layer, macs = network.get_layer(row.name), 0
        if isinstance(layer, EncoderLayer):
            macs = layer.macs_of(length)
        elif isinstance(layer, DecoderLayer):
            macs = layer.macs_of(length, length)
        elif isinstance(layer, Search):
            macs = layer.macs_of(length, steps)
        elif row.name == predicts and "search" not in {layer.name for layer in network.layers}:
            macs = length * matrix  # the softmax
        layers.append(row.model_copy(update={"macs": macs, "reads_input": False}))
    return Cost(tuple(layers), counted.parameters)
