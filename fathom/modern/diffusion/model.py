"""Diffusion with a transformer: Ho et al. 2020, Peebles and Xie 2022.

"Denoising Diffusion Probabilistic Models" (arXiv:2006.11239), whose equations are meant, and
"Scalable Diffusion Models with Transformers" (arXiv:2212.09748).
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fathom import nn
from fathom.core.data.pipeline import DataLoader, Sampler, Tensors
from fathom.core.training import optimizers, randomness
from fathom.core.training.moving_average import MovingAverage
from fathom.core.training.optimizers import Optimizer
from fathom.core.training.schedules import warmed_cosine
from fathom.errors import FathomError
from fathom.modern.diffusion.descriptor import DESCRIPTOR
from fathom.modern.diffusion.hyperparameters import DiffusionHyperparameters, DiffusionOptions
from fathom.modern.diffusion.layers import DiT, Sizes
from fathom.modern.diffusion.process import Noising, Sampling, steps_back
from fathom.options import Characterization
from fathom.results.cost import Cost
from fathom.shared.in_memory import InMemory
from fathom.system.device import CPU
from fathom.system.words import counted

ZERO = 0.0  # standard deviation of the weights that make gates and the output begin at zero


class Diffusion(InMemory):
    """Learns to tell the noise in images from what was there."""

    descriptor = DESCRIPTOR
    Hyperparameters = DiffusionHyperparameters
    hyperparameters: DiffusionHyperparameters
    RunOptions = DiffusionOptions
    run_options: DiffusionOptions
    example = "images"
    blocks = "layers"
    default_xla = "step"  # chains of short operations: docs/workloads/diffusion.md
    divides_batches = True
    default_steps = 2000
    characterization = Characterization(steps=30, quick_steps=10, quick_setting="sampling_steps=5")
    dit: DiT

    # ---------------------------------------------------------------- data

    def load_data(self) -> None:
        """Reads MNIST; pixels stay uint8 [n, 28, 28, 1] until they are part of a batch.

        Raises:
            FathomError: the network is for other images.
        """
        wanted = self.hyperparameters
        if (wanted.side, wanted.channels) != (28, 1) or wanted.classes != 10:
            raise FathomError(
                f"the network is for images of {wanted.side} x {wanted.side} x {wanted.channels} "
                f"of {wanted.classes} classes, not MNIST's 28 x 28 x 1 of 10: such a size can only "
                "be described"
            )
        mnist: Any = self.dataset.load(self.source.directory)
        parts = (mnist.train_images, mnist.train_labels), (mnist.test_images, mnist.test_labels)
        with CPU.placement():
            self.training, self.test = (
                (tf.constant(images[..., None]), tf.constant(labels.astype(np.int32)))
                for images, labels in parts
            )

    def prepare(self, batch: Tensors, seed: tf.Tensor) -> Tensors:
        """Returns images float32 from -1 to 1, and their classes."""
        pixels, classes = batch
        return tf.cast(pixels, tf.float32) / 127.5 - 1, classes

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of noise and of the classes asked for, in turn."""
        hyperparameters = self.hyperparameters
        size, seed, count = hyperparameters.batch_size, self.execution.seed, len(self.test[0])
        shape = [size, hyperparameters.side, hyperparameters.side, hyperparameters.channels]
        order = Sampler(count, size, seed, shuffle=False)

        def load(rows: tf.Tensor, seeds: tf.Tensor) -> Tensors:
            noise = randomness.normal(shape, seeds[0])
            return noise, tf.cast(rows % hyperparameters.classes, tf.int32)

        return DataLoader(order, load)

    # ---------------------------------------------------------------- network

    def build_inputs(self) -> list[keras.KerasTensor]:
        """Returns images float32 [batch, side, side, channels], -1 to 1, and classes int32."""
        hyperparameters = self.hyperparameters
        shape = (hyperparameters.side, hyperparameters.side, hyperparameters.channels)
        return [
            keras.Input(shape, name="images"),
            keras.Input((), dtype="int32", name="classes"),
        ]

    def build_labels(self) -> tuple[()]:
        """The network learns to find noise that it draws itself: there are no labels."""
        return ()

    def build_inference(self, inputs: nn.Nest) -> nn.Nest:
        """Returns the noise that the network finds in noised images, and what was added."""
        self._build_network()
        return self.evaluation_outputs(inputs)

    def _build_network(self) -> None:
        """Creates the layers, which training and sampling have in common."""
        hyperparameters = self.hyperparameters
        named = {name: getattr(hyperparameters, name) for name in Sizes._fields if name != "zero"}
        self.noising = Noising(self.new_noise(), self.new_noise(), name="noising")
        sizes = Sizes(**named, zero=ZERO)
        self.dit = DiT.create(sizes, hyperparameters.layers, self.new_random)

    def build_loss(self, inputs: nn.Nest, labels: tuple[()], outputs: nn.Nest) -> tf.Tensor:
        """Returns the mean squared error of the noise (equation 14)."""
        return tf.reduce_mean(_errors(outputs))

    def build_train(self) -> Optimizer:
        """By default AdamW without decay (DiT, section 4)."""
        return optimizers.create(self.hyperparameters.optimizer, self.scheduled_rate(0))

    def scheduled_rate(self, step: int) -> float:
        """Returns the learning rate of a step, counting from 0."""
        rate, end = self.hyperparameters.learning_rate, self.hyperparameters.decay_steps
        return warmed_cosine(step, rate, warmup=0, end=end) if end else rate

    def evaluation_outputs(self, inputs: nn.Nest) -> nn.Nest:
        """Returns the noise that is found in noised images, and what was added."""
        images, classes = inputs
        noisy, times, noise = self.noising(images)
        return self.dit(noisy, times, classes), noise

    def build_evaluation(
        self, inputs: nn.Nest, labels: tuple[()], outputs: nn.Nest
    ) -> dict[str, tf.Tensor]:
        """Returns each image's mean squared error of the noise, at a random time."""
        return {"loss": tf.reduce_mean(_errors(outputs), [1, 2, 3])}

    # ---------------------------------------------------------------- moving average

    def build_state(self) -> None:
        """Forgets the average and the loop of another network; a description needs none."""
        self._averaged: MovingAverage | None = None
        self._pass: Any = None

    @property
    def average(self) -> MovingAverage:
        """The moving average of the weights."""
        if self._averaged is None:
            with self.placement():
                self._averaged = MovingAverage(
                    self.network.trainable_variables, self.hyperparameters.average
                )
        return self._averaged

    def state(self) -> dict[str, tf.Variable]:
        """Returns the moving average."""
        return self.average.state

    def end_step(self, number: int) -> None:
        """Moves the average, and sets the learning rate of the next step."""
        self.average.update(number + 1)
        self.learning_rate.assign(self.scheduled_rate(number + 1))

    # ---------------------------------------------------------------- sampling

    def build_sampling(self) -> Sampling:
        """Returns the loop from noise to images."""
        options = self.run_options
        way = options.sampler, options.steps, options.guidance
        return Sampling(self.dit, *way, self.new_noise(), name="sampling")

    def first_pass(self, x: nn.Nest, classes: nn.Nest) -> tuple[nn.Nest, nn.Nest, nn.Nest]:
        """Returns what the network reads at first: images, times int32 [batch], and classes.

        With guidance the batch is twice as large, and its second half has no class.

        Args:
            x: float32 [batch, side, side, channels], noise.
            classes: int32 [batch].
        """
        options = self.run_options
        if options.guidance != 1:
            x = keras.ops.concatenate([x, x], 0)
            unknown = keras.ops.full_like(classes, self.hyperparameters.classes)
            classes = keras.ops.concatenate([classes, unknown], 0)
        first = int(steps_back(options.sampler, options.steps)[0][0])
        return x, keras.ops.full_like(classes, first), classes

    def sample(self, noise: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Returns the images of all steps from noise to images, by the averaged weights.

        Args:
            noise: float32 [n, side, side, channels].
            classes: int32 [n].

        Returns:
            float32 [steps, n, side, side, channels].
        """
        if self._pass is None:  # several calls have one trace
            step, compiled = self.build_sampling().next, self.xla_beside_steps == "step"
            self._pass = tf.function(step, autograph=False, jit_compile=compiled)
        images = [noise]
        with self.evaluated_weights(), self.device.placement():
            _, _, both = self.first_pass(noise, classes)
            for i in range(self.run_options.steps):
                images.append(self._pass(tf.constant(i), images[-1], both))
        return np.stack(images[1:])

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes ten samples of each of ten classes, and the way of one of each."""
        from fathom.shared.pictures import save_sheet  # Matplotlib is slow to import

        rng = np.random.default_rng(self.execution.seed)
        sizes = self.hyperparameters
        noise = rng.standard_normal((100, sizes.side, sizes.side, sizes.channels), np.float32)
        images = (self.sample(noise, np.arange(100, dtype=np.int32) % 10)[..., 0] + 1) / 2
        last = images[-1].reshape(10, 10, sizes.side, sizes.side)
        shown = images[np.linspace(0, len(images) - 1, 10).astype(int), :10]
        title = f"Samples of each class after {counted(self.steps_done, 'step')}"
        return [
            save_sheet(last, title, directory / "diffusion-samples.png"),
            save_sheet(shown, "From noise to images", directory / "diffusion-trajectory.png"),
        ]


class DiffusionFwd(Diffusion):
    """Samples images of given classes from noise.

    The inputs are noise, float32 [batch, side, side, channels], and classes, int32 [batch].
    """

    forward_only = True

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """Returns images, float32 [batch, side, side, channels], about from -1 to 1."""
        self._build_network()
        x, times, classes = self.first_pass(*inputs)
        return self.build_sampling()(x, classes, self.dit(x, times, classes))

    def cost(self) -> Cost:
        """Returns the cost of an image: that of all passes of the network."""
        cost, options = super().cost(), self.run_options
        passes = options.steps * (1 + (options.guidance != 1))
        rows = (row.model_copy(update={"macs": passes * row.macs}) for row in cost.layers)
        return dataclasses.replace(cost, layers=tuple(rows))


def _errors(outputs: nn.Nest) -> tf.Tensor:
    """Returns the squared errors of the noise; learned variances have none."""
    found, noise = outputs
    return tf.square(tf.cast(found[..., : noise.shape[-1]], tf.float32) - noise)
