"""The transformer for translation: Vaswani et al. 2017, "Attention Is All You Need".

Sizes and the training's constants for Multi30k are those of Wu et al. 2021, "Good for
Misconceived Reasons", for its text-only transformer. Section numbers are Vaswani et al.'s.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom import nn, options
from fathom.errors import FathomError
from fathom.layers import Dropout, Random
from fathom.modern.transformer import batches, subwords
from fathom.modern.transformer.averaging import EpochMean
from fathom.modern.transformer.batches import Batch, Shape
from fathom.modern.transformer.cost import cost_of
from fathom.modern.transformer.embedding import Embedding, MostProbable
from fathom.modern.transformer.formulas import smoothed_cross_entropy
from fathom.modern.transformer.hyperparameters import SIZES, TransformerHyperparameters
from fathom.modern.transformer.layers import DecoderLayer, EncoderLayer, Sizes
from fathom.modern.transformer.parts import parts
from fathom.modern.transformer.search import (
    Search,
    alignments,
    longest_translation,
    translate,
)
from fathom.options import Characterization
from fathom.results.cost import Cost
from fathom.results.generation import Generation
from fathom.training.optimizers import Adam, Optimizer
from fathom.training.phases import Phases
from fathom.translation import evaluation
from fathom.translation.multi30k import Multi30k
from fathom.translation.sentences import EncodedPairs
from fathom.translation.symbols import PAD
from fathom.translation.wmt import Wmt
from fathom.workload import Part


class Transformer(nn.NeuralNetworkModel):
    """Translation by attention alone, with an encoder and a decoder."""

    name = "transformer"
    title = "transformer (Vaswani et al. 2017)"
    datasets = (Multi30k, Wmt)
    Hyperparameters = TransformerHyperparameters
    hyperparameters: TransformerHyperparameters
    example = "sentences"
    characterization = Characterization(inference_setting="decoding=teacher-forced")

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
        self.test_pairs = list(self.texts.test or ())
        self._encode()
        self.notes += [f"{what}: {number:,}" for what, number in self._unfit().items()]

    def _encode(self) -> None:
        """Splits the texts into subwords."""
        self.pairs = self.subwords.encode(pair for text in self.texts.training for pair in text)
        self._validation = self.subwords.encode(self.texts.validation or ())
        self.test = self.subwords.encode(self.test_pairs)
        self._assigned = batches.assign(self.pairs, self.lengths)

    def _unfit(self) -> dict[str, int]:
        """Returns the number of pairs that are not used as they are, by reason."""
        longest = len(self.lengths)
        counts = {
            "left out: pairs with a blank side": sum(text.blank for text in self.texts.training),
            "left out: training pairs longer than the largest length": np.sum(
                self._assigned == longest
            ),
            "cut: test pairs longer than the largest length": np.sum(
                batches.assign(self.test, self.lengths) == longest
            ),
        }
        return {reason: int(number) for reason, number in counts.items() if number}

    def describe_data(self) -> dict[str, Any]:
        """Returns the sizes of the text and its vocabulary, and what was left out."""
        return {
            "training_pairs": len(self.pairs),
            "subwords": len(self.subwords),
            "unfit": self._unfit(),
        }

    # ---------------------------------------------------------------- network

    def build(self) -> None:
        """Builds the network, and what the average of its weights needs."""
        super().build()
        with tf.device("/cpu:0"):
            self._kept_subwords = tf.Variable(b"", dtype=tf.string, name="subwords")
            self._mean = EpochMean(self.network.variables, self.hyperparameters.average)

    def build_inputs(self) -> nn.Nest:
        """Returns source words and, unless decoding is free, the decoder's input words.

        Both int32 [batch, words], padded at the end.
        """
        source = keras.Input((None,), dtype="int32", name="source")
        if self._decodes_freely:
            return source
        return source, keras.Input((None,), dtype="int32", name="target")

    @property
    def _decodes_freely(self) -> bool:
        """Whether the decoder reads its own words: only in forward-only models."""
        return self.forward_only and self.hyperparameters.decoding == "free"

    def build_labels(self) -> nn.Nest:
        """Returns the decoder's expected output words: int32 [batch, words]."""
        return () if self.forward_only else keras.Input((None,), dtype="int32", name="words")

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """Encodes the source sentence, and decodes it.

        Returns:
            in training the decoder's outputs, [batch, target, width]; in the forward-only twin the
            translation, or the most probable word after each given one, int32 [batch, target].
        """
        chosen = self.hyperparameters
        sizes = Sizes(chosen.width, chosen.heads, chosen.hidden_units, chosen.dropout)
        source, *target = keras.tree.flatten(inputs)
        self._embedding = Embedding(
            chosen.vocabulary, chosen.width, self.new_seed(), name="embedding"
        )
        mask = keras.ops.not_equal(source, PAD)[:, None, None, :]
        x = self._embedded(source, "source_dropout")
        for i in range(chosen.layers):
            x = EncoderLayer(sizes, self._new_random(), name=f"encoder_{i + 1}")(x, mask)
        decoder = [
            DecoderLayer(sizes, self._new_random(), name=f"decoder_{i + 1}")
            for i in range(chosen.layers)
        ]
        for layer in decoder:
            layer.build()
        self._search = Search(
            *(self._embedding, decoder, sizes, chosen.beam_size, chosen.length_penalty),
            name="search",
        )
        self._encoder = keras.Model(source, [x, mask], name="encoder")
        translated = self._search(x, mask)
        self._translator = keras.Model(source, translated, name="translator")
        if self._decodes_freely:
            return translated
        outputs = self._embedded(target[0], "target_dropout")
        for layer in decoder:
            outputs = layer(outputs, x, mask)
        return (
            MostProbable(self._embedding, name="words")(outputs) if self.forward_only else outputs
        )

    def _new_random(self) -> Random:
        return Random(iter(self.new_seed, None), self._noise_step)

    def _embedded(self, words: keras.KerasTensor, name: str) -> keras.KerasTensor:
        dropout = Dropout(self.hyperparameters.dropout, self.new_noise(), name=name)
        return dropout(self._embedding(words))

    def build_loss(self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy per word in nats, with smoothed labels (section 5.4)."""
        chosen = self.hyperparameters
        states = tf.reshape(outputs, [-1, chosen.width])
        states = tf.cast(states, self._embedding.compute_dtype)
        words = tf.reshape(words, [-1])
        matrix = self._embedding.matrix.value
        with tf.name_scope(self._embedding.name):  # whose matrix the softmax multiplies by
            entropies = smoothed_cross_entropy(states, matrix, words, chosen.label_smoothing)
        real = tf.cast(words != PAD, tf.float32)
        return tf.reduce_sum(entropies * real) / tf.reduce_sum(real)

    def loss_denominator(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the number of words without padding."""
        return tf.reduce_sum(tf.cast(words != PAD, tf.float32))

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
        logits = self._embedding.logits(tf.reshape(outputs, [-1, self.hyperparameters.width]))
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
        self._mean.keep(epoch)
        if len(self._validation):
            metrics = self.metrics_of(self._in_turn(self._validation))
            self.note("validation_perplexity", metrics["perplexity"])

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
            self.subwords = subwords.Subwords(model)
            self._encode()
            self.notes.append("the vocabulary is the checkpoint's, not that of the training text")

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
        return [self._signature(shape) for shape in self.shapes]

    def _signature(self, shape: Shape) -> list[tf.TensorSpec]:
        names = ["source", "target", "words"][: self._tensors]
        return [tf.TensorSpec(shape, tf.int32, name) for name in names]

    @property
    def _tensors(self) -> int:
        """Number of tensors in a batch."""
        return 1 if self._decodes_freely else 2 if self.forward_only else 3

    def signature_of_length(self, length: int | None) -> list[tf.TensorSpec]:
        """Returns the batch shape for sentences of ``length`` subwords; None: the largest.

        Raises:
            FathomError: there is no such length.
        """
        for shape in self.shapes:
            if shape.length >= (self.lengths[-1] if length is None else length):
                return self._signature(shape)
        raise FathomError(f"none of the lengths {self.hyperparameters.lengths} holds {length}")

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the encoder, and one step of the decoder with its cache."""
        source, *_ = self.signature_of_length(length)
        return parts(self._encoder, self._search, source.shape[1])

    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of training pairs from ``first_step`` on."""
        return self._order.stream(self.pairs, first_step)

    def inference_batches(self) -> Iterator[tuple[tf.Tensor, ...]]:
        """Returns an endless stream of test sentences, or training ones without a test text.

        Pairs, if the decoder reads the target sentence.
        """
        pairs = self.test if len(self.test) else self.pairs
        longest = len(self.lengths) - 1
        assigned = np.minimum(batches.assign(pairs, self.lengths), longest)
        order = batches.Order(assigned, self.shapes, self.execution.seed)
        for batch in order.stream(pairs, 0):
            yield batch[: self._tensors]

    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns the test pairs once, cut to the largest length."""
        return self._in_turn(self.test)

    def _in_turn(self, pairs: EncodedPairs) -> Iterator[Batch]:
        assigned = batches.assign(pairs, self.lengths)
        for _, batch in batches.in_turn(pairs, assigned, self.shapes):
            yield batch

    # ---------------------------------------------------------------- translation

    def evaluate(self) -> dict[str, float]:
        """Returns BLEU of the test text and, except in the forward-only twin, perplexity.

        By the mean of the weights that the last epochs ended with (section 6.1).

        Raises:
            FathomError: there is no test text.
        """
        if not len(self.test):
            raise FathomError(f"{self.source.directory} has no test text to translate")
        with self._mean.applied():
            metrics = {"examples": len(self.test)} if self.forward_only else super().evaluate()
            self.translations = translate(
                self._translator, self.test, self.shapes, self.device, self.xla == "step"
            )
        said = [self.subwords.sentence(words) for words in self.translations]
        references = [target for _, target in self.test_pairs]
        return metrics | {"bleu": evaluation.bleu(said, references)}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes the translations of the test text, and a picture of the attention of some."""
        text, picture = (
            directory / f"transformer-{name}" for name in ("translations.txt", "attention.png")
        )
        said = map(self.subwords.sentence, self.translations)
        evaluation.save_translations(text, self.test_pairs, said)
        pictured = alignments(
            self._encoder, self._search, self.test, self.translations, self.subwords
        )
        with self._mean.applied():
            evaluation.save_attention(picture, itertools.islice(pictured, evaluation.PICTURED))
        return [text, picture]

    def teardown(self) -> None:
        """Releases the resources of the base class, and what translates."""
        super().teardown()
        self.release("_translator", "_encoder", "_search", "_embedding", "_mean")

    # ---------------------------------------------------------------- cost

    def cost(self) -> Cost:
        """Returns the cost of a pair of the largest length."""
        return self._cost_of(self.lengths[-1], longest_translation(self.lengths[-1]))

    def _cost_of(self, length: int, steps: int) -> Cost:
        return cost_of(self.network, length, steps)

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the work of a batch over that of ``batch_size`` pairs of the largest length.

        Free decoding lasts until every sentence has ended, so its steps are counted.
        """
        pairs, length = batch[0].shape
        steps = int(self._search.steps_taken) if self._decodes_freely else 0
        done = pairs * self._cost_of(length, steps).forward_macs
        return done / (self.hyperparameters.batch_size * self.cost().forward_macs)


class TransformerFwd(Transformer):
    """Translation, inference only: the decoder reads its own output, or the test text's."""

    forward_only = True
    default_xla = "step"  # free decoding takes little more than half the time

    def compile(self) -> None:
        """Compiles the step and, where it decodes freely, encoder and decoder to be timed apart."""
        super().compile()
        if self._decodes_freely:
            self._phases = Phases(
                lambda source: self._encoder(source, training=False),
                self._search,
                self.device,
                xla=self.xla == "step",
            )
            self._compiled.call = self._in_phases

    def _in_phases(self, source: tf.Tensor) -> tf.Tensor:
        """Runs and times one phase after the other; returns the translations."""
        words = self._phases.run((source,), source.shape[1], lambda: int(self._search.steps_taken))
        self._noise_step.assign_add(1)
        return words

    def generation(self) -> Generation | None:
        """Returns the speed of encoder and decoder; the cache is what the decoder attends to."""
        runs = self._phases.counted(self.steps) if self._decodes_freely else []
        if not runs:
            return None
        values = np.mean([run.sequences * self._search.cache_values(run.given) for run in runs])
        value_bytes = options.PRECISIONS[self.execution.precision].value_bytes
        return Generation.of(runs, round(values * value_bytes), first_by_prefill=False)

    def teardown(self) -> None:
        """Releases the resources of the base class and the phases."""
        super().teardown()
        self.release("_phases")
