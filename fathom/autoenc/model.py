"""The variational autoencoder: Kingma and Welling 2013, "Auto-Encoding Variational Bayes".

Section and equation numbers are those of the paper (arXiv:1312.6114).
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from typing_extensions import Unpack

from fathom.autoenc.descriptor import DESCRIPTOR
from fathom.core.data.pipeline import Tensors
from fathom.core.layers import Layer, LayerOptions, PRNGKey
from fathom.core.training import optimizers, randomness, replicas
from fathom.core.training.optimizers import Optimizer
from fathom.options import Characterization, Hyperparameters, RunOptions, hyperparameter, option
from fathom.shared.in_memory import InMemory
from fathom.system.device import CPU

PIXELS = 28 * 28
Shape: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True)
class AutoencHyperparameters(Hyperparameters):
    """The choices of the paper's section 5 and appendix C, or the reason where they differ."""

    batch_size: int = hyperparameter(
        100, "M, per step", unit="images", source="section 5", minimum=1
    )
    hidden_units: int = hyperparameter(
        500, "of encoder and decoder", source="section 5, MNIST", minimum=1
    )
    latents: int = hyperparameter(20, "dimensions of z", source="one of figure 2's", minimum=1)
    optimizer: str = optimizers.choice("adam", source="Fathom's; section 5: adagrad")
    learning_rate: float = hyperparameter(1e-3, "of the optimizer", source="Adam's default")
    initial_stddev: float = hyperparameter(0.01, "of all weights", source="section 5")
    prior_decay: float = hyperparameter(
        1 / 60_000, "p(theta) = N(0, I) per training image", source="section 5"
    )
    binarize: bool = hyperparameter(
        True, "draw each pixel from its grey value at each visit (dynamic binarization)"
    )


@dataclass(frozen=True)
class AutoencOptions(RunOptions):
    """How it is run."""

    steps_per_call: int = option(
        20, "of the compiled step; does not change results", unit="steps", minimum=1
    )


class Outputs(NamedTuple):
    """The network's outputs, all float32."""

    logits: tf.Tensor  # [batch, 784], of p(x = 1 | z)
    mean: tf.Tensor  # [batch, latents], mu of q(z | x)
    log_variance: tf.Tensor  # [batch, latents], log sigma^2 of q(z | x)


