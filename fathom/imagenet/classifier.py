"""The base of the three ImageNet networks: data, augmentation, loss, schedule, evaluation."""

import abc
import math
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import tensorflow as tf

from fathom import nn
from fathom.core.data.pipeline import Sampler, Tensors
from fathom.core.layers import Convolution2D
from fathom.core.training import optimizers
from fathom.core.training.optimizers import Optimizer
from fathom.core.training.schedules import Plateau
from fathom.errors import FathomError
from fathom.imagenet import input as pipeline
from fathom.imagenet.ilsvrc import Images
from fathom.imagenet.images import Augmentation
from fathom.imagenet.subset import keep_classes
from fathom.options import Hyperparameters, RunOptions, hyperparameter, option
from fathom.system.processor import available_cores

_STEPS_BETWEEN_CHECKS = 1000  # at least: in fewer steps the validation error may stall by chance


@dataclass(frozen=True)
class ClassifierHyperparameters(Hyperparameters):
    """The hyperparameters of all ImageNet classifiers."""

    optimizer: str = optimizers.choice("momentum", source="all three papers")
    learning_rate: float = hyperparameter(0.01, "of the optimizer")
    momentum: float = hyperparameter(0.9, "of the optimizer")
    weight_decay: float = hyperparameter(5e-4, "of kernels; not of biases and normalization")
    classes: int = hyperparameter(1000, "outputs of the network", minimum=2)
    image_size: int = hyperparameter(224, "side of the network's input", unit="pixels")
    smallest_side: int = hyperparameter(256, "lower limit of the shorter side", unit="pixels")
    largest_side: int = hyperparameter(256, "upper limit of it, inclusive", unit="pixels")
    colour_shift: float = hyperparameter(
        0.1,
        "standard deviation of the PCA shift",
        source="AlexNet, section 4.1",
        needs="augment",
    )
    augment: bool = hyperparameter(
        True, "random scale, crop, mirror and colour; false: centre crop"
    )
    evaluation_side: int = hyperparameter(
        256, "shorter side before cropping in evaluation", unit="pixels"
    )
    keep_classes: str = hyperparameter("", "use only these classes: comma-separated WordNet ids")
    background_class: bool = hyperparameter(True, "labels in TFRecords count from 1, as is usual")
    patience: int = hyperparameter(
        3, "validations without improvement before the rate is divided by 10", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for smaller, larger in (
            ("image_size", "smallest_side"),
            ("image_size", "evaluation_side"),
            ("smallest_side", "largest_side"),
        ):
            least, given = getattr(self, smaller), getattr(self, larger)
            if given < least:
                raise FathomError(f"{larger} must be at least {least}, the {smaller}, not {given}")


@dataclass(frozen=True)
class ClassifierOptions(RunOptions):
    """How all ImageNet classifiers are evaluated, and how they read images."""

    views: int = option(
        1, "crops averaged in evaluation: the centre, or AlexNet's ten", choices=(1, 10)
    )
    evaluate_on: str = option(
        "validation", "split of the evaluation", choices=("validation", "train")
    )
    strict: bool = option(False, "unreadable images are errors, not skipped")


class Classifier(nn.NeuralNetworkModel):
    """A network that classifies images."""

    hyperparameters: ClassifierHyperparameters
    RunOptions = ClassifierOptions
    run_options: ClassifierOptions
    example = "images"
    centre_square = False  # take training crops only from the scaled image's central square

    def load_data(self) -> None:
        """Finds the images and their labels, which are read during the run.

        Raises:
            FathomError: unusable data, an unknown class, or more classes than outputs.
        """
        hyperparameters = self.hyperparameters
        self.images = self.dataset.load(
            self.source.directory,
            background_class=hyperparameters.background_class,
            strict=self.run_options.strict,
        )
        if hyperparameters.keep_classes:
            kept = [wnid.strip() for wnid in hyperparameters.keep_classes.split(",")]
            self.images = keep_classes(self.images, kept)
        if self.images.classes > hyperparameters.classes:
            raise FathomError(
                f"{self.source.directory} has {self.images.classes} classes, the network "
                f"{hyperparameters.classes} outputs: use --set classes={self.images.classes}"
            )

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the images: float32 [batch, size, size, 3], RGB from 0 to 255 minus the mean."""
        size = self.hyperparameters.image_size
        return keras.Input((size, size, 3), name="images")

    def build_labels(self) -> keras.KerasTensor:
        """Returns the class of each image: int32 [batch]."""
        return keras.Input((), dtype="int32", name="labels")

    def build_loss(self, images: tf.Tensor, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of the softmax, in nats."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def build_train(self) -> Optimizer:
        """By default gradient descent with momentum and weight decay, as in all three papers."""
        hyperparameters = self.hyperparameters
        return optimizers.create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            momentum=hyperparameters.momentum,
            weight_decay=hyperparameters.weight_decay,
        )

    def convolution(
        self,
        name: str,
        filters: int,
        size: int,
        *,
        strides: int = 1,
        padding: str = "same",
        groups: int = 1,
        bias: float = 0,
    ) -> Convolution2D:
        """Returns a convolution with its ReLU."""
        return Convolution2D(
            filters,
            size,
            strides=strides,
            padding=padding,
            groups=groups,
            activation="relu",
            kernel_initializer=self.new_weights(),
            bias_initializer=keras.initializers.Constant(bias),
            name=name,
        )

    def dense(
        self, name: str, units: int, activation: str | None = None, bias: float = 0
    ) -> keras.layers.Dense:
        """Returns a dense layer."""
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=self.new_weights(),
            bias_initializer=keras.initializers.Constant(bias),
            name=name,
        )

    @abc.abstractmethod
    def new_weights(self) -> keras.initializers.Initializer:
        """Returns what gives a layer its initial weights."""

    def evaluation_outputs(self, images: tf.Tensor) -> tf.Tensor:
        """Returns log probabilities [batch, classes], averaged over views [batch, views, ...].

        Averaging the predictions over ten crops is AlexNet's section 4.1.
        """
        views = tf.shape(images)[1]  # one for the schedule, regardless of the option
        logits = self.network(tf.reshape(images, [-1, *images.shape[2:]]), training=False)
        log_probabilities = tf.reshape(tf.nn.log_softmax(logits), [-1, views, logits.shape[-1]])
        total = tf.reduce_logsumexp(log_probabilities, axis=1)
        return total - tf.math.log(tf.cast(views, total.dtype))

    def build_evaluation(
        self, images: tf.Tensor, labels: tf.Tensor, log_probabilities: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each image's top-1 and top-5 error (0 or 1) and cross-entropy in nats."""
        before = classes_before(labels, log_probabilities)
        return {
            "top1_error": tf.cast(before >= 1, tf.float32),
            "top5_error": tf.cast(before >= min(5, self.hyperparameters.classes), tf.float32),
            "cross_entropy": -tf.gather(log_probabilities, labels, axis=1, batch_dims=1),
        }

    # ---------------------------------------------------------------- schedule

    def build_state(self) -> None:
        """Creates, for training, the learning-rate schedule."""
        if not self.forward_only:
            self._plateau = Plateau(
                self.learning_rate, factor=10, patience=self.hyperparameters.patience
            )

    def state(self) -> dict[str, tf.Variable]:
        """Returns the schedule's variables."""
        if self.forward_only:
            return {}
        return {"plateau-best": self._plateau.best, "plateau-stalled": self._plateau.stalled}

    def end_epoch(self, epoch: int) -> None:
        """Divides the rate by 10 if the validation error has stopped falling, and notes both.

        Does nothing without validation images, or too soon after the last check.
        """
        epochs_between = math.ceil(_STEPS_BETWEEN_CHECKS / self.steps_per_epoch)
        if self.images.validation is not None and (epoch + 1) % epochs_between == 0:
            error = self.validation_error()
            self._plateau.update(error)
            self.note("validation_top1_error", error)
            self.note("learning_rate", float(self.learning_rate.numpy()))

    def validation_error(self) -> float:
        """Returns the top-1 error of the validation images' centre crops.

        The schedule uses one view of the validation images, as the papers do, regardless of
        ``views`` and ``evaluate_on``, which are for the user's evaluation.

        Raises:
            FathomError: there are none, or they cannot be read.
        """
        return self.metrics_of(self._images_to_evaluate("validation", views=1))["top1_error"]

    # ---------------------------------------------------------------- data

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training images."""
        return self._order(self._images("train"), shuffle=True).steps_per_epoch

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of augmented images and labels from ``first_step`` on."""
        return self._stream("train", first_step, training=True)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of centre crops, cycling through the images."""
        split = "train" if self.images.validation is None else "validation"
        batches = self._stream(split, 0, training=False)
        return ((images,) for images, _ in batches)

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns one pass over the images to evaluate on: [batch, views, size, size, 3]."""
        return self._images_to_evaluate(self.run_options.evaluate_on, self.run_options.views)

    def describe_data(self) -> dict[str, object]:
        """Returns the numbers of images and classes, and the damaged images that were skipped."""
        return {
            "train_images": self.images.train.size if self.images.train else 0,
            "validation_images": self.images.validation.size if self.images.validation else 0,
            "classes": self.images.classes,
            "skipped": dict(self.images.skipped),
        }

    def _images_to_evaluate(self, split: str, views: int) -> Iterator[Tensors]:
        hyperparameters = self.hyperparameters
        return pipeline.evaluation_batches(
            self.images,
            self._images(split),
            hyperparameters.batch_size,
            crop=hyperparameters.image_size,
            shorter_side=hyperparameters.evaluation_side,
            views=views,
            workers=available_cores(),
        )

    def _stream(self, split: str, first_step: int, *, training: bool) -> Iterator[Tensors]:
        hyperparameters, images = self.hyperparameters, self._images(split)
        sides = hyperparameters.smallest_side, hyperparameters.largest_side
        if not training:
            sides = 2 * (hyperparameters.evaluation_side,)
        augmentation = Augmentation(
            crop=hyperparameters.image_size,
            shorter_side=sides,
            centre_square=self.centre_square,
            colour_shift=hyperparameters.colour_shift,
            augment=training and hyperparameters.augment,
        )
        return pipeline.training_batches(
            self.images,
            images,
            self._order(images, shuffle=training),
            augmentation,
            first_step,
            workers=available_cores(),
        )

    def _order(self, images: Images, shuffle: bool) -> Sampler:
        return Sampler(images.size, self.hyperparameters.batch_size, self.execution.seed, shuffle)

    def _images(self, split: str) -> Images:
        images = getattr(self.images, split)
        if images is None:
            problem = f"{self.source.directory} has no {split} images"
            if split == "validation":
                problem = self.images.missing_truth or problem
                problem += "; --set evaluate_on=train evaluates on the training images"
            raise FathomError(problem)
        return images


def classes_before(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Returns the number of classes before the correct one, ordered as by ``top_k``.

    Equal scores, which are common in bfloat16, are in the order of their classes. A correct class
    with score NaN is last.

    Args:
        labels: int32 [batch], the correct classes.
        scores: float [batch, classes].

    Returns:
        int32 [batch], from 0 to ``classes``.
    """
    of_label = tf.gather(scores, labels, axis=1, batch_dims=1)[:, None]
    later = tf.range(tf.shape(scores)[1])[None] >= labels[:, None]  # including itself
    behind = (scores < of_label) | ((scores == of_label) & later)
    return tf.reduce_sum(tf.cast(~behind, tf.int32), axis=1)
