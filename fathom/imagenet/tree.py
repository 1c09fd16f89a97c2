"""ImageNet as a tree of JPEG files, as the challenge's archives unpack."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy.io
import tensorflow as tf

from fathom.errors import FathomError

_WNID = re.compile(r"n\d{8}")
_VALIDATION_NAME = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+")
_ENDINGS = (".jpeg", ".jpg", ".png")

SYNSET_LABELS = "imagenet_2012_validation_synset_labels.txt"
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
META = "meta.mat"


class FileImages:
    """The images of one split, a file each.

    Args:
        directory: the data set's folder.
        names: the files' paths below it.
        labels: the label of each.

    Attributes:
        size: number of images.
    """

    def __init__(self, directory: Path, names: Sequence[str], labels: Sequence[int]) -> None:
        self.size = len(names)
        with tf.device("/cpu:0"):
            self._directory = tf.constant(os.fsencode(directory))
            # A tensor, as a million Python strings would take twice the memory.
            self._names = tf.constant([os.fsencode(name) for name in names])
            self._labels = tf.constant(labels, tf.int32)

    def read(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads one image and its label, in graph operations.

        Args:
            index: int64 scalar, 0 to ``size - 1``.

        Returns:
            The encoded image, a string scalar; the label, an int32 scalar.

        Raises:
            tf.errors.OpError: the file cannot be read.
        """
        path = tf.strings.join([self._directory, self._names[index]], "/")
        return tf.io.read_file(path), self._labels[index]

    def labels(self) -> np.ndarray:
        """Returns every image's label, int32 [size]."""
        return self._labels.numpy()

    def describe(self, index: int) -> str:
        """Names one image for a message: its path below the data set's folder."""
        return os.fsdecode(self._names[index].numpy())


def find_images(folder: Path) -> dict[str, list[str]]:
    """Lists the images of a split that is laid out as one folder a class.

    Args:
        folder: holds a folder for each class.

    Returns:
        For each class, in sorted order: the images' paths below ``folder``'s parent, sorted.

    Raises:
        FathomError: a class folder is not named by a WordNet id, or there are no images.
    """
    wnids = sorted(entry.name for entry in os.scandir(folder) if _is_visible_folder(entry))
    for wnid in wnids:
        if not _WNID.fullmatch(wnid):
            raise FathomError(
                f"{folder / wnid} is not named as a class: class folders are called by their "
                "WordNet ids, such as n01440764"
            )
    images = {
        wnid: [f"{folder.name}/{wnid}/{name}" for name in _image_names(folder / wnid)]
        for wnid in wnids
    }
    if not any(images.values()):
        raise FathomError(
            f"{folder} has no images: expected {folder.name}/<WordNet id>/*.JPEG below "
            f"{folder.parent}"
        )
    return images


def _is_visible_folder(entry: os.DirEntry) -> bool:
    return entry.is_dir() and not entry.name.startswith(".")


def _image_names(folder: Path) -> list[str]:
    names = (entry.name for entry in os.scandir(folder))
    return sorted(n for n in names if n.lower().endswith(_ENDINGS) and not n.startswith("."))


def labelled_images(
    directory: Path, images: dict[str, list[str]], class_names: Sequence[str]
) -> FileImages:
    """Labels the images that ``find_images`` found.

    Args:
        directory: the data set's folder.
        images: the images of each class.
        class_names: the classes' WordNet ids in label order.

    Raises:
        FathomError: a class is not among ``class_names``.
    """
    label_of = {wnid: label for label, wnid in enumerate(class_names)}
    names, labels = [], []
    for wnid, members in images.items():
        if wnid not in label_of:
            raise FathomError(
                f"{directory}: class {wnid} has images but no label: it is neither in synsets.txt "
                "nor, without that file, a folder of train/"
            )
        names += members
        labels += [label_of[wnid]] * len(members)
    return FileImages(directory, names, labels)


