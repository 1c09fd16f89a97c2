"""What an application calls to translate word by word: the encoder, and a step of the decoder."""

import keras
import tensorflow as tf

from fathom.model.workload import Part
from fathom.seq2seq.decoder import Annotations, Decoder, State


def parts(encoder: keras.Model, decoder: Decoder, length: int) -> dict[str, Part]:
    """Returns the encoder, and the step of the decoder that an application repeats.

    Args:
        encoder: returns the arguments of ``decoder`` for source words int32 [batch, source].
        decoder: of the network.
        length: words of the source.
    """

    def start(source: tf.Tensor) -> dict[str, tf.Tensor]:
        state, annotations = decoder.start(*encoder(source, training=False))
        return _named(state) | (annotations._asdict() if annotations else {})

    first = Part(start, [tf.TensorSpec([None, length], tf.int32, "source")])
    carried = first.outputs()

    def step(words: tf.Tensor, *values: tf.Tensor) -> dict[str, tf.Tensor]:
        named = {spec.name: value for spec, value in zip(carried, values, strict=True)}
        logits, new = decoder.step(words, *_unnamed(named))
        return {"logits": logits} | {f"new_{k}": value for k, value in _named(new).items()}

    words = tf.TensorSpec([None], tf.int32, "words")
    return {"encoder": first, "step": Part(step, [words, *carried])}


def _named(state: State) -> dict[str, tf.Tensor]:
    """Returns the parts of a state by name."""
    hidden = {f"hidden_{i}": tensor for i, tensor in enumerate(state.hidden, 1)}
    memory = {f"memory_{i}": tensor for i, tensor in enumerate(state.memory, 1)}
    return {"output": state.output, **hidden, **memory}


def _unnamed(values: dict[str, tf.Tensor]) -> tuple[State, Annotations | None]:
    """Returns the state, and what the decoder attends to, of tensors by name."""
    depth = sum(name.startswith("hidden_") for name in values)
    hidden = tuple(values[f"hidden_{i}"] for i in range(1, depth + 1))
    memory = tuple(values[f"memory_{i}"] for i in range(1, depth + 1))
    state = State(values["output"], hidden, memory)
    if "keys" not in values:
        return state, None
    return state, Annotations(*(values[name] for name in Annotations._fields))
