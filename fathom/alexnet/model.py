"""AlexNet: Krizhevsky, Sutskever and Hinton 2012, "ImageNet Classification with Deep CNNs".

Section numbers are those of the paper. The network is the paper's two towers: conv2, conv4 and
conv5 see only the maps of their own tower: a convolution with two groups.
"""

from dataclasses import dataclass

import keras
from keras import layers

from fathom.alexnet.descriptor import DESCRIPTOR
from fathom.core.layers import Dropout, LocalResponseNormalization
from fathom.imagenet.classifier import Classifier, ClassifierHyperparameters
from fathom.options import Characterization, hyperparameter


@dataclass(frozen=True)
class AlexNetHyperparameters(ClassifierHyperparameters):
    """The choices of the paper's sections 3 to 5."""

    batch_size: int = hyperparameter(128, "per step", unit="images", source="section 5", minimum=1)
    image_size: int = hyperparameter(
        227,
        "side of the input; with smaller ones the maps vanish before pool5",
        unit="pixels",
        source="the paper's 224 needs 227 to give its 55 x 55 map",
        minimum=67,
    )
    smallest_side: int = hyperparameter(
        256, "shorter side before cropping", unit="pixels", source="section 2"
    )
    largest_side: int = hyperparameter(
        256, "as smallest_side: no scale augmentation", unit="pixels", source="section 2"
    )
    hidden_units: int = hyperparameter(
        4096, "of each hidden layer", source="section 3.5", minimum=1
    )
    dropout: float = hyperparameter(0.5, "of hidden layers", source="section 4.2", below=1)
    learning_rate: float = hyperparameter(0.01, "of the optimizer", source="section 5")
    momentum: float = hyperparameter(0.9, "of the optimizer", source="section 5")
    weight_decay: float = hyperparameter(5e-4, "of kernels", source="section 5")
    initial_stddev: float = hyperparameter(0.01, "of all weights", source="section 5")


class AlexNet(Classifier):
    """AlexNet on ImageNet: five convolutions and three dense layers."""

    descriptor = DESCRIPTOR
    Hyperparameters = AlexNetHyperparameters
    hyperparameters: AlexNetHyperparameters
    centre_square = True  # section 2: crops are taken from the central 256 x 256
    default_steps = 20
    characterization = Characterization(quick_batch_size=32)
    default_xla = "layers"  # the response normalisation

    def build_inference(self, images: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the logits [batch, classes] of images [batch, size, size, 3] (section 3.5)."""
        x = self.convolution("conv1", 96, 11, strides=4, padding="valid")(images)
        x = self._normalization("norm1")(x)
        x = layers.MaxPooling2D(3, 2, name="pool1")(x)
        x = self.convolution("conv2", 256, 5, groups=2, bias=1)(x)
        x = self._normalization("norm2")(x)
        x = layers.MaxPooling2D(3, 2, name="pool2")(x)
        x = self.convolution("conv3", 384, 3)(x)
        x = self.convolution("conv4", 384, 3, groups=2, bias=1)(x)
        x = self.convolution("conv5", 256, 3, groups=2, bias=1)(x)
        x = layers.MaxPooling2D(3, 2, name="pool5")(x)
        x = layers.Flatten(name="flatten")(x)
        for name in ("fc6", "fc7"):
            x = self.dense(name, self.hyperparameters.hidden_units, "relu", bias=1)(x)
            x = Dropout(self.hyperparameters.dropout, self.new_noise(), name=f"{name}_dropout")(x)
        return self.dense("fc8", self.hyperparameters.classes)(x)

    def _normalization(self, name: str) -> LocalResponseNormalization:
        """Returns the response normalisation with the constants of section 3.3."""
        return LocalResponseNormalization(
            n=5, k=2, alpha=1e-4, compiled=self.xla == "layers", name=name
        )

    def new_weights(self) -> keras.initializers.Initializer:
        """Returns normal weights (section 5)."""
        return keras.initializers.RandomNormal(
            stddev=self.hyperparameters.initial_stddev, seed=self.new_seed()
        )


class AlexNetFwd(AlexNet):
    """AlexNet, inference only."""

    forward_only = True