def read_synsets(path: Path) -> tuple[str, ...]:
    """Reads the classes in label order: one WordNet id a line, which words may follow.

    Raises:
        FathomError: a line does not begin with a WordNet id, one occurs twice, or there are none.
    """
    wnids = _read_wnids(path)
    if len(set(wnids)) < len(wnids):
        twice = next(wnid for wnid in wnids if wnids.count(wnid) > 1)
        raise FathomError(f"{path}: {twice} occurs twice")
    return tuple(wnids)


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().split("\n")
    except UnicodeDecodeError as error:
        raise FathomError(f"{path} is not a text file") from error
    if lines == [""]:
        raise FathomError(f"{path} is empty")
    return lines


def _read_wnids(path: Path) -> list[str]:
    wnids = []
    for number, line in enumerate(_read_lines(path), 1):
        wnid = line.split(maxsplit=1)[0] if line.strip() else ""
        if not _WNID.fullmatch(wnid):
            raise FathomError(f"{path} line {number}: expected a WordNet id, such as n01440764")
        wnids.append(wnid)
    return wnids


def find_flat_images(directory: Path, folder: Path) -> dict[str, list[str]]:
    """Lists a validation split of ``ILSVRC2012_val_*.JPEG`` files by means of its ground truth.

    The truth is in ``imagenet_2012_validation_synset_labels.txt``, or in the devkit's
    ``ILSVRC2012_validation_ground_truth.txt`` and ``meta.mat``, any of them in ``directory``, in
    ``folder`` or in ``ILSVRC2012_devkit_t12/data/``.

    Args:
        directory: the data set's folder.
        folder: the folder of the images.

    Returns:
        For each class of the ground truth, in sorted order: the images' paths below ``directory``.

    Raises:
        FathomError: the ground truth is missing, malformed or too short for the images.
    """
    places = (directory, folder, directory / "ILSVRC2012_devkit_t12" / "data")
    truth = _find_file(places, SYNSET_LABELS)
    if truth:
        wnids = _read_wnids(truth)
    else:
        truth, meta = _find_file(places, GROUND_TRUTH), _find_file(places, META)
        if not truth or not meta:
            raise FathomError(
                f"{folder} has no class folders and its ground truth is missing: put "
                f"{SYNSET_LABELS}, or the devkit's {GROUND_TRUTH} and {META}, into {directory}"
            )
        wnids = _ground_truth(truth, _read_meta(meta), meta)
    images: dict[str, list[str]] = {wnid: [] for wnid in sorted(set(wnids))}
    for name in _image_names(folder):
        match = _VALIDATION_NAME.fullmatch(name)
        if not match:
            raise FathomError(f"{folder / name} is not named as ILSVRC2012_val_00000001.JPEG is")
        number = int(match[1])
        if not 1 <= number <= len(wnids):
            raise FathomError(f"{truth} has {len(wnids)} lines but {name} needs line {number}")
        images[wnids[number - 1]].append(f"{folder.name}/{name}")
    return images


def has_flat_images(folder: Path) -> bool:
    """Says whether ``folder`` itself holds images named as the validation archive names them."""
    return any(_VALIDATION_NAME.fullmatch(entry.name) for entry in os.scandir(folder))


def _find_file(places: Iterable[Path], name: str) -> Path | None:
    return next((place / name for place in places if (place / name).is_file()), None)


def _ground_truth(path: Path, wnid_of: dict[int, str], meta: Path) -> list[str]:
    wnids = []
    for number, line in enumerate(_read_lines(path), 1):
        if not line.strip().isdecimal() or int(line) not in wnid_of:
            raise FathomError(f"{path} line {number}: {line.strip()!r} is no class of {meta}")
        wnids.append(wnid_of[int(line)])
    return wnids


def _read_meta(path: Path) -> dict[int, str]:
    """Reads the devkit's table of classes: the WordNet id of each ILSVRC2012_ID from 1 to 1000."""
    try:
        synsets = np.atleast_1d(scipy.io.loadmat(path, squeeze_me=True)["synsets"])
        table = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except OSError:
        raise
    except Exception as error:  # SciPy's reader fails on a damaged file in a dozen ways
        raise FathomError(f"{path} is not the devkit's {META}: {error}") from error
    return {number: wnid for number, wnid in table.items() if number <= 1000}
