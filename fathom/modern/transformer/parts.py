"""What an application calls to translate word by word: the encoder, and a step of the decoder."""

import keras
import tensorflow as tf

from fathom.model.workload import Part
from fathom.modern.transformer.search import Search
from fathom.shared import attention

_SOURCE = "source_"  # before the names of the source's keys and values


def parts(encoder: keras.Model, search: Search, length: int) -> dict[str, Part]:
    """Returns the encoder, and the step of the decoder that an application repeats.

    What they pass on, each [batch, ...]: the ``position`` of the next word, int32; the decoder's
    ``keys_1``, ``values_1`` and so on, with room for the longest translation; those of the source,
    ``source_keys_1`` and so on; and the source's ``mask``.

    Args:
        encoder: returns the arguments of ``search`` for source words int32 [batch, source].
        search: of the network.
        length: words of the source, with padding.
    """

    def start(source: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded, mask = encoder(source, training=False)
        (position, caches), of_source = search.start(encoded)
        kept = attention.named(caches) | attention.named(of_source, _SOURCE)
        return {"position": position, **kept, "mask": mask}

    first = Part(start, [tf.TensorSpec([None, length], tf.int32, "source")])
    carried = first.outputs()

    def step(words: tf.Tensor, *values: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {spec.name: value for spec, value in zip(carried, values, strict=True)}
        state = given["position"], attention.unnamed(given)
        of_source = attention.unnamed(given, _SOURCE)
        logits, (position, caches) = search.step(words, state, of_source, given["mask"])
        return {"logits": logits, "new_position": position, **attention.named(caches, "new_")}

    words = tf.TensorSpec([None], tf.int32, "words")
    return {"encoder": first, "step": Part(step, [words, *carried])}
