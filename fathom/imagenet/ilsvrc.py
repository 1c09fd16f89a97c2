"""The ImageNet data set of the Large Scale Visual Recognition Challenge 2012."""

import re
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf

from fathom.data import DataSet
from fathom.errors import FathomError
from fathom.imagenet import synthetic, tree
from fathom.imagenet.tfrecord import RecordImages

CLASSES = 1000
_SHARD = re.compile(r"(train|validation)-\d{5}-of-(\d{5})")


class Images(Protocol):
    """The images of one split, each within reach by its number.

    Attributes:
        size: number of images.
    """

    size: int

    def read(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads one image and its label, in graph operations.

        Args:
            index: int64 scalar, 0 to ``size - 1``.

        Returns:
            The encoded image, a string scalar; the label, an int32 scalar.
        """

    def labels(self) -> np.ndarray:
        """Returns every image's label, int32 [size].

        Raises:
            FathomError: a label cannot be read.
        """

    def describe(self, index: int) -> str:
        """Names one image for a message."""


class ImageNet(DataSet):
    """ILSVRC-2012: 1,281,167 training and 50,000 validation photographs of 1000 classes.

    Attributes:
        train: the training images, or None where the folder has none.
        validation: the validation images, or None where the folder has none.
        class_names: the classes' WordNet ids in label order; empty where unknown.
        strict: whether a damaged image is an error; else it is skipped.
        skipped: the damaged images met so far: name and what is wrong.
    """

    name = "imagenet"
    title = "ImageNet ILSVRC-2012"
    licence = "non-commercial research"
    home_page = "https://image-net.org"
    layout = (
        "train/<WordNet id>/*.JPEG and val/<WordNet id>/*.JPEG (or val/ILSVRC2012_val_*.JPEG with "
        "its ground truth), or TFRecord shards train-?????-of-????? and validation-?????-of-?????"
    )

    def __init__(
        self,
        train: Images | None,
        validation: Images | None,
        class_names: tuple[str, ...] = (),
        strict: bool = False,
    ) -> None:
        self.train = train
        self.validation = validation
        self.class_names = class_names
        self.strict = strict
        self.skipped: dict[str, str] = {}

    @property
    def classes(self) -> int:
        """Number of classes in use: those known by name, else the challenge's 1000."""
        return len(self.class_names) or CLASSES

    @classmethod
    def load(
        cls, directory: Path, *, background_class: bool = True, strict: bool = False
    ) -> "ImageNet":
        """Finds the images in ``directory``; reads none of them yet.

        A label is a class's place in ``synsets.txt`` where the folder has that file, else in the
        sorted order of the class folders of ``train/``. TFRecord shards carry their labels.

        Args:
            directory: laid out as ``layout`` says; either split may be missing.
            background_class: the TFRecord shards number the classes from 1 and call 0 the
                background, as the usual ones do; else from 0.
            strict: make a damaged image an error rather than skip it.

        Raises:
            FathomError: no known layout, no images, or files that contradict each other.
        """
        directory = Path(directory)
        try:
            if not directory.is_dir():
                raise FathomError(f"{directory} is not a folder; expected {cls.layout}")
            class_names = _class_names(directory)
            if shards := _find_shards(directory):
                first_label = 1 if background_class else 0
                splits = {
                    split: RecordImages(paths, first_label) for split, paths in shards.items()
                }
                return cls(splits.get("train"), splits.get("validation"), class_names, strict)
            return cls(*_load_tree(directory, class_names), strict)
        except OSError as error:
            where = error.filename or directory
            raise FathomError(f"{where} cannot be read: {error.strerror or error}") from error

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a JPEG tree of ten classes of drawn patterns; see ``fathom.imagenet.synthetic``.

        Args:
            directory: an existing folder.
            seed: fixes every byte.
        """
        synthetic.write_tree(directory, seed)


def _class_names(directory: Path) -> tuple[str, ...]:
    path = directory / "synsets.txt"
    return tree.read_synsets(path) if path.is_file() else ()


def _find_shards(directory: Path) -> dict[str, list[Path]]:
    """Returns the TFRecord shards of each split, in order; {} where there are none.

    Raises:
        FathomError: a split has not just the shards that their names count.
    """
    shards: dict[str, list[Path]] = {}
    for folder in (directory, directory / "train", directory / "validation"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if match := _SHARD.fullmatch(path.name):
                shards.setdefault(match[1], []).append(path)
    for paths in shards.values():
        _require_whole(paths)
    return shards


def _require_whole(shards: list[Path]) -> None:
    """Raises FathomError where a shard is missing, or shards of another set are among them."""
    folder, (split, count) = shards[0].parent, _SHARD.fullmatch(shards[0].name).groups()
    names = {path.name for path in shards}
    for number in range(int(count)):
        name = f"{split}-{number:05}-of-{count}"
        if name not in names:
            raise FathomError(f"{folder / name} is missing: its images are in no other shard")
    if len(shards) > int(count):
        raise FathomError(
            f"{folder} has {len(shards)} {split} shards, but {shards[0].name} is of {int(count)}: "
            "keep those of one set"
        )


def _load_tree(
    directory: Path, class_names: tuple[str, ...]
) -> tuple[Images | None, Images | None, tuple[str, ...]]:
    """Returns the two splits of a JPEG tree and the classes in label order."""
    splits = {}
    if (directory / "train").is_dir():
        splits["train"] = tree.find_images(directory / "train")
    for folder in (directory / "val", directory / "validation"):
        if "validation" not in splits and folder.is_dir():
            flat = tree.has_flat_images(folder)
            splits["validation"] = (
                tree.find_flat_images(directory, folder) if flat else tree.find_images(folder)
            )
    if not splits:
        raise FathomError(f"{directory} holds no ImageNet data; expected {ImageNet.layout}")
    class_names = class_names or tuple(next(iter(splits.values())))
    if len(class_names) > CLASSES:
        raise FathomError(f"{directory} has {len(class_names)} classes; ILSVRC-2012 has {CLASSES}")
    images = {
        split: tree.labelled_images(directory, found, class_names)
        for split, found in splits.items()
    }
    return images.get("train"), images.get("validation"), class_names
