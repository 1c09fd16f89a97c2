"""Residual networks: He, Zhang, Ren and Sun 2015, "Deep Residual Learning for Image Recognition".

Section numbers are those of the paper. The network is its ResNet-34: 33 convolutions and one dense
layer on the main path.
"""

from dataclasses import dataclass

import keras
from keras import layers

from fathom.imagenet.classifier import Classifier, ClassifierHyperparameters
from fathom.options import Characterization, hyperparameter
from fathom.residual.descriptor import DESCRIPTOR
from fathom.residual.layers import IdentityShortcut, NormalizedConvolution2D
from fathom.results.distribution import Statistics

BLOCKS = (3, 4, 6, 3)
"""Residual blocks in each of the stages conv2_x to conv5_x of table 1."""

BATCH_NORM = {"momentum": 0.9, "epsilon": 1e-5}
"""The paper gives none; these are Torch's, with which its results were reproduced."""


@dataclass(frozen=True)
class ResidualHyperparameters(ClassifierHyperparameters):
    """The choices of the paper's section 3."""

    batch_size: int = hyperparameter(
        256, "per step", unit="images", source="section 3.4", minimum=1
    )
    image_size: int = hyperparameter(
        224,
        "side of the input; at the minimum conv5_x has one pixel",
        unit="pixels",
        source="section 3.4",
        minimum=32,
    )
    smallest_side: int = hyperparameter(
        256, "lower limit of the shorter side", unit="pixels", source="section 3.4"
    )
    largest_side: int = hyperparameter(480, "upper limit", unit="pixels", source="section 3.4")
    colour_shift: float = hyperparameter(
        0.1,
        "standard deviation of AlexNet's PCA shift",
        source="section 3.4",
        needs="augment",
    )
    base_filters: int = hyperparameter(
        64, "of conv1 and conv2_x, doubled in each later stage", source="table 1", minimum=1
    )
    shortcut: str = hyperparameter(
        "projection",
        "where dimensions increase: option B, or option A (identity)",
        source="section 3.3",
        choices=("projection", "identity"),
    )
    learning_rate: float = hyperparameter(0.1, "of the optimizer", source="section 3.4")
    momentum: float = hyperparameter(0.9, "of the optimizer", source="section 3.4")
    weight_decay: float = hyperparameter(1e-4, "of kernels", source="section 3.4")
    synchronize_statistics: bool = hyperparameter(
        False, "replicas normalize by the whole batch's statistics, not each by those of its part"
    )


class Residual(Classifier):
    """ResNet-34 on ImageNet."""

    descriptor = DESCRIPTOR
    Hyperparameters = ResidualHyperparameters
    hyperparameters: ResidualHyperparameters
    default_steps = 10
    characterization = Characterization(quick_batch_size=8)

    @property
    def batch_statistics(self) -> Statistics:
        """What batch normalization uses on several replicas."""
        return "batch" if self.hyperparameters.synchronize_statistics else "replica"

    def build_inference(self, images: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the logits [batch, classes] of images [batch, size, size, 3] (section 3.3)."""
        filters = self.hyperparameters.base_filters
        x = self._normalized_convolution("conv1", images, filters, 7, strides=2)
        x = layers.ReLU(name="conv1_relu")(x)
        x = layers.MaxPooling2D(3, 2, padding="same", name="pool1")(x)
        for stage, n_blocks in enumerate(BLOCKS, 2):
            for block in range(1, n_blocks + 1):
                strides = 2 if stage > 2 and block == 1 else 1
                x = self._block(f"conv{stage}_{block}", x, filters, strides)
            filters *= 2
        x = layers.GlobalAveragePooling2D(name="pool5")(x)
        return layers.Dense(
            self.hyperparameters.classes, kernel_initializer=self.new_weights(), name="fc"
        )(x)

    def _block(
        self, name: str, x: keras.KerasTensor, filters: int, strides: int
    ) -> keras.KerasTensor:
        """Returns ``relu(F(x) + x)``, F being two 3 x 3 convolutions (figure 2, equation 1)."""
        y = self._normalized_convolution(f"{name}a", x, filters, 3, strides)
        y = layers.ReLU(name=f"{name}a_relu")(y)
        y = self._normalized_convolution(f"{name}b", y, filters, 3)
        shortcut = x if strides == 1 else self._shortcut(f"{name}_shortcut", x, filters, strides)
        return layers.ReLU(name=f"{name}_relu")(layers.Add(name=f"{name}_add")([y, shortcut]))

    def _shortcut(
        self, name: str, x: keras.KerasTensor, filters: int, strides: int
    ) -> keras.KerasTensor:
        """Returns ``x`` in the dimensions of the next stage (section 3.3)."""
        if self.hyperparameters.shortcut == "identity":
            return IdentityShortcut(filters, strides, name=name)(x)
        return self._normalized_convolution(name, x, filters, 1, strides)

    def _normalized_convolution(
        self, name: str, x: keras.KerasTensor, filters: int, size: int, strides: int = 1
    ) -> keras.KerasTensor:
        """Returns a convolution followed by batch normalisation (section 3.4)."""
        return NormalizedConvolution2D(
            filters,
            size,
            strides,
            self.new_weights(),
            **BATCH_NORM,
            synchronized=self.hyperparameters.synchronize_statistics,
            name=name,
        )(x)

    def new_weights(self) -> keras.initializers.Initializer:
        """Returns N(0, 2 / fan-in), as He et al. 2015, "Delving Deep into Rectifiers" (eq. 10)."""
        return keras.initializers.VarianceScaling(
            2.0, "fan_in", "untruncated_normal", seed=self.new_seed()
        )


class ResidualFwd(Residual):
    """ResNet-34, inference only."""

    forward_only = True
