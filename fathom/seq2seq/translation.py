"""Translation of whole texts by a trained encoder and decoder."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from fathom.seq2seq import buckets
from fathom.seq2seq.corpus import Corpus
from fathom.seq2seq.decoder import Annotations, Decoder, State
from fathom.seq2seq.vocabulary import without_joiner
from fathom.translation.evaluation import Alignment
from fathom.translation.sentences import EncodedPairs
from fathom.translation.symbols import PAD
from fathom.workload import Part


class Translator:
    """Translates by the current weights of an encoder and a decoder.

    Args:
        encoder: returns the decoder's inputs for source words int32 [batch, words].
        decoder: of the network.
        sizes: the buckets by which sentences are padded.
        device: TensorFlow's name of the device.
        compiles: XLA compiles the translation.
    """

    def __init__(
        self,
        encoder: keras.Model,
        decoder: Decoder,
        sizes: tuple[buckets.Bucket, ...],
        device: str,
        compiles: bool,
    ) -> None:
        self.encoder, self._decoder, self._sizes = encoder, decoder, sizes
        self._device, self._compiles = device, compiles

    def translate(self, source: tf.Tensor) -> tf.Tensor:
        """Returns translations int32 [batch, words] of source words int32 [batch, words]."""
        return self._decoder(*self.encoder(source, training=False))

    def translate_pairs(self, pairs: EncodedPairs, batch_size: int) -> np.ndarray:
        """Translates the source side; returns int32 [pairs, words], padded after ``<eos>``."""
        assigned = buckets.assign_by_source(pairs, self._sizes)
        words = np.full((len(pairs), self._sizes[-1].target), PAD, np.int32)
        decode = {
            bucket.source: tf.function(
                self.translate,
                [tf.TensorSpec([None, bucket.source], tf.int32)],
                autograph=False,
                jit_compile=self._compiles,
            )
            for bucket in self._sizes
        }
        for chosen, batch in buckets.batches_in_turn(pairs, assigned, self._sizes, batch_size):
            with tf.device(self._device):
                decoded = decode[batch.source.shape[1]](batch.source).numpy()
            words[chosen, : decoded.shape[1]] = decoded
        return words

    def parts(self, length: int) -> dict[str, Part]:
        """Returns the encoder, and the step of the decoder that an application repeats.

        Args:
            length: words of the source.
        """
        encoder = Part(self._start, [tf.TensorSpec([None, length], tf.int32, "source")])
        state = encoder.outputs()

        def step(words: tf.Tensor, *values: tf.Tensor) -> dict[str, tf.Tensor]:
            named = {spec.name: value for spec, value in zip(state, values, strict=True)}
            logits, new = self._decoder.step(words, *_unnamed(named))
            return {"logits": logits} | {f"new_{k}": value for k, value in _named(new).items()}

        words = tf.TensorSpec([None], tf.int32, "words")
        return {"encoder": encoder, "step": Part(step, [words, *state])}

    def _start(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the decoder's first state, and what it attends to, by name."""
        state, annotations = self._decoder.start(*self.encoder(source, training=False))
        return _named(state) | (annotations._asdict() if annotations else {})

    def attention(self, source: tf.Tensor, target: tf.Tensor) -> np.ndarray:
        """Returns the decoder's attention to source words while it reads the target words.

        Args:
            source: int32 [batch, source].
            target: int32 [batch, target], ``<go>`` first.

        Returns:
            float32 [batch, target, source].
        """
        encoded, states, hidden, memory = self.encoder(source, training=False)
        alignment = self._decoder.alignment(encoded, states, hidden, memory, target)
        return tf.transpose(alignment, (1, 0, 2)).numpy()[:, :, ::-1]  # in source order

    def alignments(
        self, pairs: EncodedPairs, translations: np.ndarray, corpus: Corpus
    ) -> Iterator[Alignment]:
        """Yields the sentences with their translations and attention.

        Args:
            pairs: the source side was translated.
            translations: int32 [pairs, words].
            corpus: has the words.
        """
        for i in range(len(pairs)):
            batch = buckets.make_batch(pairs, np.array([i]), self._sizes[-1])
            read = np.concatenate([batch.target[:, :1], translations[i : i + 1, :-1]], 1)
            (attention,) = self.attention(batch.source, tf.constant(read))
            source = [*map(without_joiner, corpus.source.tokens(batch.source[0].numpy()))]
            said = [*map(without_joiner, corpus.target.tokens(translations[i]))]
            yield Alignment(source, said, attention[: len(said), : len(source)])


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
