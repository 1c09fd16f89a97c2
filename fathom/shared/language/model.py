"""Language models: their texts, training and evaluation, and the generation of text."""

import abc
import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.core.data.pipeline import DataLoader, Sampler, Tensors
from fathom.core.training.optimizers import Optimizer, create
from fathom.core.training.phases import TwoPhases
from fathom.core.training.schedules import warmed_cosine
from fathom.core.training.values import restored
from fathom.errors import FathomError
from fathom.model.decoder import LayerCache, TokenDecoder
from fathom.model.workload import Part
from fathom.options import Characterization
from fathom.results.cost import Cost
from fathom.results.generation import Generation, PhaseTimes
from fathom.shared.language import vocabulary, weights
from fathom.shared.language.decoder import Decoder
from fathom.shared.language.generation import parts, phases
from fathom.shared.language.hyperparameters import LanguageHyperparameters, LanguageOptions
from fathom.shared.language.layers import TokenLayer
from fathom.shared.language.text import TinyShakespeare, save_samples
from fathom.shared.language.weights import Published
from fathom.shared.perplexity import perplexity
from fathom.system.device import CPU
from fathom.system.files import named_path
from fathom.system.precision import computing_in

_SAMPLED = 256  # tokens of a sample
_LARGE_MATRIX = 2**20  # bytes; smaller ones gain nothing by a thread (docs/performance.md)


