"""The transformer for translation: Vaswani et al. 2017, "Attention Is All You Need".

Sizes and the training's constants for Multi30k are those of Wu et al. 2021, "Good for
Misconceived Reasons", for its text-only transformer. Section numbers are Vaswani et al.'s.
"""

import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from fathom import nn
from fathom.core.layers import Dropout
from fathom.core.training.optimizers import Optimizer, create
from fathom.model.workload import Part
from fathom.modern.transformer import lengths, subwords
from fathom.modern.transformer.averaging import EpochMean
from fathom.modern.transformer.descriptor import DESCRIPTOR
from fathom.modern.transformer.embedding import Embedding, MostProbable
from fathom.modern.transformer.formulas import smoothed_cross_entropy
from fathom.modern.transformer.hyperparameters import TransformerHyperparameters
from fathom.modern.transformer.layers import DecoderLayer, EncoderLayer, Sizes
from fathom.modern.transformer.parts import parts
from fathom.modern.transformer.search import Search, longest_translation
from fathom.results.cost import Cost, count
from fathom.shared.translation.batches import Shape
from fathom.shared.translation.model import Translation, mean_of_words, real
from fathom.shared.translation.sentences import EncodedPairs
from fathom.shared.translation.symbols import PAD
from fathom.system.device import CPU