class Reparameterization(Layer):
    """z = mu + sigma * epsilon, epsilon ~ N(0, I): the trick of section 2.4, equation 10.

    Args:
        noise: PRNG key of epsilon.
    """

    def __init__(self, noise: PRNGKey, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._noise = noise

    def call(self, mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
        """Draws z [batch, latents] from q(z | x), one sample per image (L = 1)."""
        shape = replicas.whole_shape(tf.shape(mean))
        epsilon = replicas.part(randomness.normal(shape, self._noise.tensor()))
        return mean + tf.exp(0.5 * log_variance) * tf.cast(epsilon, mean.dtype)

    def compute_output_shape(self, mean_shape: Shape, log_variance_shape: Shape) -> Shape:
        """Returns the shape of z, which Keras would find by tracing ``call``."""
        return mean_shape


class Autoenc(InMemory):
    """The variational autoencoder on MNIST: 784 - 500 tanh - 20 Gaussian - 500 tanh - 784."""

    descriptor = DESCRIPTOR
    divides_batches = True
    Hyperparameters = AutoencHyperparameters
    hyperparameters: AutoencHyperparameters
    RunOptions = AutoencOptions
    run_options: AutoencOptions
    example = "images"
    default_steps = 600  # an epoch of MNIST
    characterization = Characterization(steps=200, quick_steps=100)

    def load_data(self) -> None:
        """Reads MNIST; pixels stay uint8 [n, 784] until they are part of a batch."""
        self.mnist = self.dataset.load(self.source.directory)
        with CPU.placement():
            self.training = (tf.constant(self.mnist.train_images.reshape(-1, PIXELS)),)
            self.test = (tf.constant(self.mnist.test_images.reshape(-1, PIXELS)),)

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the images: float32 [batch, 784], from 0 to 1."""
        return keras.Input((PIXELS,), name="x")

    def build_labels(self) -> tuple[()]:
        """The autoencoder has no labels: it learns to reconstruct its input."""
        return ()

    def build_inference(self, x: keras.KerasTensor) -> Outputs:
        """Encoder q(z | x) and decoder p(x | z) of appendix C, with sampling in between."""
        hyperparameters = self.hyperparameters
        hidden = self._dense(hyperparameters.hidden_units, "encoder_hidden", activation="tanh")(x)
        gaussian = self._dense(2 * hyperparameters.latents, "encoder_gaussian")(hidden)
        mean, log_variance = keras.ops.split(gaussian, 2, axis=1)
        z = Reparameterization(self.new_noise(), name="z")(mean, log_variance)
        hidden = self._dense(hyperparameters.hidden_units, "decoder_hidden", activation="tanh")(z)
        logits = self._dense(PIXELS, "decoder_logits")(hidden)
        return Outputs(logits, mean, log_variance)

    def build_loss(self, x: tf.Tensor, labels: tuple[()], outputs: Outputs) -> tf.Tensor:
        """Returns the negative evidence lower bound per image, in nats (equation 10)."""
        return tf.reduce_mean(negative_elbo(x, outputs))

    def build_train(self) -> Optimizer:
        """By default Adam. The prior decays only the decoder's weights (section 5)."""
        hyperparameters = self.hyperparameters
        return optimizers.create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            weight_decay=hyperparameters.prior_decay,
            decayed=lambda variable: "decoder" in variable.path and "kernel" in variable.path,
        )

    def build_evaluation(
        self, x: tf.Tensor, labels: tuple[()], outputs: Outputs
    ) -> dict[str, tf.Tensor]:
        """Returns each image's negative evidence lower bound and its two terms, in nats."""
        return {
            "negative_elbo": negative_elbo(x, outputs),
            "reconstruction": reconstruction_error(x, outputs.logits),
            "kl_divergence": kl_divergence(outputs.mean, outputs.log_variance),
        }

    # ---------------------------------------------------------------- data

    @property
    def steps_per_call(self) -> int:
        """Steps per call of the compiled step: many, because they are small."""
        return self.run_options.steps_per_call

    def prepare(self, batch: Tensors, seed: tf.Tensor) -> Tensors:
        """Converts pixels uint8 [batch, 784] to what the Bernoulli decoder models."""
        grey = tf.cast(batch[0], tf.float32) / 255
        if not self.hyperparameters.binarize:
            return (grey,)
        return (tf.cast(tf.random.stateless_uniform(tf.shape(grey), seed) < grey, tf.float32),)

    # ---------------------------------------------------------------- network

    def _dense(self, units: int, name: str, activation: str | None = None) -> layers.Dense:
        weights = keras.initializers.RandomNormal(
            stddev=self.hyperparameters.initial_stddev, seed=self.new_seed()
        )
        return layers.Dense(units, activation=activation, kernel_initializer=weights, name=name)

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Returns the mean image [n, 784], from 0 to 1, of latents float32 [n, latents]."""
        hidden = self.network.get_layer("decoder_hidden")(z)
        return tf.sigmoid(self.network.get_layer("decoder_logits")(hidden)).numpy()

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a picture of reconstructions of test images and one of samples from the prior."""
        from fathom.autoenc import pictures  # Matplotlib is slow to import

        rng = np.random.default_rng(self.execution.seed)
        images = self._first_test_images(pictures.IMAGES)
        count = min(pictures.IMAGES, len(images))
        chosen = images[rng.choice(len(images), count, replace=False)]
        mean = self.network(chosen, training=False).mean.numpy()
        latents = rng.standard_normal((pictures.SAMPLES, self.hyperparameters.latents), np.float32)
        return pictures.save(directory, chosen, self.decode(mean), self.decode(latents))

    def _first_test_images(self, count: int) -> np.ndarray:
        """Returns whole test batches with at least ``count`` images, or all: [n, 784]."""
        batches = itertools.islice(
            self.evaluation_batches(), -(-count // self.hyperparameters.batch_size)
        )
        return np.concatenate([images for (images,) in batches])


class AutoencFwd(Autoenc):
    """The variational autoencoder, inference only."""

    forward_only = True


def reconstruction_error(x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns -log p(x | z) of Bernoulli pixels [batch, 784], in nats, [batch] (appendix C.1).

    With the logit l of a pixel's p, -x log p - (1 - x) log(1 - p) = softplus(l) - x l.
    """
    return tf.reduce_sum(tf.nn.softplus(logits) - x * logits, axis=1)


def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """Returns KL(q(z | x) || N(0, I)) in nats, [batch] (appendix B)."""
    return 0.5 * tf.reduce_sum(tf.exp(log_variance) + mean**2 - 1 - log_variance, axis=1)


def negative_elbo(x: tf.Tensor, outputs: Outputs) -> tf.Tensor:
    """Returns the negative of the lower bound estimate of equation 10, in nats, [batch]."""
    return reconstruction_error(x, outputs.logits) + kl_divergence(
        outputs.mean, outputs.log_variance
    )
