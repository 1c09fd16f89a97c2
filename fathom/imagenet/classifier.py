"""What the three ImageNet networks share: data, augmentation, loss, schedule and evaluation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from fathom import nn
from fathom.data.pipeline import Sampler, Tensors
from fathom.errors import FathomError
from fathom.imagenet import input as pipeline
from fathom.imagenet.ilsvrc import ImageNet, Images
from fathom.imagenet.images import Augmentation
from fathom.imagenet.subset import keep_classes
from fathom.options import Hyperparameters, hyperparameter
from fathom.system import device
from fathom.training.optimizers import Momentum
from fathom.training.schedules import Plateau

_STEPS_BETWEEN_CHECKS = 1000  # at least: fewer steps cannot show that the validation error stalls


@dataclass(frozen=True)
class ClassifierHyperparameters(Hyperparameters):
    """The choices that every ImageNet classifier has."""

    learning_rate: float = hyperparameter(0.01, "of the optimizer")
    momentum: float = hyperparameter(0.9, "of the optimizer")
    weight_decay: float = hyperparameter(5e-4, "of kernels; not of biases and normalization")
    classes: int = hyperparameter(1000, "outputs of the network", minimum=2)
    image_size: int = hyperparameter(224, "side of the network's input", unit="pixels")
    smallest_side: int = hyperparameter(
        256, "the shorter side's length is drawn from here", unit="pixels"
    )
    largest_side: int = hyperparameter(256, "to here, both included", unit="pixels")
    colour_shift: float = hyperparameter(
        0.1, "standard deviation of the PCA shift", source="AlexNet, section 4.1"
    )
    augment: bool = hyperparameter(
        True, "random scale, crop, mirror and colour; else the centre crop alone"
    )
    views: int = hyperparameter(
        1, "crops that an evaluation averages: the centre, or all of AlexNet's", choices=(1, 10)
    )
    evaluation_side: int = hyperparameter(
        256, "the shorter side before an evaluation's crops", unit="pixels"
    )
    evaluate_on: str = hyperparameter(
        "validation", "images of the evaluation", choices=("validation", "train")
    )
    strict: bool = hyperparameter(False, "an unreadable image is an error, not skipped")
    keep_classes: str = hyperparameter("", "use these classes alone: WordNet ids between commas")
    background_class: bool = hyperparameter(
        True, "labels of TFRecords count from 1, as in the usual shards"
    )
    patience: int = hyperparameter(
        3, "validations without improvement before the rate is divided by 10", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least("image_size", "smallest_side")
        self._require_at_least("image_size", "evaluation_side")
        self._require_at_least("smallest_side", "largest_side")

    def _require_at_least(self, smaller: str, larger: str) -> None:
        """Raises FathomError where the second field is less than the first."""
        if getattr(self, larger) < getattr(self, smaller):
            raise FathomError(
                f"{larger} must be at least {getattr(self, smaller)}, the {smaller}, not "
                f"{getattr(self, larger)}"
            )


class Classifier(nn.NeuralNetworkModel):
    """A network that tells the class of an image.

    Attributes:
        centre_square: training crops come out of the scaled image's central square alone.
    """

    datasets = (ImageNet,)
    hyperparameters: ClassifierHyperparameters
    example = "images"
    centre_square = False

    def load_data(self) -> None:
        """Finds the images and their labels; they are read while the network runs.

        Raises:
            FathomError: unusable data, an unknown class, or more classes than the network has
                outputs.
        """
        chosen = self.hyperparameters
        self.images = self.dataset.load(
            self.source.directory, background_class=chosen.background_class, strict=chosen.strict
        )
        if chosen.keep_classes:
            kept = [wnid.strip() for wnid in chosen.keep_classes.split(",")]
            self.images = keep_classes(self.images, kept)
        if self.images.classes > chosen.classes:
            raise FathomError(
                f"{self.source.directory} has {self.images.classes} classes, the network "
                f"{chosen.classes} outputs: use --set classes={self.images.classes}"
            )

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the images: float32 [batch, size, size, 3], RGB from 0 to 255 less the mean."""
        size = self.hyperparameters.image_size
        return keras.Input((size, size, 3), name="images")

    def build_labels(self) -> keras.KerasTensor:
        """Returns the class of each image: int32 [batch]."""
        return keras.Input((), dtype="int32", name="labels")

    def build_loss(self, images: tf.Tensor, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of the softmax, in nats."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def build_train(self) -> Momentum:
        """Stochastic gradient descent with momentum and weight decay, as all three papers have."""
        chosen = self.hyperparameters
        return Momentum(chosen.learning_rate, chosen.momentum, weight_decay=chosen.weight_decay)

    def evaluation_outputs(self, images: tf.Tensor) -> tf.Tensor:
        """Returns log probabilities [batch, classes], of the mean over views [batch, views, ...].

        Averaging the predictions over ten crops is AlexNet's section 4.1.
        """
        views = tf.shape(images)[1]  # one for the schedule, whatever is chosen for others
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

    def build(self) -> None:
        """Builds the network, and what watches over the learning rate in training."""
        super().build()
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
        """Divides the rate by 10 when the validation error has stopped falling, and notes both.

        Nothing is done without validation images, or before enough steps since the last look.
        """
        epochs_between = math.ceil(_STEPS_BETWEEN_CHECKS / self.steps_per_epoch)
        if self.images.validation is not None and (epoch + 1) % epochs_between == 0:
            error = self.validation_error()
            self._plateau.update(error)
            self.note("validation_top1_error", error)
            self.note("learning_rate", float(self.learning_rate))

    def validation_error(self) -> float:
        """Returns the top-1 error of the validation images' centre crops.

        One view is enough for the schedule, and the papers look at the validation images, whatever
        ``views`` and ``evaluate_on`` say of the evaluation that a person asks for.

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
        return self._stream("train", first_step, augment=self.hyperparameters.augment)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of images in turn, each the centre crop."""
        split = "train" if self.images.validation is None else "validation"
        return ((images,) for images, _ in self._stream(split, 0, augment=False, shuffle=False))

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns one pass over the images to evaluate on: [batch, views, size, size, 3]."""
        chosen = self.hyperparameters
        return self._images_to_evaluate(chosen.evaluate_on, chosen.views)

    def describe_data(self) -> dict[str, Any]:
        """Returns the numbers of images and classes, and the damaged images that were skipped."""
        return {
            "train_images": self.images.train.size if self.images.train else 0,
            "validation_images": self.images.validation.size if self.images.validation else 0,
            "classes": self.images.classes,
            "skipped": dict(self.images.skipped),
        }

    def _images_to_evaluate(self, split: str, views: int) -> Iterator[Tensors]:
        chosen = self.hyperparameters
        return pipeline.evaluation_batches(
            self.images,
            self._images(split),
            chosen.batch_size,
            crop=chosen.image_size,
            shorter_side=chosen.evaluation_side,
            views=views,
            workers=device.available_cores(),
        )

    def _stream(
        self, split: str, first_step: int, *, augment: bool, shuffle: bool = True
    ) -> Iterator[Tensors]:
        chosen, images = self.hyperparameters, self._images(split)
        augmentation = Augmentation(
            crop=chosen.image_size,
            shorter_side=(chosen.smallest_side, chosen.largest_side),
            centre_square=self.centre_square,
            colour_shift=chosen.colour_shift,
            augment=augment,
        )
        return pipeline.training_batches(
            self.images,
            images,
            self._order(images, shuffle),
            augmentation,
            first_step,
            workers=device.available_cores(),
        )

    def _order(self, images: Images, shuffle: bool) -> Sampler:
        return Sampler(images.size, self.hyperparameters.batch_size, self.execution.seed, shuffle)

    def _images(self, split: str) -> Images:
        """Returns one split of the data.

        Raises:
            FathomError: the folder has no such images.
        """
        images = getattr(self.images, split)
        if images is None:
            problem = f"{self.source.directory} has no {split} images"
            if split == "validation":
                problem = self.images.missing_truth or problem
                problem += "; --set evaluate_on=train evaluates on the training images"
            raise FathomError(problem)
        return images


def classes_before(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Returns how many classes come before the right one, as ``argmax`` and ``top_k`` order them.

    Equal scores, which are common in bfloat16, come in the order of their classes. A right class
    whose score is not a number comes last.

    Args:
        labels: int32 [batch], the right classes.
        scores: float [batch, classes].

    Returns:
        int32 [batch], from 0 to ``classes``.
    """
    of_label = tf.gather(scores, labels, axis=1, batch_dims=1)[:, None]
    later = tf.range(tf.shape(scores)[1])[None] >= labels[:, None]  # itself among them
    behind = (scores < of_label) | ((scores == of_label) & later)
    return tf.reduce_sum(tf.cast(~behind, tf.int32), axis=1)
