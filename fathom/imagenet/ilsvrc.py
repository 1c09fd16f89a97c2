"""The ImageNet data set of the Large Scale Visual Recognition Challenge 2012."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf

from fathom.core.data import DataSet
from fathom.core.data.dataset import Conversion, Reading, Report
from fathom.errors import FathomError, cause
from fathom.imagenet import ground_truth, synthetic, tree
from fathom.imagenet.convert import write_shards
from fathom.imagenet.images import UNDECODABLE, decode
from fathom.imagenet.tfrecord import RecordImages
from fathom.system.processor import available_cores

CLASSES = 1000
_KAGGLE = Path("ILSVRC/Data/CLS-LOC")
_SAMPLE = 1000  # images of each split to verify by default
_SHARD = re.compile(r"(train|validation)-\d{5}-of-(\d{5})")


class Images(Protocol):
    """The images of one split, accessible by number."""

    size: int  # number of images

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


@dataclass(frozen=True)
class Numbering(Reading):
    """The numbering of classes in TFRecord shards."""

    background_class: bool = True  # from 1, and 0 is the background; else from 0


@dataclass(eq=False)
class ImageNet(DataSet):
    """ILSVRC-2012: 1,281,167 training and 50,000 validation photographs of 1000 classes."""

    name = "imagenet"
    title = "ImageNet ILSVRC-2012"
    licence = "non-commercial research"
    home_page = "https://image-net.org"
    layout = (
        "train/<WordNet id>/*.JPEG and val/<WordNet id>/*.JPEG (or val/ILSVRC2012_val_*.JPEG with "
        "its ground truth), as image-net.org or Kaggle have them, or TFRecord shards "
        "train-?????-of-????? and validation-?????-of-?????"
    )
    Options = Numbering

    train: Images | None  # None: there are none
    validation: Images | None
    class_names: tuple[str, ...] = ()  # WordNet ids in label order; empty where unknown
    strict: bool = False  # damaged images are errors; otherwise they are skipped
    missing_truth: str = ""  # what is missing if there are validation images without classes
    skipped: dict[str, str] = field(default_factory=dict)  # reasons by damaged image, so far

    @property
    def classes(self) -> int:
        """Number of classes: those known by name, otherwise the challenge's 1000."""
        return len(self.class_names) or CLASSES

    @classmethod
    def load(
        cls, directory: Path, *, background_class: bool = True, strict: bool = False
    ) -> "ImageNet":
        """Finds the images in ``directory`` without reading them.

        A label is a class's index in ``synsets.txt`` or Kaggle's ``LOC_synset_mapping.txt`` if
        present, otherwise in the sorted class folders of ``train/``. TFRecord shards carry their
        labels.

        Args:
            directory: laid out as ``layout`` says; either split may be missing.
            background_class: the TFRecord shards number the classes from 1, with 0 for the
                background, as is usual; otherwise from 0.
            strict: treat damaged images as errors instead of skipping them.

        Raises:
            FathomError: unknown layout, no images, or contradictory files.
        """
        directory = Path(directory)
        try:
            if not directory.is_dir():
                raise FathomError(f"{directory} is not a folder; expected {cls.layout}")
            root = _root(directory)
            class_names = _class_names(root)
            if shards := _find_shards(root):
                first = 1 if background_class else 0
                splits = {split: RecordImages(paths, first) for split, paths in shards.items()}
                return cls(splits.get("train"), splits.get("validation"), class_names, strict)
            if not background_class:
                raise FathomError(f"{root} has no shards: leave out background_class=false")
            return _load_tree(root, class_names, strict)
        except OSError as error:
            where = error.filename or directory
            raise FathomError(f"{where} cannot be read: {error.strerror or error}") from error

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a JPEG tree of ten classes of drawn patterns: see ``synthetic``."""
        synthetic.write_tree(directory, seed)

    @classmethod
    def verify(cls, directory: Path, options: Numbering, everything: bool) -> str:
        """Decodes the images, or an evenly spaced sample of each split."""
        data = cls.load(directory, background_class=options.background_class)
        counts = []
        for name, images in (("training", data.train), ("validation", data.validation)):
            if images:
                read = min(images.size, images.size if everything else _SAMPLE)
                chosen = np.linspace(0, images.size - 1, read).astype(np.int64)
                check_images(images, chosen, data.classes)
                counts.append(f"{read:,} of {images.size:,} {name} images")
        report = f"{' and '.join(counts)} can be decoded{'' if everything else ' (--all: all)'}"
        return f"{report}; {data.missing_truth}" if data.missing_truth else report

    @classmethod
    def conversions(cls) -> Mapping[str, Conversion]:
        """Returns the conversion of a tree to TFRecord shards."""
        return {"tfrecord": convert}


def convert(
    source: Path, target: Path, shards: int | None = None, report: Report | None = None
) -> None:
    """Writes a JPEG tree as TFRecord shards, which ``ImageNet.load`` reads identically.

    The arguments after the tree's folder are those of ``write_shards``.

    Raises:
        FathomError: no tree in ``source``, the ground truth of its validation images is missing, or
            as ``write_shards``.
    """
    data = ImageNet.load(source)
    if data.missing_truth:
        raise FathomError(data.missing_truth)
    splits = {}
    for name, images in (("train", data.train), ("validation", data.validation)):
        if isinstance(images, tree.FileImages):
            splits[name] = images
        elif images:
            raise FathomError(f"{source} holds TFRecord shards already")
    write_shards(splits, data.class_names, target, shards, report)


def check_images(images: Images, indices: np.ndarray, classes: int) -> None:
    """Reads and fully decodes the images of these indices, int64 [n], of so many classes.

    Raises:
        FathomError: an image is damaged, or its label is out of range.
    """

    def read(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        encoded, label = images.read(index)
        return tf.shape(decode(encoded)), label

    checks = tf.data.Dataset.from_tensor_slices(indices).map(read, available_cores()).prefetch(2)
    iterator = iter(checks)
    for index in indices:
        try:
            _, label = next(iterator)
        except tf.errors.OpError as error:
            reason = _fault(images, index)
            raise FathomError(f"{images.describe(index)} cannot be used: {reason}") from error
        if not 0 <= label < classes:
            raise FathomError(
                f"{images.describe(index)} has label {label}, outside 0..{classes - 1}: is "
                "--set background_class right?"
            )


def _fault(images: Images, index: int) -> str:
    """Returns why an image cannot be used: it cannot be read, or else not be decoded."""
    try:
        images.read(tf.constant(index))
    except tf.errors.OpError as error:
        return cause(error)
    return UNDECODABLE


def _root(directory: Path) -> Path:
    """Returns the folder with the splits: the given one, or Kaggle's below it."""
    places = (directory / _KAGGLE, directory / _KAGGLE.relative_to("ILSVRC"))
    return next((place for place in places if place.is_dir()), directory)


