"""Subsets of ImageNet's classes."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.imagenet.ilsvrc import ImageNet, Images
from fathom.system.device import CPU


class SomeImages:
    """Some of a split's images, with new labels.

    Args:
        images: the split.
        indices: of the images in the split, int64 [size].
        labels: the label of each, int32 [size].
    """

    def __init__(self, images: Images, indices: np.ndarray, labels: np.ndarray) -> None:
        self.size = len(indices)
        self._images = images
        with CPU.placement():
            self._indices = tf.constant(indices, tf.int64)
            self._labels = tf.constant(labels, tf.int32)

    def read(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads one image and its label, in graph operations; see ``ilsvrc.Images``."""
        encoded, _ = self._images.read(self._indices[index])
        return encoded, self._labels[index]

    def labels(self) -> np.ndarray:
        """Returns every image's label, int32 [size]."""
        return self._labels.numpy()

    def describe(self, index: int) -> str:
        """Names one image for a message, as in the whole split."""
        return self._images.describe(int(self._indices[index]))


def keep_classes(data: ImageNet, kept: Sequence[str]) -> ImageNet:
    """Returns the images of some classes, labelled by their WordNet ids' indices in ``kept``.

    TFRecord shards are read once completely for their labels.

    Raises:
        FathomError: a class is given twice, is unknown or has no images, the class names are
            unknown, or a label is out of range.
    """
    if not data.class_names:
        raise FathomError(
            "keep_classes needs the classes' names: put synsets.txt, the 1000 WordNet ids in label "
            "order, beside the TFRecord shards"
        )
    new_label = np.full(len(data.class_names), -1, np.int32)
    for place, wnid in enumerate(kept):
        if wnid not in data.class_names:
            raise FathomError(f"keep_classes: {wnid!r} is none of the data's classes")
        if wnid in kept[:place]:
            raise FathomError(f"keep_classes: {wnid} is given twice")
        new_label[data.class_names.index(wnid)] = place
    train, validation = (
        images and _relabelled(images, new_label) for images in (data.train, data.validation)
    )
    found = {label for images in (train, validation) if images for label in images.labels()}
    for place, wnid in enumerate(kept):
        if place not in found:
            raise FathomError(f"keep_classes: class {wnid} has no images")
    return ImageNet(train, validation, tuple(kept), data.strict, data.missing_truth)


def _relabelled(images: Images, new_label: np.ndarray) -> SomeImages | None:
    """Returns the images whose new label is not -1; None if there are none."""
    labels = images.labels()
    wrong = np.flatnonzero((labels < 0) | (labels >= len(new_label)))
    if len(wrong):
        raise FathomError(
            f"{images.describe(wrong[0])} has label {labels[wrong[0]]}, but synsets.txt names "
            f"0..{len(new_label) - 1}: is --set background_class right?"
        )
    indices = np.flatnonzero(new_label[labels] >= 0)
    return SomeImages(images, indices, new_label[labels[indices]]) if len(indices) else None
