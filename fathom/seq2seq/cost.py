"""The cost of a sentence pair, which depends on its bucket."""

import keras

from fathom.results.cost import Cost, count
from fathom.seq2seq.buckets import Bucket


def cost_of(network: keras.Model, bucket: Bucket, predicted: int, hypotheses: int = 1) -> Cost:
    """Returns the cost of a pair of a bucket's lengths, padding included.

    Args:
        network: of the workload.
        bucket: the lengths.
        predicted: words whose probability the softmax computes.
        hypotheses: of the beam search.
    """
    counted = count(network)
    layers = []
    for layer in counted.layers:
        length, macs = bucket.source, 0
        if layer.name == "decoder":
            length = bucket.target
            macs = network.get_layer("decoder").macs_of(bucket, predicted, hypotheses)
        elif layer.name.startswith("encoder_"):
            macs = network.get_layer(layer.name).macs_of(bucket.source)
        found = {
            "macs": macs,
            "reads_input": False,
            "output_shape": (length, *layer.output_shape[1:]),
            "activations": length * layer.activations,
        }
        layers.append(layer.model_copy(update=found))
    return Cost(tuple(layers), counted.parameters)