class Transformer(Translation):
    """Translation by attention alone, with an encoder and a decoder."""

    descriptor = DESCRIPTOR
    divides_batches = True
    blocks = "layers"
    Hyperparameters = TransformerHyperparameters
    hyperparameters: TransformerHyperparameters

    # ---------------------------------------------------------------- data

    def load_vocabulary(self) -> None:
        """Makes the subwords of the training text, or loads them from the cache."""
        self._use(subwords.load(self.texts.training, self.hyperparameters.vocabulary))

    def _use(self, vocabulary: subwords.Subwords) -> None:
        self.subwords = vocabulary
        self.vocabularies = vocabulary, vocabulary

    def encode(self, pairs: Iterable[tuple[str, str]]) -> EncodedPairs:
        """Returns sentence pairs as the ids of their subwords."""
        return self.subwords.encode(pairs)

    def describe_data(self) -> dict[str, Any]:
        """Returns the sizes of the text and its vocabulary, and what was left out."""
        return {
            "training_pairs": len(self.pairs),
            "subwords": len(self.subwords),
            "unfit": self.unfit,
        }

    @functools.cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of batches: source and target of one length each."""
        hyperparameters = self.hyperparameters
        return lengths.shapes(lengths.parse(hyperparameters.lengths), hyperparameters.batch_size)

    # ---------------------------------------------------------------- network

    def build_state(self) -> None:
        """Creates what the average of the weights needs."""
        with CPU.placement():
            self._kept_subwords = tf.Variable(b"", dtype=tf.string, name="subwords")
            self._mean = EpochMean(self.network.variables, self.hyperparameters.average)

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """Encodes the source sentence, and decodes it.

        Returns:
            in training the decoder's outputs, [batch, target, width]; in the forward-only twin the
            translation, or the most probable word after each given one, int32 [batch, target].
        """
        hyperparameters = self.hyperparameters
        sizes = Sizes(
            hyperparameters.width,
            hyperparameters.heads,
            hyperparameters.hidden_units,
            hyperparameters.dropout,
        )
        source, *target = keras.tree.flatten(inputs)
        self._embedding = Embedding(
            hyperparameters.vocabulary, hyperparameters.width, self.new_seed(), name="embedding"
        )
        mask = keras.ops.not_equal(source, PAD)[:, None, None, :]
        x = self._embedded(source, "source_dropout")
        for i in range(hyperparameters.layers):
            x = EncoderLayer(sizes, self.new_random(), name=f"encoder_{i + 1}")(x, mask)
        decoder = [
            DecoderLayer(sizes, self.new_random(), name=f"decoder_{i + 1}")
            for i in range(hyperparameters.layers)
        ]
        for layer in decoder:
            layer.build()
        beam = hyperparameters.beam_size, hyperparameters.length_penalty
        self.decoder = Search(self._embedding, decoder, sizes, *beam, name="search")
        self.encoder = keras.Model(source, [x, mask], name="encoder")
        if self.decodes_freely:
            return self.decoder(x, mask)
        outputs = self._embedded(target[0], "target_dropout")
        for layer in decoder:
            outputs = layer(outputs, x, mask)
        return (
            MostProbable(self._embedding, name="words")(outputs) if self.forward_only else outputs
        )

    def _embedded(self, words: keras.KerasTensor, name: str) -> keras.KerasTensor:
        dropout = Dropout(self.hyperparameters.dropout, self.new_noise(), name=name)
        return dropout(self._embedding(words))

    def build_loss(self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy per word in nats, with smoothed labels (section 5.4)."""
        hyperparameters = self.hyperparameters
        states = tf.reshape(outputs, [-1, hyperparameters.width])
        states = tf.cast(states, self._embedding.compute_dtype)
        words = tf.reshape(words, [-1])
        matrix = self._embedding.matrix.value
        with tf.name_scope(self._embedding.name):  # whose matrix the softmax multiplies by
            entropies = smoothed_cross_entropy(
                states, matrix, words, hyperparameters.label_smoothing
            )
        return mean_of_words(entropies, words)

    def build_train(self) -> Optimizer:
        """By default Adam; the constants are those of section 5.3."""
        name = self.hyperparameters.optimizer
        return create(name, self.scheduled_rate(0), beta_2=0.98, epsilon=1e-9)

    def scheduled_rate(self, step: int) -> float:
        """Returns the learning rate of equation 3, which counts steps from 1."""
        number, warmup = step + 1, self.hyperparameters.warmup_steps
        factor = min(number / warmup, math.sqrt(warmup / number))
        return self.hyperparameters.learning_rate * factor

    def end_step(self, number: int) -> None:
        """Sets the learning rate of the next step."""
        self.learning_rate.assign(self.scheduled_rate(number + 1))

    def build_evaluation(
        self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sentence's cross-entropy in nats, and its length in subwords."""
        logits = self._embedding.logits(tf.reshape(outputs, [-1, self.hyperparameters.width]))
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(words, [-1]), logits)
        counted = real(words)
        return {
            "cross_entropy": tf.reduce_sum(tf.reshape(entropies, tf.shape(words)) * counted, 1),
            "words": tf.reduce_sum(counted, 1),
        }

    def end_epoch(self, epoch: int) -> None:
        """Keeps the weights for the average, and notes the validation loss."""
        self._mean.keep()
        self.validate()

    def state(self) -> dict[str, tf.Variable]:
        """Returns the weights that each of the last epochs ended with, and the vocabulary."""
        return {**self._mean.state(), "subwords": self._kept_subwords}

    def save_state(self) -> None:
        """Keeps the vocabulary: the network knows no other."""
        self._kept_subwords.assign(self.subwords.model)

    def restore_state(self) -> None:
        """Splits the texts by the checkpoint's vocabulary, if theirs is another."""
        model = self._kept_subwords.numpy()
        if model != self.subwords.model:
            self._use(subwords.Subwords(model))
            self.encode_texts()
            self.notes.append("the vocabulary is the checkpoint's, not that of the training text")

    # ---------------------------------------------------------------- translation and its cost

    @property
    def average(self) -> EpochMean:
        """The mean of the weights that the last epochs ended with (6.1)."""
        return self._mean

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes translations and a picture of the attention, by the same mean."""
        with self.evaluated_weights():
            return super().save_pictures(directory)

    def longest_translation(self, shape: Shape) -> int:
        """Returns twice the source's length."""
        return longest_translation(shape.source)

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the encoder, and one step of the decoder with its cache."""
        source, *_ = self.signature_of_length(length)
        return parts(self.encoder, self.decoder, source.shape[1])

    def cost_of(self, shape: Shape, steps: int) -> Cost:
        """Returns the cost of a pair of a length.

        Attention's products count in full, hidden or not: their number grows as its square.
        """
        length, names = shape.source, {layer.name for layer in self.network.layers}
        counted, layers = count(self.network, length), []
        predicts = "words" if "words" in names else "embedding"
        for row in counted.layers:
            layer, macs = self.network.get_layer(row.name), 0
            if isinstance(layer, EncoderLayer):
                macs = layer.macs_of(length)
            elif isinstance(layer, DecoderLayer):
                macs = layer.macs_of(length, length)
            elif isinstance(layer, Search):
                macs = layer.macs_of(length, steps)
            elif row.name == predicts and "search" not in names:
                macs = length * math.prod(self._embedding.matrix.shape)  # the softmax
            layers.append(row.model_copy(update={"macs": macs, "reads_input": False}))
        return Cost(tuple(layers), counted.parameters)


class TransformerFwd(Transformer):
    """Translation, inference only: the decoder reads its own output, or the test text's."""

    forward_only = True
    default_xla = "step"  # free decoding takes little more than half the time
