"""Sequence to sequence learning with attention, at the size of Fathom's workload.

Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks", with the
attention of Bahdanau, Cho and Bengio 2015, "Neural Machine Translation by Jointly Learning to Align
and Translate". Section numbers are those of Sutskever et al. unless another paper is named.
"""

import functools
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.core.layers import Dropout
from fathom.core.training.optimizers import Optimizer, create
from fathom.core.training.schedules import Plateau
from fathom.model.workload import Part
from fathom.results.cost import Cost, count
from fathom.seq2seq import buckets, corpus
from fathom.seq2seq.buckets import Bucket
from fathom.seq2seq.decoder import Decoder
from fathom.seq2seq.descriptor import DESCRIPTOR
from fathom.seq2seq.hyperparameters import Seq2SeqHyperparameters
from fathom.seq2seq.layers import LSTM, Embedding, uniform
from fathom.seq2seq.parts import parts
from fathom.seq2seq.sampled_softmax import sampled_cross_entropy
from fathom.shared.translation import batches
from fathom.shared.translation.batches import Shape
from fathom.shared.translation.model import Translation, mean_of_words, real
from fathom.shared.translation.sentences import EncodedPairs


class Seq2Seq(Translation):
    """Translation by an LSTM encoder and an LSTM decoder that attends to it."""

    descriptor = DESCRIPTOR
    divides_batches = True
    Hyperparameters = Seq2SeqHyperparameters
    hyperparameters: Seq2SeqHyperparameters

    # ---------------------------------------------------------------- data

    def load_vocabulary(self) -> None:
        """Tokenizes the training text."""
        hyperparameters = self.hyperparameters
        settings = corpus.Settings(
            hyperparameters.source_vocabulary,
            hyperparameters.target_vocabulary,
            hyperparameters.lowercase,
        )
        self.corpus = corpus.load(self.texts.training, settings)
        self.vocabularies = self.corpus.source, self.corpus.target

    def load_data(self) -> None:
        """Reads the texts; the hyperparameters say whether the decoder attends."""
        super().load_data()
        hyperparameters = self.hyperparameters
        self.attends, self.lowercase = hyperparameters.attention, hyperparameters.lowercase

    def encode(self, pairs: Iterable[tuple[str, str]]) -> EncodedPairs:
        """Returns sentence pairs as the ids of their words."""
        return self.corpus.encode(pairs)

    def encode_training(self) -> EncodedPairs:
        """Returns the training pairs, which are kept in a cache."""
        return self.corpus.pairs

    @property
    def blank_pairs(self) -> int:
        """Number of training pairs that are left out, as a side is blank."""
        return self.corpus.blank

    def describe_data(self) -> dict[str, object]:
        """Returns the sizes of the text and its vocabularies, and what was left out."""
        return {
            "training_pairs": len(self.corpus.pairs),
            "source_words": len(self.corpus.source),
            "target_words": len(self.corpus.target),
            "left_out": self.unfit,
        }

    @functools.cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of batches: a bucket each."""
        size = self.hyperparameters.batch_size
        return tuple(Shape(size, *bucket) for bucket in self._buckets)

    @property
    def _buckets(self) -> tuple[Bucket, ...]:
        return buckets.parse(self.hyperparameters.buckets)

    @property
    def nominal_shape(self) -> Shape:
        """That of the second largest bucket."""
        return self.shapes[-2:][0]

    def assign_inferred(self, pairs: EncodedPairs) -> np.ndarray:
        """Returns each pair's bucket; in free decoding the source alone decides."""
        if self.decodes_freely:
            return batches.assign_by_source(pairs, self.shapes)
        return super().assign_inferred(pairs)

    # ---------------------------------------------------------------- network

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """Encodes the reversed source sentence, and decodes it.

        Returns:
            in training the decoder's outputs, [batch, target, units]; in the forward-only twin the
            translation, or the most probable word after each given one, int32 [batch, target].
        """
        hyperparameters = self.hyperparameters
        source, *target = keras.tree.flatten(inputs)
        encoded = self._encode(source)
        self.encoder = keras.Model(source, encoded, name="encoder")
        self.decoder = Decoder(
            hyperparameters.target_vocabulary,
            hyperparameters.units,
            hyperparameters.layers,
            hyperparameters.attention,
            hyperparameters.dropout,
            hyperparameters.beam_size,
            hyperparameters.initial_range,
            self.new_random(),
            self.new_noise(),
            self._buckets,
            name="decoder",
        )
        self.decoder.build()
        self._sampling = self.new_noise()
        forced = self.forward_only and not self.decodes_freely
        return self.decoder(*encoded, *target, most_probable=forced)

    def _encode(self, source: keras.KerasTensor) -> list[nn.Nest]:
        """Returns the reversed words, the top states, and each layer's final state and memory."""
        hyperparameters = self.hyperparameters
        # Reversed, so that the first words of both sentences are close (section 3.3).
        words = keras.ops.flip(source, 1)
        states = Embedding(
            hyperparameters.source_vocabulary,
            hyperparameters.units,
            uniform(hyperparameters.initial_range, self.new_random()),
            name="source_embedding",
        )(words)
        hidden, memory = [], []
        for i in range(1, hyperparameters.layers + 1):
            largest, random = hyperparameters.initial_range, self.new_random()
            lstm = LSTM(hyperparameters.units, largest, random, name=f"encoder_{i}")
            states, last_hidden, last_memory = lstm(self._dropped(states, i), words)
            hidden.append(last_hidden)
            memory.append(last_memory)
        return [words, self._dropped(states, hyperparameters.layers + 1), hidden, memory]

    def _dropped(self, states: keras.KerasTensor, number: int) -> keras.KerasTensor:
        if not self.hyperparameters.dropout:
            return states
        dropout = Dropout(
            self.hyperparameters.dropout, self.new_noise(), axis=1, name=f"dropout_{number}"
        )
        return dropout(states)

    def build_loss(self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy per word in nats, by the sampled softmax."""
        states = tf.reshape(outputs, [-1, self.hyperparameters.units])
        words = tf.reshape(words, [-1])
        if self.hyperparameters.samples:
            entropies = sampled_cross_entropy(
                states,
                words,
                self.decoder.softmax.value,
                self.decoder.softmax_bias.value,
                self.hyperparameters.samples,
                self._sampling.tensor(),
            )
        else:
            entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(
                words, self.decoder.logits(states)
            )
        return mean_of_words(entropies, words)

    def build_train(self) -> Optimizer:
        """By default gradient descent; the gradients are clipped by their global norm."""
        hyperparameters = self.hyperparameters
        optimizer = create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            global_clip_norm=hyperparameters.clip_norm,
        )
        self._plateau = Plateau(optimizer.learning_rate, 1 / hyperparameters.learning_rate_decay)
        return optimizer

    def build_evaluation(
        self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sentence's cross-entropy by the full softmax, in nats, and its length."""

        def of_step(step: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            states, words = step
            logits = self.decoder.logits(states)  # of one step at a time, to save memory
            entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
            return entropies * real(words)

        entropies = tf.map_fn(
            of_step,
            (tf.transpose(outputs, (1, 0, 2)), tf.transpose(words)),
            fn_output_signature=tf.float32,
        )
        return {
            "cross_entropy": tf.reduce_sum(entropies, 0),
            "words": tf.reduce_sum(real(words), 1),
        }

    def end_epoch(self, epoch: int) -> None:
        """Lowers the learning rate if the validation loss has not fallen."""
        metrics = self.validate()
        if metrics:
            self._plateau.update(metrics["cross_entropy"])
            self.note("learning_rate", float(self.learning_rate.numpy()))

    def state(self) -> dict[str, tf.Variable]:
        """Returns the state of the learning-rate schedule."""
        if self.forward_only:
            return {}
        return {"plateau_best": self._plateau.best, "plateau_stalled": self._plateau.stalled}

    # ---------------------------------------------------------------- translation and its cost

    def longest_translation(self, shape: Shape) -> int:
        """Returns the length of the bucket's target sentences."""
        return shape.target

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the encoder, and one step of free decoding; by default of the largest bucket."""
        specs = self.signatures()[-1] if length is None else self.signature_of_length(length)
        return parts(self.encoder, self.decoder, specs[0].shape[1])

    def cost_of(self, shape: Shape, steps: int) -> Cost:
        """Returns the cost of a pair of a bucket's lengths, padding included."""
        hyperparameters, free = self.hyperparameters, self.decodes_freely
        sampled = hyperparameters.samples and not self.forward_only
        predicted = hyperparameters.samples + 1 if sampled else hyperparameters.target_vocabulary
        bucket = Bucket(shape.source, steps if free else shape.target)
        hypotheses = hyperparameters.beam_size if free else 1
        counted, layers = count(self.network), []
        for row in counted.layers:
            layer, length, macs = self.network.get_layer(row.name), bucket.source, 0
            if row.name == "decoder":
                length, macs = bucket.target, layer.macs_of(bucket, predicted, hypotheses)
            elif row.name.startswith("encoder_"):
                macs = layer.macs_of(bucket.source)
            found = {
                "macs": macs,
                "reads_input": False,
                "output_shape": (length, *row.output_shape[1:]),
                "activations": length * row.activations,
            }
            layers.append(row.model_copy(update=found))
        return Cost(tuple(layers), counted.parameters)


class Seq2SeqFwd(Seq2Seq):
    """Translation, inference only: the decoder reads its own output, or the test text's."""

    forward_only = True