def _places(root: Path) -> list[Path]:
    """Returns the folders that may hold metadata."""
    places = [root, root / "val", root / "ILSVRC2012_devkit_t12" / "data"]
    whole = root.absolute()
    return [*places, whole.parents[2]] if whole.parts[-3:] == _KAGGLE.parts else places


def _class_names(root: Path) -> tuple[str, ...]:
    for name in ("synsets.txt", "LOC_synset_mapping.txt"):
        if path := ground_truth.find_file(_places(root), name):
            return tree.read_synsets(path)
    return ()


def _find_shards(directory: Path) -> dict[str, list[Path]]:
    """Returns the TFRecord shards of each split, in order; {} if there are none."""
    shards: dict[str, list[Path]] = {}
    for folder in (directory, directory / "train", directory / "validation"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if match := _SHARD.fullmatch(path.name):
                shards.setdefault(match[1], []).append(path)
    for split, paths in shards.items():
        _require_whole(split, paths)
    return shards


def _require_whole(split: str, shards: list[Path]) -> None:
    """Raises FathomError if shards are missing or belong to different sets."""
    folder, count = shards[0].parent, shards[0].name.rpartition("-")[2]
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


def _load_tree(directory: Path, class_names: tuple[str, ...], strict: bool) -> ImageNet:
    """Finds the two splits of a JPEG tree, and the classes in label order."""
    splits, missing_truth = {}, ""
    if (directory / "train").is_dir():
        splits["train"] = tree.find_images(directory / "train")
    for folder in (directory / "val", directory / "validation"):
        if "validation" not in splits and folder.is_dir():
            if not tree.has_flat_images(folder):
                splits["validation"] = tree.find_images(folder)
            elif truth := ground_truth.read([*_places(directory), folder]):
                splits["validation"] = tree.find_flat_images(folder, *truth)
            else:
                missing_truth = (
                    f"{folder} has no class folders and its ground truth is missing: put "
                    f"{ground_truth.SYNSET_LABELS}, Kaggle's {ground_truth.KAGGLE_SOLUTION}, or "
                    f"the devkit's {ground_truth.GROUND_TRUTH} and {ground_truth.META}, into "
                    f"{directory}"
                )
    if not splits:
        problem = missing_truth or f"{directory} holds no ImageNet data"
        raise FathomError(f"{problem}; expected {ImageNet.layout}")
    class_names = class_names or tuple(next(iter(splits.values())))
    if len(class_names) > CLASSES:
        raise FathomError(f"{directory} has {len(class_names)} classes; ILSVRC-2012 has {CLASSES}")
    images = {name: tree.labelled_images(directory, splits[name], class_names) for name in splits}
    train, validation = images.get("train"), images.get("validation")
    return ImageNet(train, validation, class_names, strict, missing_truth)
