"""The transformer for translation: Vaswani et al. 2017, "Attention Is All You Need".

Sizes and the training's constants for Multi30k are those of Wu et al. 2021, "Good for
Misconceived Reasons", for its text-only transformer. Section numbers are Vaswani et al.'s.
"""

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom import nn, options
from fathom.errors import FathomError
from fathom.layers import Dropout
from fathom.modern.transformer import batches, subwords
from fathom.modern.transformer.batches import Batch, Shape
from fathom.modern.transformer.formulas import smoothed_cross_entropy
from fathom.modern.transformer.hyperparameters import SIZES, TransformerHyperparameters
from fathom.modern.transformer.layers import DecoderLayer, Embedding, EncoderLayer, Random, Sizes
from fathom.training.optimizers import Adam, Optimizer
from fathom.translation.multi30k import Multi30k
from fathom.translation.sentences import EncodedPairs
from fathom.translation.symbols import PAD
from fathom.translation.wmt import Wmt


class Transformer(nn.NeuralNetworkModel):
    """Translation by attention alone, with an encoder and a decoder."""

    name = "transformer"
    title = "transformer (Vaswani et al. 2017)"
    datasets = (Multi30k, Wmt)
    Hyperparameters = TransformerHyperparameters
    hyperparameters: TransformerHyperparameters
    example = "sentences"

    def build_hyperparameters(self, values: Mapping[str, object]) -> TransformerHyperparameters:
        """Returns the hyperparameters, with the values of ``size`` as defaults."""
        return options.build(
            TransformerHyperparameters, {**SIZES.get(str(values.get("size")), {}), **values}
        )

    def load_data(self) -> None:
        """Reads the texts, and splits them by the training text's subwords."""
        chosen = self.hyperparameters
        self.texts = self.dataset.load(
            self.source.directory, chosen.source_language, chosen.target_language
        )
        self.subwords = subwords.load(self.texts.training, chosen.vocabulary)
        self.pairs = self.subwords.encode(pair for text in self.texts.training for pair in text)
        self._validation = self.subwords.encode(self.texts.validation or ())
        self.test_pairs = list(self.texts.test or ())
        self.test = self.subwords.encode(self.test_pairs)
        self._assigned = batches.assign(self.pairs, self.lengths)

    # ---------------------------------------------------------------- network

    def build(self) -> None:
        """Builds the network, and what the average of its weights needs."""
        super().build()
        number = self.hyperparameters.average
        with tf.device("/cpu:0"):
            self._kept_epochs = tf.Variable(0, dtype=tf.int64, name="kept_epochs")
            self._kept = [
                tf.Variable(
                    tf.zeros([number, *variable.shape]),
                    name="kept-" + variable.path.replace("/", "-"),
                )
                for variable in self.network.variables
            ]

    def build_inputs(self) -> nn.Nest:
        """Returns source words and the decoder's input words, int32 [batch, words]."""
        return (
            keras.Input((None,), dtype="int32", name="source"),
            keras.Input((None,), dtype="int32", name="target"),
        )

    def build_labels(self) -> nn.Nest:
        """Returns the decoder's expected output words: int32 [batch, words]."""
        return () if self.forward_only else keras.Input((None,), dtype="int32", name="words")

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """Returns the decoder's outputs, [batch, target, width]."""
        chosen = self.hyperparameters
        sizes = Sizes(chosen.width, chosen.heads, chosen.hidden_units, chosen.dropout)
        random = Random(self.new_seed, self.new_noise)
        source, target = inputs
        self._embedding = Embedding(
            chosen.vocabulary, chosen.width, self.new_seed(), name="embedding"
        )
        mask = keras.ops.not_equal(source, PAD)[:, None, None, :]
        x = Dropout(chosen.dropout, self.new_noise(), name="source_dropout")(
            self._embedding(source)
        )
        for i in range(chosen.layers):
            x = EncoderLayer(sizes, random, name=f"encoder_{i + 1}")(x, mask)
        encoded = x
        x = Dropout(chosen.dropout, self.new_noise(), name="target_dropout")(
            self._embedding(target)
        )
        for i in range(chosen.layers):
            x = DecoderLayer(sizes, random, name=f"decoder_{i + 1}")(x, encoded, mask)
        return x

    def build_loss(self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy per word in nats, with smoothed labels (section 5.4)."""
        chosen = self.hyperparameters
        states = tf.reshape(outputs, [-1, chosen.width])
        states = tf.cast(states, self._embedding.compute_dtype)
        words = tf.reshape(words, [-1])
        matrix = self._embedding.matrix.value
        entropies = smoothed_cross_entropy(states, matrix, words, chosen.label_smoothing)
        real = tf.cast(words != PAD, tf.float32)
        return tf.reduce_sum(entropies * real) / tf.reduce_sum(real)

    def build_train(self) -> Optimizer:
        """Adam with the constants of section 5.3."""
        return Adam(self._rate(1), beta_2=0.98, epsilon=1e-9)

    def _rate(self, step: int) -> float:
        """Returns the learning rate of a step, counting from 1 (equation 3)."""
        chosen = self.hyperparameters
        warmup = chosen.warmup_steps
        return chosen.learning_rate * min(step / warmup, math.sqrt(warmup / step))

    def end_step(self, number: int) -> None:
        """Sets the learning rate of the next step."""
        self.learning_rate.assign(self._rate(number + 2))

    def build_evaluation(
        self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sentence's cross-entropy in nats, and its length in subwords."""
        states = tf.reshape(outputs, [-1, self.hyperparameters.width])
        logits = tf.matmul(states, self._embedding.matrix.value, transpose_b=True)
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(words, [-1]), logits)
        real = tf.cast(words != PAD, tf.float32)
        return {
            "cross_entropy": tf.reduce_sum(tf.reshape(entropies, tf.shape(words)) * real, 1),
            "words": tf.reduce_sum(real, 1),
        }

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns cross-entropy (nats) and perplexity per subword."""
        cross_entropy = sums["cross_entropy"] / sums["words"]
        return {"cross_entropy": cross_entropy, "perplexity": math.exp(cross_entropy)}

    def end_epoch(self, epoch: int) -> None:
        """Keeps the weights for the average, and notes the validation loss."""
        number = epoch % self.hyperparameters.average
        for kept, variable in zip(self._kept, self.network.variables, strict=True):
            kept[number].assign(variable.value)
        self._kept_epochs.assign(epoch + 1)
        if len(self._validation):
            metrics = self.metrics_of(self._in_turn(self._validation))
            self.note("validation_perplexity", metrics["perplexity"])

    def state(self) -> dict[str, tf.Variable]:
        """Returns the weights that each of the last epochs ended with."""
        return {variable.name.rpartition(":")[0]: variable for variable in self._kept} | {
            "kept_epochs": self._kept_epochs
        }

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Gives the network the mean of the weights that the last epochs ended with."""
        count = min(int(self._kept_epochs), self.hyperparameters.average)
        variables = [variable.value for variable in self.network.variables]
        before = [variable.numpy() for variable in variables]
        for kept, variable in zip(self._kept, variables, strict=True):
            variable.assign(tf.reduce_mean(kept[:count], 0) if count else variable)
        try:
            yield
        finally:
            for value, variable in zip(before, variables, strict=True):
                variable.assign(value)

    # ---------------------------------------------------------------- batches

    @functools.cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that batches are padded to, the smallest first."""
        return batches.parse(self.hyperparameters.lengths)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of batches, the longest last."""
        return batches.shapes(self.lengths, self.hyperparameters.batch_size)

    @functools.cached_property
    def _order(self) -> batches.Order:
        return batches.Order(self._assigned, self.shapes, self.execution.seed)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in one pass over the training pairs."""
        return self._order.steps_per_epoch

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns one signature per length: the step is compiled for fixed shapes."""
        names = ("source", "target", "words")[: 2 if self.forward_only else 3]
        return [[tf.TensorSpec(shape, tf.int32, name) for name in names] for shape in self.shapes]

    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of training pairs from ``first_step`` on."""
        return self._order.stream(self.pairs, first_step)

    def inference_batches(self) -> Iterator[tuple[tf.Tensor, ...]]:
        """Returns an endless stream of test pairs."""
        pairs = self.test if len(self.test) else self.pairs
        for batch in self._order.stream(pairs, 0):
            yield batch[:2]

    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns the test pairs once, cut to the largest length."""
        return self._in_turn(self.test)

    def _in_turn(self, pairs: EncodedPairs) -> Iterator[Batch]:
        assigned = batches.assign(pairs, self.lengths)
        for _, batch in batches.in_turn(pairs, assigned, self.shapes):
            yield batch


class TransformerFwd(Transformer):
    """Translation, inference only."""

    forward_only = True
