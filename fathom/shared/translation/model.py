"""What networks that translate share: their batches, their evaluation, and free decoding."""

import abc
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.core.training.phases import TwoPhases
from fathom.errors import FathomError
from fathom.options import Characterization, precision_traits
from fathom.results.cost import Cost
from fathom.results.generation import Generation
from fathom.shared.perplexity import perplexity
from fathom.shared.translation import batches, evaluation
from fathom.shared.translation.batches import Batch, Order, Shape
from fathom.shared.translation.decoding import FreeDecoder
from fathom.shared.translation.evaluation import Alignment
from fathom.shared.translation.hyperparameters import TranslationHyperparameters, TranslationOptions
from fathom.shared.translation.parallel import ParallelTexts
from fathom.shared.translation.sentences import EncodedPairs
from fathom.shared.translation.symbols import GO, PAD


class Vocabulary(Protocol):
    """The token ids of a language."""

    def sentence(self, ids: np.ndarray) -> str:
        """Returns the sentence for ids int [tokens] up to ``<eos>``."""

    def pieces(self, ids: np.ndarray) -> list[str]:
        """Returns the tokens for ids int [tokens] up to ``<eos>``, to be shown."""


class Translation(nn.NeuralNetworkModel):
    """Translation by an encoder, and a decoder that may read its own words.

    A subclass's ``load_vocabulary`` sets ``vocabularies``, and its ``build_inference`` ``encoder``
    and ``decoder``.
    """

    hyperparameters: TranslationHyperparameters
    RunOptions = TranslationOptions
    run_options: TranslationOptions
    texts: ParallelTexts  # after ``load_data``
    vocabularies: tuple[Vocabulary, Vocabulary]  # of the source and of the target language
    pairs: EncodedPairs  # training pairs
    assigned: np.ndarray  # the number of each training pair's shape, as from ``batches.assign``
    test: EncodedPairs
    test_pairs: list[tuple[str, str]]  # the same as text
    translations: np.ndarray  # of the last evaluation, int32 [pairs, words]
    encoder: keras.Model  # for words int32 [batch, source], returns the arguments of ``decoder``
    decoder: FreeDecoder
    example = "sentences"
    characterization = Characterization(inference_setting="decoding=teacher-forced")
    attends = True  # the decoder, to the source, which can be pictured
    lowercase = False  # BLEU is that of the lowercased text

    # ---------------------------------------------------------------- must be defined

    @abc.abstractmethod
    def load_vocabulary(self) -> None:
        """Makes the vocabularies of ``texts``, or loads them."""

    @abc.abstractmethod
    def encode(self, pairs: Iterable[tuple[str, str]]) -> EncodedPairs:
        """Returns sentence pairs as token ids."""

    @property
    @abc.abstractmethod
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of batches, the longest last."""

    @abc.abstractmethod
    def longest_translation(self, shape: Shape) -> int:
        """Returns the largest number of words that free decoding gives."""

    @abc.abstractmethod
    def cost_of(self, shape: Shape, steps: int) -> Cost:
        """Returns the cost of a pair of a shape, padding included.

        Args:
            shape: of the pair.
            steps: of free decoding; without it of no effect.
        """

    # ---------------------------------------------------------------- may be defined

    @property
    def nominal_shape(self) -> Shape:
        """The shape whose cost is the workload's."""
        return self.shapes[-1]

    def encode_training(self) -> EncodedPairs:
        """Returns the training pairs as token ids."""
        return self.encode(pair for text in self.texts.training for pair in text)

    def assign_inferred(self, pairs: EncodedPairs) -> np.ndarray:
        """Returns the number of each pair's shape in inference."""
        return batches.assign(pairs, self.shapes)

    # ---------------------------------------------------------------- data

    def load_data(self) -> None:
        """Reads the texts, encodes them, and notes which pairs are not used as they are."""
        hyperparameters = self.hyperparameters
        self.texts = self.dataset.load(
            self.source.directory, hyperparameters.source_language, hyperparameters.target_language
        )
        self.test_pairs = list(self.texts.test or ())
        self.load_vocabulary()
        self.encode_texts()
        self.notes += [f"{what}: {number:,}" for what, number in self.unfit.items()]

    def encode_texts(self) -> None:
        """Encodes the texts by the vocabularies."""
        self.pairs = self.encode_training()
        self.assigned = batches.assign(self.pairs, self.shapes)
        self._validation = self.encode(self.texts.validation or ())
        self.test = self.encode(self.test_pairs)

    @property
    def blank_pairs(self) -> int:
        """Number of training pairs that are left out, as a side is blank."""
        return sum(text.blank for text in self.texts.training)

    @property
    def unfit(self) -> dict[str, int]:
        """The number of pairs that are not used as they are, by reason."""
        too_long, test = len(self.shapes), self.texts.test
        blank = test.blank if test else 0
        left_out = np.sum(self.assigned == too_long)
        cut = np.sum(batches.assign(self.test, self.shapes) == too_long)
        counts = {
            "left out: pairs with a blank side": self.blank_pairs,
            "left out: test pairs with a blank side": blank,
            "left out: training pairs longer than the largest length": left_out,
            "cut: test pairs longer than the largest length": cut,
        }
        return {reason: int(number) for reason, number in counts.items() if number}

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in one pass over the training pairs."""
        return self._order(self.assigned).steps_per_epoch

    def _order(self, assigned: np.ndarray) -> Order:
        return Order(assigned, self.shapes, self.execution.seed)

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns one signature per shape: the step is compiled for fixed shapes."""
        return [self._signature(shape) for shape in self.shapes]

    def _signature(self, shape: Shape) -> list[tf.TensorSpec]:
        lengths = {"source": shape.source, "target": shape.target, "words": shape.target}
        specs = [tf.TensorSpec((shape.pairs, n), tf.int32, name) for name, n in lengths.items()]
        return specs[: self._tensors]

    @property
    def _tensors(self) -> int:
        """Number of tensors in a batch."""
        return 1 if self.decodes_freely else 2 if self.forward_only else 3

    def signature_of_length(self, length: int | None) -> list[tf.TensorSpec]:
        """Returns the shapes of the first batch that holds sources of ``length`` words.

        Raises:
            FathomError: none holds them.
        """
        if length is None:
            return self._signature(self.nominal_shape)
        for shape in self.shapes:
            if shape.source >= length:
                return self._signature(shape)
        raise FathomError(
            f"no batch holds sentences of {length} words: the largest has {self.shapes[-1].source}"
        )

    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of training pairs from ``first_step`` on."""
        return self._order(self.assigned).stream(self.pairs, first_step)

    def inference_batches(self) -> Iterator[tuple[tf.Tensor, ...]]:
        """Returns an endless stream of test sentences, or training ones without a test text.

        Pairs, if the decoder reads the target sentence.
        """
        pairs = self.test if len(self.test) else self.pairs
        assigned = np.minimum(self.assign_inferred(pairs), len(self.shapes) - 1)
        for batch in self._order(assigned).stream(pairs, 0):
            yield batch[: self._tensors]

    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns the test pairs once, cut to the largest shape."""
        return self._in_turn(self.test)

    def _in_turn(self, pairs: EncodedPairs) -> Iterator[Batch]:
        assigned = batches.assign(pairs, self.shapes)
        return (batch for _, batch in batches.in_turn(pairs, assigned, self.shapes))

    # ---------------------------------------------------------------- network

    @property
    def decodes_freely(self) -> bool:
        """Whether the decoder reads its own words: only in forward-only models."""
        return self.forward_only and self.run_options.decoding == "free"

    def build_inputs(self) -> nn.Nest:
        """Returns source words and, unless decoding is free, the decoder's input words.

        Both int32 [batch, words], padded at the end.
        """
        source = keras.Input((None,), dtype="int32", name="source")
        if self.decodes_freely:
            return source
        return source, keras.Input((None,), dtype="int32", name="target")

    def build_labels(self) -> nn.Nest:
        """Returns the decoder's expected output words: int32 [batch, words]."""
        return () if self.forward_only else keras.Input((None,), dtype="int32", name="words")

    def loss_denominator(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the number of words without padding."""
        return tf.reduce_sum(real(words))

    def two_phases(self) -> TwoPhases | None:
        """Returns encoder and decoder, where it decodes freely."""
        if not self.decodes_freely:
            return None
        return TwoPhases(
            lambda source: self.encoder(source, training=False),
            self.decoder,
            decoded=lambda: int(self.decoder.steps_taken),
        )

    # ---------------------------------------------------------------- evaluation

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns cross-entropy (nats) and perplexity per word."""
        cross_entropy = sums["cross_entropy"] / sums["words"]
        return {"cross_entropy": cross_entropy, "perplexity": perplexity(cross_entropy)}

    def validate(self) -> dict[str, float]:
        """Notes the validation text's perplexity; returns its metrics, if there is such a text."""
        if not len(self._validation):
            return {}
        metrics = self.metrics_of(self._in_turn(self._validation))
        self.note("validation_perplexity", metrics["perplexity"])
        return metrics

    def test_metrics(self) -> dict[str, float]:
        """Returns BLEU of the test text and, except in the forward-only twin, perplexity per word.

        Raises:
            FathomError: there is no test text.
        """
        if not len(self.test):
            raise FathomError(f"{self.source.directory} has no test text to translate")
        metrics = {"examples": len(self.test)} if self.forward_only else super().test_metrics()
        self.translations = self.translate_text(self.test)
        translations = map(self.vocabularies[1].sentence, self.translations)
        references = [target for _, target in self.test_pairs]
        return metrics | {"bleu": evaluation.bleu(list(translations), references, self.lowercase)}

    def translate(self, source: tf.Tensor) -> tf.Tensor:
        """Returns translations int32 [batch, words] of source words int32 [batch, source]."""
        return self.decoder(*self.encoder(source, training=False))

    def translate_text(self, pairs: EncodedPairs) -> np.ndarray:
        """Translates the source sides; returns int32 [pairs, words], padded after ``<eos>``."""
        longest = self.longest_translation(self.shapes[-1])
        words = np.full((len(pairs), longest), PAD, np.int32)
        decode = {  # each its own function and callable: TensorFlow warns of one with many shapes
            shape.source: tf.function(
                functools.partial(self.translate),
                [tf.TensorSpec([None, shape.source], tf.int32)],
                autograph=False,
                jit_compile=self.xla == "step",
            )
            for shape in self.shapes
        }
        assigned = batches.assign_by_source(pairs, self.shapes)
        for chosen, batch in batches.in_turn(pairs, assigned, self.shapes):
            with self.device.placement():
                decoded = decode[batch.source.shape[1]](batch.source).numpy()
            words[chosen, : decoded.shape[1]] = decoded
        return words

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes the translations of the test text, and a picture of the attention of some."""
        text = directory / f"{self.name}-translations.txt"
        translations = map(self.vocabularies[1].sentence, self.translations)
        evaluation.save_translations(text, self.test_pairs, translations)
        if not self.attends:
            return [text]
        picture = directory / f"{self.name}-attention.png"
        evaluation.save_attention(picture, self._alignments())
        return [text, picture]

    def _alignments(self) -> Iterator[Alignment]:
        """Yields the test sentences with their translations and the attention to their words."""
        for i, words in enumerate(self.translations):
            source = self.test.source.padded(np.array([i]), self.shapes[-1].source)
            read = np.concatenate([[GO], words[:-1]]).astype(np.int32)
            encoded = self.encoder(tf.constant(source), training=False)
            found = self.decoder.alignment(*encoded, tf.constant(read[None]))
            (attention,) = tf.cast(found, tf.float32).numpy()
            sides = zip(self.vocabularies, (source[0], words), strict=True)
            given, translated = (vocabulary.pieces(ids) for vocabulary, ids in sides)
            yield Alignment(given, translated, attention[: len(translated), : len(given)])

    # ---------------------------------------------------------------- cost

    def cost(self) -> Cost:
        """Returns the cost of a pair of the nominal shape."""
        return self.cost_of(self.nominal_shape, self.longest_translation(self.nominal_shape))

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the work of a batch over that of ``batch_size`` pairs of the nominal shape.

        Free decoding lasts until every sentence has ended, so its steps are counted.
        """
        steps = int(self.decoder.steps_taken) if self.decodes_freely else 0
        macs = self.cost_of(self._shape_of(*batch), steps).forward_macs
        return self.examples(*batch) * macs / self.cost().forward_macs

    def examples(self, *batch: tf.Tensor) -> float:
        """Returns the pairs of a batch, of all workers, in units of ``batch_size``."""
        pairs = batch[0].shape[0] if self.forward_only else self._shape_of(*batch).pairs
        return pairs / self.hyperparameters.batch_size

    def _shape_of(self, source: tf.Tensor, *_: tf.Tensor) -> Shape:
        return next(shape for shape in self.shapes if shape.source >= source.shape[1])

    def generation(self) -> Generation | None:
        """Returns the speed of encoder and decoder; the cache is what the decoder reads."""
        runs = self.phases.counted(self.steps) if self.phases else []
        if not runs:
            return None
        values = np.mean([run.sequences * self.decoder.cache_values(run.given) for run in runs])
        value_bytes = precision_traits(self.execution.precision).value_bytes
        return Generation.of(runs, round(values * value_bytes), first_by_prefill=False)


def real(words: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each word and 0 for padding, float32 of the shape of ``words``."""
    return tf.cast(words != PAD, tf.float32)


def mean_of_words(entropies: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Returns the mean of values of words, float32 [n], that are not padding."""
    counted = real(words)
    return tf.reduce_sum(entropies * counted) / tf.reduce_sum(counted)
