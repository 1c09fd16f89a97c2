"""VGG: Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale ...".

Section numbers are those of the paper. The network is its configuration E: 16 convolutions and
three dense layers.
"""

from dataclasses import dataclass

import keras
from keras import layers

from fathom.core.layers import Dropout
from fathom.imagenet.classifier import Classifier, ClassifierHyperparameters
from fathom.options import Characterization, hyperparameter
from fathom.vgg.descriptor import DESCRIPTOR

CONFIGURATION_E = ((1, 2), (2, 2), (4, 4), (8, 4), (8, 4))
"""For each block of table 1: its width relative to the first, and its number of convolutions."""


@dataclass(frozen=True)
class VGGHyperparameters(ClassifierHyperparameters):
    """The choices of the paper's sections 2 to 4."""

    batch_size: int = hyperparameter(
        256, "per step", unit="images", source="section 3.1", minimum=1
    )
    image_size: int = hyperparameter(
        224,
        "side of the input; with smaller ones the maps vanish before pool5",
        unit="pixels",
        source="section 2.1",
        minimum=32,
    )
    smallest_side: int = hyperparameter(
        256, "lower limit of the training scale S", unit="pixels", source="section 3.1"
    )
    largest_side: int = hyperparameter(
        512, "upper limit of S: multi-scale training", unit="pixels", source="section 3.1"
    )
    evaluation_side: int = hyperparameter(
        384, "test scale Q, the midpoint of S's range", unit="pixels", source="section 4.1"
    )
    colour_shift: float = hyperparameter(
        0.1,
        "standard deviation of AlexNet's PCA shift",
        source="section 3.1",
        needs="augment",
    )
    base_filters: int = hyperparameter(64, "of the first block", source="table 1", minimum=1)
    hidden_units: int = hyperparameter(4096, "of each hidden layer", source="table 1", minimum=1)
    dropout: float = hyperparameter(0.5, "of hidden layers", source="section 3.1", below=1)
    learning_rate: float = hyperparameter(0.01, "of the optimizer", source="section 3.1")
    momentum: float = hyperparameter(0.9, "of the optimizer", source="section 3.1")
    weight_decay: float = hyperparameter(5e-4, "of kernels", source="section 3.1")


class VGG(Classifier):
    """VGG-19 on ImageNet."""

    descriptor = DESCRIPTOR
    Hyperparameters = VGGHyperparameters
    hyperparameters: VGGHyperparameters
    default_steps = 5
    characterization = Characterization(quick_batch_size=4)

    def build_inference(self, images: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the logits [batch, classes] of images [batch, size, size, 3] (section 2.1)."""
        hyperparameters = self.hyperparameters
        x = images
        for block, (width, depth) in enumerate(CONFIGURATION_E, 1):
            for number in range(1, depth + 1):
                filters = width * hyperparameters.base_filters
                x = self.convolution(f"conv{block}_{number}", filters, 3)(x)
            x = layers.MaxPooling2D(2, 2, name=f"pool{block}")(x)
        x = layers.Flatten(name="flatten")(x)
        for name in ("fc6", "fc7"):
            x = self.dense(name, hyperparameters.hidden_units, "relu")(x)
            x = Dropout(hyperparameters.dropout, self.new_noise(), name=f"{name}_dropout")(x)
        return self.dense("fc8", hyperparameters.classes)(x)

    def new_weights(self) -> keras.initializers.Initializer:
        """Returns the Glorot initialisation, which needs no pre-training (section 3.1)."""
        return keras.initializers.GlorotUniform(seed=self.new_seed())


class VGGFwd(VGG):
    """VGG-19, inference only."""

    forward_only = True
