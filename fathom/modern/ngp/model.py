"""An image as a network of positions: Mueller et al. 2022 (arXiv:2201.05989).

"Instant Neural Graphics Primitives with a Multiresolution Hash Encoding"; section, equation and
table numbers are the paper's.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from fathom import nn
from fathom.core.data.pipeline import DataLoader, Sampler, Tensors
from fathom.core.training import optimizers
from fathom.core.training.optimizers import Optimizer
from fathom.core.training.randomness import uniform
from fathom.errors import FathomError
from fathom.modern.ngp.descriptor import DESCRIPTOR
from fathom.modern.ngp.images import Images
from fathom.modern.ngp.layers import HashEncoding, resolutions
from fathom.modern.ngp.optimizer import LazyAdam
from fathom.options import Hyperparameters, hyperparameter
from fathom.system.device import CPU

_EVALUATED = 2**14  # pixels at once
_PICTURED = (1, 10, 100)  # steps
_SMALL_SIDE = 128  # pixels of a picture during training, at most


@dataclass(frozen=True)
class NGPHyperparameters(Hyperparameters):
    """The choices of table 1 and section 4; batch and tables suit an image of half a megapixel."""

    batch_size: int = hyperparameter(2**14, "per step", unit="positions", minimum=1)
    levels: int = hyperparameter(16, "of resolution, L", source="table 1", minimum=1, maximum=64)
    features: int = hyperparameter(2, "of an entry, F", source="table 1", minimum=1)
    log2_table: int = hyperparameter(
        15, "entries of a level at most, T", unit="bits", source="table 1", minimum=1, maximum=24
    )
    coarsest: int = hyperparameter(16, "resolution, N_min", source="table 1", minimum=1)
    finest: int = hyperparameter(512, "resolution, N_max", source="table 1", minimum=1)
    hidden_units: int = hyperparameter(64, "of each layer", source="section 4", minimum=1)
    optimizer: str = optimizers.choice("adam", source="section 4")
    learning_rate: float = hyperparameter(0.01, "of the optimizer", source="section 4")
    weight_decay: float = hyperparameter(1e-6, "L2, not of tables", source="section 4")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.coarsest <= self.finest <= 2**20:
            raise FathomError(
                f"finest {self.finest} is not from coarsest {self.coarsest} to {2**20}"
            )


class NGP(nn.NeuralNetworkModel):
    """A position to a colour: features from hash tables, and two hidden layers."""

    descriptor = DESCRIPTOR
    Hyperparameters = NGPHyperparameters
    hyperparameters: NGPHyperparameters
    example = "positions"
    default_steps = 300
    default_xla = "step"  # loops of hashing, gathering and interpolating: docs/workloads/ngp.md

    def load_data(self) -> None:
        """Reads the image."""
        image: Images = self.dataset.load(self.source.directory)
        self.pixels = image.pixels
        self._small: dict[int, np.ndarray] = {}  # pictures during training, by step
        with CPU.placement():
            self._colours = tf.constant(image.pixels)

    def build_inputs(self) -> keras.KerasTensor:
        """Returns positions, float32 [batch, 2]: x to the right and y down, each in [0, 1]."""
        return keras.Input((2,), name="positions")

    def build_labels(self) -> keras.KerasTensor:
        """Returns their colours: float32 [batch, 3], RGB, each in [0, 1]."""
        return keras.Input((3,), name="colours")

    def build_inference(self, positions: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the colours at positions: float32 [batch, 3] (figure 3)."""
        sizes = self.hyperparameters
        x = HashEncoding(
            resolutions(sizes.levels, sizes.coarsest, sizes.finest),
            2**sizes.log2_table,
            sizes.features,
            [self.new_seed() for _ in range(sizes.levels)],
            name="encoding",
        )(positions)
        for i in (1, 2):
            x = self._dense(sizes.hidden_units, f"hidden{i}", "relu")(x)
        return self._dense(3, "colour")(x)

    def _dense(self, units: int, name: str, activation: str | None = None) -> layers.Dense:
        """Returns a layer without biases, as in the published code, with Glorot's weights."""
        weights = keras.initializers.GlorotUniform(self.new_seed())
        return layers.Dense(
            units, activation, use_bias=False, kernel_initializer=weights, name=name
        )

    def build_loss(self, positions: tf.Tensor, colours: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        """Returns the mean squared error, the loss of images (section 4)."""
        return tf.reduce_mean(tf.math.squared_difference(found, colours))

    def build_train(self) -> Optimizer:
        """By default Adam, which skips entries without gradient (section 4)."""
        hyperparameters = self.hyperparameters
        adam = hyperparameters.optimizer == "adam"
        make = LazyAdam if adam else functools.partial(optimizers.create, hyperparameters.optimizer)
        return make(
            hyperparameters.learning_rate,
            beta_1=0.9,
            beta_2=0.99,
            epsilon=1e-15,
            weight_decay=hyperparameters.weight_decay,
            decayed=lambda variable: not variable.path.startswith("encoding"),
        )

    def build_evaluation(
        self, positions: tf.Tensor, colours: tf.Tensor, found: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the squared error of each pixel, the mean over its channels."""
        shown = tf.clip_by_value(found, 0, 1)
        return {"squared_error": tf.reduce_mean(tf.math.squared_difference(shown, colours), 1)}

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns the mean squared error, and the peak signal-to-noise ratio of the image in dB."""
        means = super().total_metrics(sums, examples)
        return means | {"psnr": -10 * math.log10(max(means["squared_error"], 1e-12))}

    # ---------------------------------------------------------------- data

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps with as many positions as the image has pixels."""
        return len(self._every()) // self.hyperparameters.batch_size

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of random positions and their colours, at most one a pixel."""
        size = self.hyperparameters.batch_size

        def load(_: tf.Tensor, seeds: tf.Tensor) -> Tensors:
            positions = uniform([size, 2], seeds[0])
            return positions, interpolated(self._colours, positions)

        return DataLoader(self._order(shuffle=True), load, first_step)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of pixels' positions, row by row."""
        order = self._order(shuffle=False)
        return DataLoader(order, lambda pixels, _: (self._centres(pixels),))

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the positions and colours of all pixels once."""
        colours = tf.reshape(tf.cast(self._colours, tf.float32) / 255, [-1, 3])
        for first in range(0, len(self._every()), _EVALUATED):
            pixels = self._every()[first : first + _EVALUATED]
            yield self._centres(pixels), tf.gather(colours, pixels)

    def _order(self, shuffle: bool) -> Sampler:
        size = self.hyperparameters.batch_size
        return Sampler(len(self._every()), size, self.execution.seed, shuffle)

    def _every(self) -> range:
        """Returns the numbers of all pixels."""
        height, width, _ = self.pixels.shape
        return range(height * width)

    def _centres(self, pixels: Any) -> tf.Tensor:
        """Returns the positions of the centres of numbered pixels, float32 [n, 2]."""
        height, width, _ = self.pixels.shape
        numbers = tf.cast(pixels, tf.int32)
        places = tf.stack([numbers % width, numbers // width], 1)
        return (tf.cast(places, tf.float32) + 0.5) / tf.constant([width, height], tf.float32)

    def describe_data(self) -> dict[str, Any]:
        """Returns the size of the image."""
        height, width, _ = self.pixels.shape
        return {"width": width, "height": height}

    # ---------------------------------------------------------------- pictures

    def end_step(self, number: int) -> None:
        """Keeps a small picture after the first step, the tenth and the hundredth."""
        if number + 1 in _PICTURED:
            self._small[number + 1] = self.render(_SMALL_SIDE)

    def render(self, most: int | None = None) -> np.ndarray:
        """Returns the image as the network has it, float32 [height, width, 3] in [0, 1].

        Args:
            most: pixels along its longer side; None: as many as the image has.
        """
        height, width, _ = self.pixels.shape
        step = max(1, math.ceil(max(height, width) / most)) if most else 1
        numbers = np.array(self._every()).reshape(height, width)[::step, ::step]
        parts = np.split(numbers.ravel(), range(_EVALUATED, numbers.size, _EVALUATED))
        found = [self.network(self._centres(part), training=False).numpy() for part in parts]
        return np.concatenate(found).reshape(*numbers.shape, 3).clip(0, 1)

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes the image as it was during training, as it is, and its errors."""
        from fathom.modern.ngp import pictures  # Matplotlib is slow to import

        return [pictures.save(directory, self._small, self.render(), self.pixels / 255)]


class NGPFwd(NGP):
    """The network of an image, inference only."""

    forward_only = True


def interpolated(image: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns an image's colours at positions, bilinear between the centres of pixels.

    Args:
        image: uint8 [height, width, 3].
        positions: float32 [n, 2], x and y in [0, 1].

    Returns:
        float32 [n, 3], in [0, 1].
    """
    height, width, _ = image.shape
    last = tf.constant([width - 1, height - 1], tf.float32)
    places = tf.clip_by_value(positions * (last + 1) - 0.5, 0, last)
    low = tf.floor(places)
    part, high = places - low, tf.minimum(low + 1, last)
    (x0, y0), (x1, y1) = (tf.unstack(tf.cast(each, tf.int32), axis=1) for each in (low, high))
    flat = tf.reshape(image, [-1, 3])

    def colours(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.gather(flat, y * width + x), tf.float32) / 255

    right, down = part[:, :1], part[:, 1:]
    upper = colours(y0, x0) * (1 - right) + colours(y0, x1) * right
    lower = colours(y1, x0) * (1 - right) + colours(y1, x1) * right
    return upper * (1 - down) + lower * down
