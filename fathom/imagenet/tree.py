"""ImageNet as a tree of JPEG files, as the challenge's archives unpack."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.system.device import CPU
from fathom.system.files import read_file

_WNID = re.compile(r"n\d{8}")
_VALIDATION_NAME = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+")
_ENDINGS = (".jpeg", ".jpg", ".png")


class FileImages:
    """The images of one split, a file each."""

    def __init__(self, directory: Path, names: Sequence[str], labels: Sequence[int]) -> None:
        self.size = len(names)
        self.directory = directory
        with CPU.placement():
            self._directory = tf.constant(os.fsencode(directory))
            # A tensor, as a million Python strings would take twice the memory.
            self._names = tf.constant([os.fsencode(name) for name in names])
            self._labels = tf.constant(labels, tf.int32)

    def read(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads one image and its label, as in ``ilsvrc.Images``.

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

    Returns:
        For each class, in sorted order: the images' paths below ``folder``'s parent, sorted.

    Raises:
        FathomError: a class folder is not named by a WordNet id, or there are no images.
    """
    folders = (entry.name for entry in os.scandir(folder) if entry.is_dir())
    wnids = sorted(name for name in folders if not name.startswith("."))
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


def _image_names(folder: Path) -> list[str]:
    names = []
    for entry in os.scandir(folder):
        if entry.name.lower().endswith(_ENDINGS) and not entry.name.startswith("."):
            if not entry.is_file() and Path(entry).exists():  # a dangling link is met in reading
                raise FathomError(f"{entry.path} is not a regular file: replace or remove it")
            names.append(entry.name)
    return sorted(names)


def labelled_images(
    directory: Path, images: dict[str, list[str]], class_names: Sequence[str]
) -> FileImages:
    """Labels the images that ``find_images`` found.

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
    wnids = read_wnids(path)
    if len(set(wnids)) < len(wnids):
        twice = next(wnid for wnid in wnids if wnids.count(wnid) > 1)
        raise FathomError(f"{path}: {twice} occurs twice")
    return tuple(wnids)


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a text file.

    Raises:
        FathomError: it cannot be read, is not UTF-8, or is empty.
    """
    try:
        lines = read_file(path).decode("utf-8-sig").rstrip().split("\n")
    except UnicodeDecodeError as error:
        raise FathomError(f"{path} is not a text file") from error
    if lines == [""]:
        raise FathomError(f"{path} is empty")
    return lines


def read_wnids(path: Path) -> list[str]:
    """Returns the WordNet id at the beginning of each line.

    Raises:
        FathomError: a line has none.
    """
    wnids = []
    for number, line in enumerate(read_lines(path), 1):
        wnid = line.split(maxsplit=1)[0] if line.strip() else ""
        if not _WNID.fullmatch(wnid):
            raise FathomError(f"{path} line {number}: expected a WordNet id, such as n01440764")
        wnids.append(wnid)
    return wnids


def find_flat_images(folder: Path, truth: Path, wnids: dict[int, str]) -> dict[str, list[str]]:
    """Lists a validation split of ``ILSVRC2012_val_*.JPEG`` files by means of its ground truth.

    Args:
        folder: the folder of the images.
        truth: the file of the ground truth, for messages.
        wnids: the WordNet id of each image by its number.

    Returns:
        For each class of the ground truth, in sorted order: the images' paths below ``folder``'s
        parent.

    Raises:
        FathomError: an image has another name, or the ground truth does not have it.
    """
    images: dict[str, list[str]] = {wnid: [] for wnid in sorted(set(wnids.values()))}
    for name in _image_names(folder):
        match = _VALIDATION_NAME.fullmatch(name)
        if not match:
            raise FathomError(f"{folder / name} is not named as ILSVRC2012_val_00000001.JPEG is")
        number = int(match[1])
        if number not in wnids:
            raise FathomError(f"{truth} has {len(wnids)} images, but not number {number}: {name}")
        images[wnids[number]].append(f"{folder.name}/{name}")
    return images


def has_flat_images(folder: Path) -> bool:
    """Says whether ``folder`` itself holds images named as the validation archive names them.

    Raises:
        FathomError: so do folders of classes in it: which image counts is not clear.
    """
    entries = list(os.scandir(folder))
    flat = next((e.name for e in entries if _VALIDATION_NAME.fullmatch(e.name)), None)
    if flat is None:
        return False
    wnids = sorted(e.name for e in entries if _WNID.fullmatch(e.name) and e.is_dir())
    if sorted_in := next((wnid for wnid in wnids if _image_names(folder / wnid)), None):
        raise FathomError(
            f"{folder} has images both in class folders, such as {sorted_in}, and beside them, "
            f"such as {flat}: move all of them into class folders, or none"
        )
    return True
