"""Sequence to sequence learning with attention, at the size of Fathom's workload.

Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks", with the
attention of Bahdanau, Cho and Bengio 2015, "Neural Machine Translation by Jointly Learning to Align
and Translate". Section numbers are those of Sutskever et al. unless another paper is named.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from fathom import nn, options
from fathom.errors import FathomError
from fathom.layers import Dropout
from fathom.options import Characterization
from fathom.results.cost import Cost
from fathom.results.generation import Generation
from fathom.seq2seq import buckets, corpus
from fathom.seq2seq.buckets import Batch, Bucket
from fathom.seq2seq.cost import cost_of
from fathom.seq2seq.decoder import Decoder
from fathom.seq2seq.hyperparameters import SIZES, Seq2SeqHyperparameters
from fathom.seq2seq.layers import LSTM, Embedding, UniformInitializers
from fathom.seq2seq.sampled_softmax import sampled_cross_entropy
from fathom.seq2seq.translation import Translator
from fathom.training.optimizers import BY_NAME, Optimizer
from fathom.training.phases import Phases
from fathom.training.schedules import Plateau
from fathom.translation import evaluation
from fathom.translation.multi30k import Multi30k
from fathom.translation.symbols import PAD
from fathom.translation.wmt import Wmt
from fathom.workload import Part


class Seq2Seq(nn.NeuralNetworkModel):
    """Translation by an LSTM encoder and an LSTM decoder that attends to it.

    Attributes:
        corpus: the vocabularies and the encoded training pairs, after ``load_data``.
        test: the encoded test pairs.
        translator: translates with the current network, after ``build``.
        translations: of the last evaluation, int32 [pairs, words].
    """

    name = "seq2seq"
    title = "sequence to sequence with attention (Sutskever et al. 2014, Bahdanau et al. 2015)"
    datasets = (Wmt, Multi30k)
    Hyperparameters = Seq2SeqHyperparameters
    hyperparameters: Seq2SeqHyperparameters
    example = "sentences"
    characterization = Characterization(inference_setting="decoding=teacher-forced")

    def build_hyperparameters(self, values: Mapping[str, object]) -> Seq2SeqHyperparameters:
        """Returns the hyperparameters, with the values of ``size`` as defaults."""
        return options.build(
            Seq2SeqHyperparameters, {**SIZES.get(str(values.get("size")), {}), **values}
        )

    def load_data(self) -> None:
        """Reads the texts and tokenizes the training text."""
        chosen = self.hyperparameters
        self.texts = self.dataset.load(
            self.source.directory, chosen.source_language, chosen.target_language
        )
        settings = corpus.Settings(
            chosen.source_vocabulary, chosen.target_vocabulary, chosen.lowercase
        )
        self.corpus = corpus.load(self.texts.training, settings)
        self._assigned = buckets.assign(self.corpus.pairs, self.buckets)
        self.notes += [f"left out: {what}: {number:,}" for what, number in self._left_out().items()]
        self._validation = self.corpus.encode(self.texts.validation or ())
        self.test_pairs = list(self.texts.test or ())
        self.test = self.corpus.encode(self.test_pairs)

    def _left_out(self) -> dict[str, int]:
        """Returns the number of omitted training pairs by reason."""
        counts = {
            "pairs with a blank side": self.corpus.blank,
            "pairs longer than the largest bucket": int(np.sum(self._assigned < 0)),
        }
        return {reason: number for reason, number in counts.items() if number}

    def describe_data(self) -> dict[str, object]:
        """Returns the sizes of the text and its vocabularies, and what was left out."""
        return {
            "training_pairs": len(self.corpus.pairs),
            "source_words": len(self.corpus.source),
            "target_words": len(self.corpus.target),
            "left_out": self._left_out(),
        }

    # ---------------------------------------------------------------- network

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
        """Encodes the reversed source sentence, and decodes it.

        Returns:
            in training the decoder's outputs, [batch, target, units]; in the forward-only twin the
            translation, or the most probable word after each given one, int32 [batch, target].
        """
        chosen = self.hyperparameters
        source, *target = keras.tree.flatten(inputs)
        encoded = self._encode(source)
        self._decoder = Decoder(
            chosen.target_vocabulary,
            chosen.units,
            chosen.layers,
            chosen.attention,
            chosen.dropout,
            chosen.beam_size,
            self._initializers(),
            self.new_noise(),
            self.buckets,
            name="decoder",
        )
        self._decoder.build()
        self._sampling = self.new_noise()
        self.translator = Translator(
            keras.Model(source, encoded, name="encoder"),
            self._decoder,
            self.buckets,
            self.device,
            compiles=self.xla == "step",
        )
        forced = self.forward_only and not self._decodes_freely
        return self._decoder(*encoded, *target, most_probable=forced)

    def _encode(self, source: keras.KerasTensor) -> list[nn.Nest]:
        """Returns the reversed words, the top states, and each layer's final state and memory."""
        chosen = self.hyperparameters
        # Reversed, so that the first words of both sentences are close (section 3.3).
        words = keras.ops.flip(source, 1)
        states = Embedding(
            chosen.source_vocabulary, chosen.units, self._initializers()(), name="source_embedding"
        )(words)
        hidden, memory = [], []
        for i in range(1, chosen.layers + 1):
            lstm = LSTM(chosen.units, self._initializers(), name=f"encoder_{i}")
            states, last_hidden, last_memory = lstm(self._dropped(states, i), words)
            hidden.append(last_hidden)
            memory.append(last_memory)
        return [words, self._dropped(states, chosen.layers + 1), hidden, memory]

    def _dropped(self, states: keras.KerasTensor, number: int) -> keras.KerasTensor:
        if not self.hyperparameters.dropout:
            return states
        dropout = Dropout(
            self.hyperparameters.dropout, self.new_noise(), axis=1, name=f"dropout_{number}"
        )
        return dropout(states)

    def _initializers(self) -> UniformInitializers:
        seeds = iter(self.new_seed, None)
        return UniformInitializers(self.hyperparameters.initial_range, seeds)

    def build_loss(self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy per word in nats, by the sampled softmax."""
        states = tf.reshape(outputs, [-1, self.hyperparameters.units])
        words = tf.reshape(words, [-1])
        if self.hyperparameters.samples:
            entropies = sampled_cross_entropy(
                states,
                words,
                self._decoder.softmax.value,
                self._decoder.softmax_bias.value,
                self.hyperparameters.samples,
                self._sampling.tensor(),
            )
        else:
            entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(
                words, self._decoder.logits(states)
            )
        real = tf.cast(words != PAD, tf.float32)
        return tf.reduce_sum(entropies * real) / tf.reduce_sum(real)

    def loss_denominator(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the number of words without padding."""
        return tf.reduce_sum(tf.cast(words != PAD, tf.float32))

    def build_train(self) -> Optimizer:
        """Stochastic gradient descent or Adam, the gradients clipped by their global norm."""
        chosen = self.hyperparameters
        optimizer = BY_NAME[chosen.optimizer](
            chosen.learning_rate, global_clip_norm=chosen.clip_norm
        )
        self._plateau = Plateau(optimizer.learning_rate, 1 / chosen.learning_rate_decay)
        return optimizer

    def build_evaluation(
        self, inputs: nn.Nest, words: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sentence's cross-entropy by the full softmax, in nats, and its length."""

        def of_step(step: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            states, words = step
            logits = self._decoder.logits(states)  # of one step at a time, to save memory
            entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
            return entropies * tf.cast(words != PAD, tf.float32)

        entropies = tf.map_fn(
            of_step,
            (tf.transpose(outputs, (1, 0, 2)), tf.transpose(words)),
            fn_output_signature=tf.float32,
        )
        return {
            "cross_entropy": tf.reduce_sum(entropies, 0),
            "words": tf.reduce_sum(tf.cast(words != PAD, tf.float32), 1),
        }

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns cross-entropy (nats) and perplexity per word."""
        cross_entropy = sums["cross_entropy"] / sums["words"]
        return {"cross_entropy": cross_entropy, "perplexity": math.exp(cross_entropy)}

    def end_epoch(self, epoch: int) -> None:
        """Lowers the learning rate if the validation loss has not fallen."""
        if len(self._validation):
            metrics = self.metrics_of(self._in_turn(self._validation))
            self.note("validation_perplexity", metrics["perplexity"])
            self._plateau.update(metrics["cross_entropy"])
            self.note("learning_rate", float(self.learning_rate.numpy()))

    def state(self) -> dict[str, tf.Variable]:
        """Returns the state of the learning-rate schedule."""
        if self.forward_only:
            return {}
        return {"plateau_best": self._plateau.best, "plateau_stalled": self._plateau.stalled}

    # ---------------------------------------------------------------- batches

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training pairs."""
        return self._order(self._assigned).steps_per_epoch

    def _order(self, assigned: np.ndarray) -> buckets.BucketSampler:
        return buckets.BucketSampler(assigned, self.hyperparameters.batch_size, self.execution.seed)

    @functools.cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """The lengths that batches are padded to, the smallest first."""
        return buckets.parse(self.hyperparameters.buckets)

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns one signature per bucket: the step is compiled for fixed lengths."""
        return [self._signature(bucket) for bucket in self.buckets]

    def _signature(self, bucket: Bucket) -> list[tf.TensorSpec]:
        lengths = {"source": bucket.source, "target": bucket.target, "words": bucket.target}
        size = self.hyperparameters.batch_size
        specs = [tf.TensorSpec((size, n), tf.int32, name) for name, n in lengths.items()]
        if self._decodes_freely:
            return specs[:1]
        return specs[:2] if self.forward_only else specs

    def signature_of_length(self, length: int | None) -> list[tf.TensorSpec]:
        """Returns the batch shapes of the smallest bucket for sources of ``length`` words.

        Raises:
            FathomError: no bucket holds them.
        """
        if length is None:
            return self._signature(self._nominal_bucket)
        for bucket in self.buckets:
            if bucket.source >= length:
                return self._signature(bucket)
        raise FathomError(f"no bucket of {self.hyperparameters.buckets} holds {length} words")

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the encoder, and one step of free decoding; by default of the largest bucket."""
        specs = self.signatures()[-1] if length is None else self.signature_of_length(length)
        return self.translator.parts(specs[0].shape[1])

    def training_batches(self, first_step: int) -> Iterator[Batch]:
        """Returns the endless stream of training pairs from ``first_step`` on."""
        return buckets.training_batches(
            self.corpus.pairs, self._order(self._assigned), self.buckets, first_step
        )

    def inference_batches(self) -> Iterator[tuple[tf.Tensor, ...]]:
        """Returns an endless stream of test sentences, or training ones without a test text.

        Pairs, if the decoder reads the target sentence.
        """
        pairs = self.test if len(self.test) else self.corpus.pairs
        if self._decodes_freely:
            assigned = buckets.assign_by_source(pairs, self.buckets)
        else:
            assigned = self._assigned_in_turn(pairs)
        for batch in buckets.training_batches(pairs, self._order(assigned), self.buckets, 0):
            yield batch[: 1 if self._decodes_freely else 2]

    def evaluation_batches(self) -> Iterator[Batch]:
        """Returns the test pairs once, truncated to the largest bucket."""
        return self._in_turn(self.test)

    def _in_turn(self, pairs: corpus.EncodedPairs) -> Iterator[Batch]:
        assigned, size = self._assigned_in_turn(pairs), self.hyperparameters.batch_size
        for _, batch in buckets.batches_in_turn(pairs, assigned, self.buckets, size):
            yield batch

    def _assigned_in_turn(self, pairs: corpus.EncodedPairs) -> np.ndarray:
        """Returns each pair's bucket, int [pairs]: the largest for pairs that fit in none."""
        assigned = buckets.assign(pairs, self.buckets)
        assigned[assigned < 0] = len(self.buckets) - 1
        return assigned

    # ---------------------------------------------------------------- translation

    def evaluate(self) -> dict[str, float]:
        """Returns BLEU of the test text and, except in the forward-only twin, perplexity per word.

        Raises:
            FathomError: there is no test text.
        """
        if not len(self.test):
            raise FathomError(f"{self.source.directory} has no test text to translate")
        metrics = {"examples": len(self.test)} if self.forward_only else super().evaluate()
        self.translations = self.translator.translate_pairs(
            self.test, self.hyperparameters.batch_size
        )
        said = [self.corpus.target.sentence(words) for words in self.translations]
        references = [target for _, target in self.test_pairs]
        lowercase = self.hyperparameters.lowercase
        return metrics | {"bleu": evaluation.bleu(said, references, lowercase)}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes the translations of the test text, and a picture of the attention of some."""
        text, picture = (
            directory / f"seq2seq-{name}" for name in ("translations.txt", "attention.png")
        )
        said = map(self.corpus.target.sentence, self.translations)
        evaluation.save_translations(text, self.test_pairs, said)
        if not self.hyperparameters.attention:
            return [text]
        pictured = self.translator.alignments(self.test, self.translations, self.corpus)
        evaluation.save_attention(picture, itertools.islice(pictured, evaluation.PICTURED))
        return [text, picture]

    def teardown(self) -> None:
        """Releases the resources of the base class, the decoder and the translator."""
        super().teardown()
        self.release("translator", "_decoder")

    # ---------------------------------------------------------------- cost

    def cost(self) -> Cost:
        """Returns the cost of a pair of the nominal bucket: the second largest."""
        return self._cost_of(self._nominal_bucket)

    @property
    def _nominal_bucket(self) -> Bucket:
        return self.buckets[-2:][0]

    def _cost_of(self, bucket: Bucket) -> Cost:
        """Returns the cost of a pair of these lengths, padding included."""
        chosen = self.hyperparameters
        if self.forward_only:
            hypotheses = chosen.beam_size if self._decodes_freely else 1
            return cost_of(self.network, bucket, chosen.target_vocabulary, hypotheses)
        predicted = chosen.samples + 1 if chosen.samples else chosen.target_vocabulary
        return cost_of(self.network, bucket, predicted)

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the work of a batch's bucket over that of the nominal bucket.

        Free decoding lasts until every sentence has ended, so its steps are counted.
        """
        length = batch[0].shape[1]
        bucket = self.buckets[buckets.bucket_of_source(length, self.buckets)]
        if self._decodes_freely:
            bucket = Bucket(bucket.source, int(self._decoder.steps_taken))
        return self._cost_of(bucket).forward_macs / self.cost().forward_macs


class Seq2SeqFwd(Seq2Seq):
    """Translation, inference only: the decoder reads its own output, or the test text's."""

    forward_only = True

    def compile(self) -> None:
        """Compiles the step and, where it decodes freely, encoder and decoder to be timed apart."""
        super().compile()
        if self._decodes_freely:
            self._phases = Phases(
                lambda source: self.translator.encoder(source, training=False),
                self._decoder,
                self.device,
                xla=self.xla == "step",
            )
            self._compiled.call = self._in_phases

    def _in_phases(self, source: tf.Tensor) -> tf.Tensor:
        """Runs and times one phase after the other; returns the translations."""
        words = self._phases.run((source,), source.shape[1], lambda: int(self._decoder.steps_taken))
        self._noise_step.assign_add(1)
        return words

    def generation(self) -> Generation | None:
        """Returns the speed of encoder and decoder; the cache is what the decoder reads."""
        runs = self._phases.counted(self.steps) if self._decodes_freely else []
        if not runs:
            return None
        chosen = self.hyperparameters
        source = np.mean([run.given for run in runs])
        attended = 2 * source * chosen.attention  # the encoder's states and their keys
        values = chosen.units * (attended + 2 * chosen.layers + 1)
        value_bytes = options.PRECISIONS[self.execution.precision].value_bytes
        size = int(chosen.batch_size * chosen.beam_size * values * value_bytes)
        return Generation.of(runs, size, first_by_prefill=False)

    def teardown(self) -> None:
        """Releases the resources of the base class and the phases."""
        super().teardown()
        self.release("_phases")
