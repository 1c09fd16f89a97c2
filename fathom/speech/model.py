"""Deep Speech: Hannun et al. 2014, "Deep Speech: Scaling up end-to-end speech recognition".

Section numbers are those of the paper (arXiv:1412.5567). As in Fathom, it recognises the phones of
TIMIT instead of English letters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.core.data.pipeline import Tensors
from fathom.core.layers import Dropout
from fathom.core.training import optimizers
from fathom.core.training.optimizers import Optimizer
from fathom.errors import FathomError
from fathom.options import Characterization, Hyperparameters, hyperparameter
from fathom.results import cost
from fathom.speech import ctc, decoding, features
from fathom.speech.descriptor import DESCRIPTOR
from fathom.speech.input import Feed
from fathom.speech.layers import BidirectionalRecurrent, ContextWindow, FrameLayer, steps_of
from fathom.speech.phones import BLANK
from fathom.speech.timit import STRIDE

NOMINAL_SECONDS = 1.5  # of speech, of the stated cost
_FRAMES_PER_PHONE = 10  # in a description of the work


@dataclass(frozen=True)
class SpeechHyperparameters(Hyperparameters):
    """The choices of the paper, or the reason where they differ."""

    batch_size: int = hyperparameter(16, "per step", unit="utterances", source="ours", minimum=1)
    units: int = hyperparameter(2048, "of each hidden layer", source="section 5.1", minimum=1)
    context: int = hyperparameter(
        9, "C, on each side", unit="frames", source="section 2: one of {5, 7, 9}"
    )
    stride: int = hyperparameter(
        STRIDE,
        "from one step of the network to the next",
        unit="frames",
        source="section 3.3",
        minimum=1,
    )
    features: str = hyperparameter(
        "cepstra",
        "of the audio: Graves et al. 2006, or section 2's",
        source="Fathom",
        choices=tuple(features.BY_KIND),
    )
    clip: float = hyperparameter(
        20.0, "of the rectifier, g(z) = min(max(z, 0), 20)", source="section 2"
    )
    dropout: float = hyperparameter(
        0.05, "of the feed-forward layers", source="section 2.1: 5 to 10 %", below=1
    )
    optimizer: str = optimizers.choice("nesterov", source="section 2")
    learning_rate: float = hyperparameter(
        1e-4, "of the optimizer", source="ours: the paper gives none"
    )
    momentum: float = hyperparameter(0.99, "Nesterov's", source="section 2")
    annealing: float = hyperparameter(
        1.0,
        "factor of the learning rate after each epoch",
        source="ours: section 2 gives no number",
    )
    gradient_norm: float = hyperparameter(
        10.0, "largest global gradient norm", source="ours", above=0
    )
    beam_width: int = hyperparameter(
        1, "in decoding; 1: most probable phone of each frame", source="ours", minimum=1
    )


class Speech(nn.NeuralNetworkModel):
    """Deep Speech on TIMIT: three dense layers, a bidirectional recurrent one, and a dense one."""

    descriptor = DESCRIPTOR
    Hyperparameters = SpeechHyperparameters
    hyperparameters: SpeechHyperparameters
    example = "utterances"
    evaluation_compiles = False  # XLA lacks kernels for decoding and edit distances
    default_steps = 12  # three epochs of the synthetic set
    characterization = Characterization(quick_batch_size=2)

    def load_data(self) -> None:
        """Reads TIMIT and computes its features, or loads them from the cache."""
        hyperparameters = self.hyperparameters
        self.timit = self.dataset.load(self.source.directory, self.settings, hyperparameters.stride)
        size, seed = hyperparameters.batch_size, self.execution.seed
        self._train_feed = Feed(self.timit.train, size, seed)
        self._validation_feed = Feed(self.timit.validation, size, seed)
        self.test_feed = Feed(self.timit.test, size, seed)

    @property
    def settings(self) -> features.Settings:
        """How the features are computed."""
        return features.BY_KIND[self.hyperparameters.features]

    def build_inputs(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns features, float32 [batch, frames, size], and lengths in frames, int32 [batch]."""
        return keras.Input((None, self.settings.size), name="features"), keras.Input(
            (), name="lengths", dtype="int32"
        )

    def build_labels(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns phones, int32 [batch, most phones], and their number per utterance."""
        return keras.Input((None,), name="phones", dtype="int32"), keras.Input(
            (), name="phone_counts", dtype="int32"
        )

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """The network of section 2: logits of 61 phones and the blank, [batch, steps, 62]."""
        hyperparameters = self.hyperparameters
        window = ContextWindow(hyperparameters.context, hyperparameters.stride, name="context")
        h, steps = window(*inputs)  # features and lengths
        for number in (1, 2, 3):
            h = self._feed_forward(h, number)
        h = BidirectionalRecurrent(
            hyperparameters.units,
            hyperparameters.clip,
            [self._weights(2.0), self._weights(1.0), self._weights(1.0)],
            name="layer4",
        )(h, steps)
        h = self._feed_forward(h, 5)
        logits = FrameLayer(BLANK + 1, None, self._weights(1.0), name="logits")(h)
        return keras.ops.transpose(logits, (1, 0, 2))

    def build_loss(self, inputs: nn.Nest, labels: nn.Nest, logits: tf.Tensor) -> tf.Tensor:
        """Returns the connectionist temporal classification loss, nats per utterance."""
        return tf.reduce_mean(ctc.loss(logits, self._steps(inputs[1]), *labels))

    def build_train(self) -> Optimizer:
        """By default Nesterov's accelerated gradient (section 2)."""
        hyperparameters = self.hyperparameters
        return optimizers.create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            momentum=hyperparameters.momentum,
            global_clip_norm=hyperparameters.gradient_norm,
        )

    def end_epoch(self, epoch: int) -> None:
        """Anneals the learning rate (section 2), and evaluates on the validation split."""
        self.learning_rate.assign(self.learning_rate * self.hyperparameters.annealing)
        if len(self.timit.validation):
            metrics = self.metrics_of(self._validation_feed.once())
            for name in ("loss", "phone_error_rate"):
                self.note(f"validation_{name}", metrics[name])

    def build_evaluation(
        self, inputs: nn.Nest, labels: nn.Nest, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each utterance's loss, errors and reference phones, in 39 and in 61 classes."""
        recognised = self._recognise(logits, inputs[1])
        return {
            "loss": ctc.loss(logits, self._steps(inputs[1]), *labels),
            **decoding.errors(recognised, decoding.sparse(*labels)),
        }

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns error rates over all test data: all errors over all reference phones."""
        return {
            "loss": sums["loss"] / examples,
            "phone_error_rate": sums["folded_errors"] / max(sums["folded_phones"], 1),
            "label_error_rate": sums["errors"] / max(sums["phones"], 1),
        }

    # ---------------------------------------------------------------- data

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training utterances."""
        return len(self.timit.train) // self.hyperparameters.batch_size

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of batches of similar lengths from ``first_step`` on."""
        return self._train_feed.shuffled(first_step)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of test utterances without labels, the shortest first."""
        return (batch[:2] for batch in self.test_feed.in_turn())

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the test utterances once, the shortest first."""
        return self.test_feed.once()

    def describe_data(self) -> dict[str, object]:
        """Returns the numbers of utterances, and the skipped ones with their reasons."""
        return {
            "train_utterances": len(self.timit.train),
            "validation_utterances": len(self.timit.validation),
            "test_utterances": len(self.timit.test),
            "skipped": self.timit.skipped,
        }

    # ---------------------------------------------------------------- cost

    def cost(self) -> cost.Cost:
        """Returns the cost of an utterance of 1.5 s: 150 steps of two frames."""
        return cost.count(self.network, self._nominal_steps)

    def signature_of_length(self, length: int | None) -> list[tf.TensorSpec]:
        """Returns the batch shapes for utterances of ``length`` frames, with a phone in every ten.

        Raises:
            FathomError: there are no utterances of this length.
        """
        if length is not None and length < 1:
            raise FathomError(f"an utterance has at least one frame, not {length}")
        frames = self._nominal_frames if length is None else length
        lengths = {"features": frames, "phones": -(-frames // _FRAMES_PER_PHONE)}
        return [
            tf.TensorSpec(
                [lengths[spec.name] if size is None else size for size in spec.shape],
                spec.dtype,
                spec.name,
            )
            for spec in self.signatures()[0]
        ]

    def work(self, features: tf.Tensor, *_: tf.Tensor) -> float:
        """Returns a batch's steps, including padding, over the nominal number."""
        return steps_of(features.shape[1], self.hyperparameters.stride) / self._nominal_steps

    @property
    def _nominal_frames(self) -> int:
        return round(NOMINAL_SECONDS / self.settings.step)

    @property
    def _nominal_steps(self) -> int:
        return steps_of(self._nominal_frames, self.hyperparameters.stride)

    # ---------------------------------------------------------------- network

    def _weights(self, gain: float) -> keras.initializers.Initializer:
        """Returns N(0, gain / inputs); gain 2 preserves the variance through a rectifier."""
        return keras.initializers.VarianceScaling(
            gain, "fan_in", "untruncated_normal", seed=self.new_seed()
        )

    def _feed_forward(self, h: keras.KerasTensor, number: int) -> keras.KerasTensor:
        """Returns g(W h + b) with dropout (section 2.1)."""
        hyperparameters = self.hyperparameters
        layer = FrameLayer(
            hyperparameters.units, hyperparameters.clip, self._weights(2.0), name=f"layer{number}"
        )
        dropout = Dropout(
            hyperparameters.dropout, self.new_noise(), axis=1, name=f"dropout{number}"
        )
        return dropout(layer(h))

    def _steps(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the steps of utterances with ``lengths`` [batch] frames."""
        return steps_of(lengths, self.hyperparameters.stride)

    def _recognise(self, logits: tf.Tensor, lengths: tf.Tensor) -> tf.SparseTensor:
        """Returns the phones of utterances with ``lengths`` [batch] frames."""
        return decoding.decode(logits, self._steps(lengths), self.hyperparameters.beam_width)

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a picture of a test utterance: its features and the recognised phones."""
        from fathom.speech import pictures  # Matplotlib is slow to import

        test = self.timit.test
        chosen = int(np.argsort(test.frames, kind="stable")[len(test) // 2])  # of median length
        *inputs, phones, _ = self.test_feed.load(tf.constant([chosen]))
        logits = self.network(inputs, training=False)
        picture = pictures.save(
            directory,
            test.names[chosen],
            inputs[0][0].numpy(),
            tf.nn.softmax(logits)[0].numpy(),
            phones[0].numpy(),
            self._recognise(logits, inputs[1]).values.numpy(),
            self.settings.step,
        )
        return [picture]


class SpeechFwd(Speech):
    """Deep Speech, inference only."""

    forward_only = True