class LanguageModel(nn.NeuralNetworkModel):
    """Predicts each token of a sequence from those before it.

    Attributes:
        text: the data set, after ``load_data``.
        vocabulary: of its tokens.
        decoder: the network.
    """

    hyperparameters: LanguageHyperparameters
    RunOptions = LanguageOptions
    run_options: LanguageOptions
    decoder: Decoder
    example = "sequences"
    blocks = "layers"
    default_steps = 2000
    default_xla = "step"
    characterization = Characterization(steps=50, quick_steps=20)

    @classmethod
    def build_hyperparameters(cls, values: Mapping[str, object]) -> LanguageHyperparameters:
        """Returns the hyperparameters; prompt and new tokens fill the context by default."""
        hyperparameters = cast(LanguageHyperparameters, super().build_hyperparameters(values))
        prompt = hyperparameters.prompt_tokens or hyperparameters.context // 2
        new = hyperparameters.new_tokens or hyperparameters.context - prompt
        return dataclasses.replace(hyperparameters, prompt_tokens=prompt, new_tokens=new)

    @abc.abstractmethod
    def build_decoder(self, words: int) -> Decoder:
        """Returns the network.

        Args:
            words: number of different tokens.
        """

    def published(self) -> list[Published]:
        """Returns what the network's weights are in the files of Hugging Face's model."""
        return self.decoder.published()

    def published_settings(self) -> dict[str, object]:
        """Returns what the configuration beside published weights has to say of the network."""
        return {}

    # ---------------------------------------------------------------- data

    def load_data(self) -> None:
        """Reads the text and encodes it.

        Raises:
            FathomError: it cannot be read, has more different tokens than the network, or a part is
                shorter than the context.
        """
        hyperparameters = self.hyperparameters
        self.text: TinyShakespeare = self.dataset.load(self.source.directory)
        # The characters of the whole text, as in nanoGPT; byte pairs are of the training part.
        known = self.text.training
        if hyperparameters.tokens == "characters":
            known += self.text.validation
        folder = named_path(self.run_options.weights) if self.run_options.weights else None
        self.vocabulary = vocabulary.build(
            hyperparameters.tokens, known, hyperparameters.vocabulary, folder
        )
        if hyperparameters.vocabulary and len(self.vocabulary) > hyperparameters.vocabulary:
            raise FathomError(
                f"tokens={hyperparameters.tokens} are {len(self.vocabulary)} in "
                f"{self.source.directory}, more than the vocabulary of {hyperparameters.vocabulary}"
            )
        with CPU.placement():
            self._vocabulary = tf.Variable(_number(self.vocabulary), dtype=tf.int64)
            self._training = self._encode(self.text.training, "training")
            self._validation = self._encode(self.text.validation, "validation")

    def _encode(self, text: str, part: str) -> tf.Tensor:
        tokens = self.vocabulary.encode(text)
        if len(tokens) <= self.hyperparameters.context:
            raise FathomError(
                f"{self.source.directory}: the {part} part has {len(tokens)} tokens, but needs more"
                f" than the context of {self.hyperparameters.context}: give a longer text, or lower"
                " context"
            )
        return tf.constant(tokens)

    def _windows(self, tokens: tf.Tensor, starts: tf.Tensor) -> Tensors:
        """Returns the tokens from some places on, and those that follow each of them."""
        places = starts[:, None] + tf.range(self.hyperparameters.context + 1, dtype=starts.dtype)
        found = tf.gather(tokens, places)
        return found[:, :-1], found[:, 1:]

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in which each place of the training text is once the first."""
        return self._order.steps_per_epoch

    @property
    def _order(self) -> Sampler:
        places = len(self._training) - self.hyperparameters.context - 1
        count = places // self.text.sequence + 1
        return Sampler(count, self.hyperparameters.batch_size, self.execution.seed)

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of training sequences from ``first_step`` on."""
        return DataLoader(
            self._order,
            lambda places, seeds: self._windows(self._training, places * self.text.sequence),
            first_step,
        )

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of prompts, from the validation text in turn."""
        length = self.hyperparameters.prompt_tokens
        count = len(self._validation) // length
        prompts = tf.reshape(self._validation[: count * length], [count, length])
        size, seed = self.hyperparameters.batch_size, self.execution.seed
        order = Sampler(count, size, seed, shuffle=False)
        return DataLoader(order, lambda places, seeds: (tf.gather(prompts, places),))

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the validation text once, one sequence after the other, without its last part."""
        length, size = self.hyperparameters.context, self.hyperparameters.batch_size
        starts = np.arange(0, len(self._validation) - length, max(length, self.text.sequence))
        for first in range(0, len(starts), size):
            yield self._windows(self._validation, tf.constant(starts[first : first + size]))

    def describe_data(self) -> dict[str, Any]:
        """Returns the numbers of tokens, and the lowest possible loss where it is known."""
        known = {"entropy_per_character": self.text.entropy} if self.text.entropy else {}
        return {
            "training_tokens": len(self._training),
            "validation_tokens": len(self._validation),
            "vocabulary": len(self.vocabulary),
            **known,
        }

    def state(self) -> dict[str, tf.Variable]:
        """Returns a number that tells vocabularies apart."""
        return {"vocabulary": self._vocabulary}

    def restore_state(self) -> None:
        """Refuses a checkpoint of another vocabulary.

        Raises:
            FathomError: its tokens stand for something else.
        """
        if int(self._vocabulary) != _number(self.vocabulary):
            raise FathomError(
                "the vocabulary of the checkpoint is of as many, but other tokens: use the text "
                "that it was trained on"
            )

    # ---------------------------------------------------------------- network

    @property
    def sized_by_data(self) -> bool:
        """Whether the network's size depends on the text: unless ``vocabulary`` is given."""
        return not self.hyperparameters.vocabulary

    def load_weights(self) -> None:
        """Loads published weights, if the run starts from them."""
        if self.run_options.weights:
            folder = named_path(self.run_options.weights)
            if not self.published():
                raise FathomError(f"{self.name} loads no published weights")
            weights.load(folder, self.published(), self.published_settings())

    def build_inputs(self) -> nn.Nest:
        """Returns tokens, int32 [batch, context]."""
        return keras.Input((self.hyperparameters.context,), dtype="int32", name="tokens")

    def build_labels(self) -> keras.KerasTensor:
        """Returns the tokens that follow them, int32 [batch, context]."""
        return keras.Input((self.hyperparameters.context,), dtype="int32", name="next")

    def build_inference(self, inputs: nn.Nest) -> nn.Nest:
        """Returns the logits of the tokens that follow, float32 [batch, context, vocabulary]."""
        self.decoder = self.build_decoder(self._words)
        return self.decoder.logits(self.decoder(inputs)[0])

    @property
    def _words(self) -> int:
        return self.hyperparameters.vocabulary or len(self.vocabulary)

    def build_loss(self, tokens: tf.Tensor, following: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of a token, in nats."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits))

    def build_train(self) -> Optimizer:
        """By default AdamW; a warm-up and a cosine; biases and scales do not decay."""
        hyperparameters = self.hyperparameters
        return create(
            hyperparameters.optimizer,
            self.scheduled_rate(0),
            beta_1=hyperparameters.beta_1,
            beta_2=hyperparameters.beta_2,
            weight_decay=hyperparameters.weight_decay,
            global_clip_norm=hyperparameters.clip_norm,
            decayed=self.is_weight_matrix,
        )

    def end_step(self, number: int) -> None:
        """Sets the learning rate of the next step."""
        self.learning_rate.assign(self.scheduled_rate(number + 1))

    def scheduled_rate(self, step: int) -> float:
        """Returns that of a step: a warm-up, and a cosine."""
        hyperparameters = self.hyperparameters
        return warmed_cosine(
            step, hyperparameters.learning_rate, hyperparameters.warmup, hyperparameters.decay_steps
        )

    def build_evaluation(
        self, tokens: tf.Tensor, following: tf.Tensor, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each sequence's mean cross-entropy of a token, in nats."""
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits)
        return {"loss": tf.reduce_mean(entropies, 1)}

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the validation loss in nats and the perplexity, both per token."""
        loss = sums["loss"] / examples
        return {"loss": loss, "perplexity": perplexity(loss)}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes text that the network continues, from the beginning of the validation text."""
        hyperparameters, count = self.hyperparameters, 3
        length = hyperparameters.prompt_tokens
        computing = computing_in(self.execution.precision)
        with self.device.placement(), computing, restored([self.noise_step]):
            prompts = keras.Input((length,), dtype="int32")
            prefill, decode = phases(self.decoder, hyperparameters, prompts, self.new_noise())
            generate = tf.function(lambda prompts: decode(*prefill(prompts)), autograph=False)
            tokens = np.resize(self._validation[: count * length].numpy(), (count, length))
            while tokens.shape[1] < length + _SAMPLED:
                new = generate(tf.constant(tokens[:, -length:]))
                self.noise_step.assign_add(1)  # other random numbers for the next tokens
                tokens = np.concatenate([tokens, new], 1)
        decoded = self.vocabulary.decode
        path = directory / f"{self.name}-samples.txt"
        save_samples(path, [(decoded(row[:length]), decoded(row[length:])) for row in tokens])
        return [path]


def _number(tokens: vocabulary.Vocabulary) -> int:
    """Returns a number of 63 bits for a vocabulary, the same for equal ones."""
    return int.from_bytes(hashlib.sha256(tokens.identity.encode()).digest()[:8], "big") >> 1


class Generator(LanguageModel):
    """Continues prompts: prefill reads them at once, decode adds a token at a time."""

    forward_only = True

    @property
    def small_operations(self) -> bool:
        """Whether products are too small for two threads: those of decoding with narrow layers.

        A prefill has a row for each token, and matrices in memory are read faster by all threads.
        """
        width = self.hyperparameters.width
        return self.run_options.phase != "prefill" and 4 * width * width < _LARGE_MATRIX

    @property
    def divides_inference(self) -> bool:
        """Whether prompts are read in microbatches, as by default; a token is not decoded so."""
        return self.run_options.phase != "decode"

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the prompts, int32 [batch, prompt]."""
        return keras.Input((self.hyperparameters.prompt_tokens,), dtype="int32", name="prompts")

    def build_inference(self, prompts: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the tokens after the prompts, int32 [batch, new].

        Raises:
            FathomError: the phase has no token to decode.
        """
        if self.run_options.phase == "decode" and self.hyperparameters.new_tokens == 1:
            raise FathomError("phase=decode needs new_tokens above 1: the prefill gives the first")
        self.decoder = self.build_decoder(self._words)
        self._prefilling, self._decoding = phases(
            self.decoder, self.hyperparameters, prompts, self.new_noise()
        )
        return self._decoding(*self._prefilling.outputs)

    def forward(self, *inputs: tf.Tensor) -> nn.Nest:
        """Runs the phases chosen; the prefill returns a token of each prompt, and the caches."""
        phase = {"prefill": self._prefilling, "decode": self._decoding}.get(
            self.run_options.phase, super().forward
        )
        return phase(*inputs)

    def signatures(self) -> list[list[tf.TensorSpec]]:
        """Returns the shapes of the prompts; of decode, those of what the prefill returns."""
        if self.run_options.phase != "decode":
            return super().signatures()
        size = self.hyperparameters.batch_size
        return [
            [
                tf.TensorSpec((size, *each.shape[1:]), each.dtype, name)
                for name, each in zip(self._names(), self._prefilling.outputs, strict=True)
            ]
        ]

    def parts(self, length: int | None) -> dict[str, Part]:
        """Returns the prefill, and one step of the decoding with its cache."""
        self.signature_of_length(length)  # prompts have the length of the hyperparameter
        return parts(self.decoder, self.hyperparameters)

    def token_decoder(self) -> TokenDecoder | None:
        """Returns the network for sequences of different lengths; None unless both phases run."""
        if self.run_options.phase != "both":
            return None
        keys, hyperparameters = self._prefilling.outputs[1], self.hyperparameters

        def forward(
            tokens: tf.Tensor, positions: tf.Tensor, last: tf.Tensor, caches: Sequence[LayerCache]
        ) -> tf.Tensor:
            x, _ = self.decoder(tokens, caches, positions)
            chosen = tf.gather(x, last[:, None], batch_dims=1)
            return tf.cast(self.decoder.logits(chosen)[:, 0], tf.float32)

        return TokenDecoder(
            forward,
            layers=hyperparameters.layers,
            heads=keys.shape[1],
            size=keys.shape[3],
            dtype=keys.dtype,
            context=hyperparameters.context,
            words=self._words,
            new_tokens=hyperparameters.new_tokens,
            encode=self.vocabulary.encode,
            decode=self.vocabulary.decode,
        )

    def _names(self) -> list[str]:
        """Returns names of what the prefill returns."""
        blocks = range(1, self.hyperparameters.layers + 1)
        return ["first", *(f"{kind}{i}" for i in blocks for kind in self.decoder.kept)]

    def two_phases(self) -> TwoPhases | None:
        """Returns prefill and decode, if both run."""
        if self.run_options.phase != "both":
            return None
        return TwoPhases(
            self._prefill, self._decoding, decoded=lambda: self.hyperparameters.new_tokens - 1
        )

    def _prefill(self, prompts: tf.Tensor) -> nn.Nest:
        return self._prefilling(prompts, training=False)

    def compile_functions(self) -> None:
        """Compiles what fills the caches where a step only decodes."""
        super().compile_functions()
        compiled = {"autograph": False, "jit_compile": self.xla == "step"}
        # Of its own: TensorFlow counts the tracings of a method over all models, and warns.
        self._filling = tf.function(lambda prompts: self._prefill(prompts), **compiled)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of prompts, or of filled caches where a step only decodes."""
        prompts = super().inference_batches()
        if self.run_options.phase != "decode":
            return prompts
        return (tuple(self._filling(*batch)) for batch in prompts)

    def evaluation_outputs(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the logits [batch, context, vocabulary] of whole sequences."""
        return tf.cast(self.decoder.logits(self.decoder(tokens)[0]), tf.float32)

    def generation(self) -> Generation | None:
        """Returns the speed of the phases that run."""
        hyperparameters, counted = self.hyperparameters, self.steps.counted.tolist()
        given, decoded = hyperparameters.prompt_tokens, hyperparameters.new_tokens - 1
        sequences = hyperparameters.batch_size
        runs = {
            "both": self.phases.counted(self.steps) if self.phases else [],
            "prefill": [PhaseTimes(s, None, given, 0, sequences) for s in counted],
            "decode": [PhaseTimes(None, s, given, decoded, sequences) for s in counted],
        }[self.run_options.phase]
        cache = self._prefilling.outputs[1:]
        size = sum(math.prod(each.shape[1:]) * tf.as_dtype(each.dtype).size for each in cache)
        if not runs:
            return None
        found = {"tokens_per_pass": self._decoding.tokens_per_pass}
        return Generation.of(runs, sequences * size).model_copy(update=found)

    def cost(self) -> Cost:
        """Returns the cost of a prompt and of the tokens after it, of the phases that run."""
        counted = super().cost()
        rows = (row.model_copy(update={"macs": self._macs_of(row.name)}) for row in counted.layers)
        return dataclasses.replace(counted, layers=tuple(rows))

    def _macs_of(self, name: str) -> int:
        """Returns a layer's multiply-accumulates for a prompt and the tokens after it.

        All places of the cache are attended to, filled or not.
        """
        hyperparameters, phase = self.hyperparameters, self.run_options.phase
        layer = self.network.get_layer(name)
        if not isinstance(layer, TokenLayer):
            return 0
        prompt = hyperparameters.prompt_tokens if phase != "decode" else 0
        decoded = hyperparameters.new_tokens - 1 if phase != "prefill" else 0
        places = hyperparameters.prompt_tokens + hyperparameters.new_tokens - 1
        # Of a prompt, only the last token has logits.
        read = min(prompt, 1) if layer is self.decoder.logits else prompt
        return layer.macs_of(read, prompt) + layer.macs_of(decoded, places)
