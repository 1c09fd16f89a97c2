"""Conversion of a tree of image files to TFRecord shards, which read fast from any disk."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from fathom.core.data.dataset import Report
from fathom.errors import FathomError
from fathom.imagenet.tree import FileImages
from fathom.system.files import atomic_write, exists, read_file

_IMAGES_PER_SHARD = 1251  # gives the usual 1024 shards for the full training set
_SEED = 0  # of the order of the images
_PLAN = "plan.sha256"  # identifies an unfinished conversion


Shard = tuple[str, list[tuple[str, int]]]  # its name; each record's path in the set, and label


def write_shards(
    splits: Mapping[str, FileImages],
    class_names: tuple[str, ...],
    target: Path,
    shards: int | None = None,
    report: Report | None = None,
) -> None:
    """Writes the images of a JPEG tree as TFRecord shards.

    A record has ``image/encoded``, the file's bytes; ``image/class/label``, the label counting from
    1; ``image/class/synset``, the class's WordNet id; and ``image/filename``. Images are shuffled
    with a fixed seed, so that every shard mixes the classes. The shards are written to
    ``<target>.part``, which is renamed at the end; an interrupted conversion continues after its
    last complete shard.

    Args:
        splits: the images of ``train`` and ``validation``, or of one of them.
        class_names: the classes' WordNet ids in label order.
        target: the new folder; must not exist.
        shards: number of training shards; there are an eighth as many validation shards. None: one
            per 1251 training images.
        report: called with the number of images written and their total number.

    Raises:
        FathomError: too many shards, an image cannot be read, or ``target`` exists or cannot be
            written.
    """
    if target.exists():
        raise FathomError(f"{target} already exists: name a new folder")
    plan = list(_plan(splits, shards))
    source = next(iter(splits.values())).directory
    part = target.with_name(f"{target.name}.part")
    _open_part(part, plan)
    done, total = 0, sum(len(files) for _, files in plan)
    for name, files in plan:
        if not (part / name).exists():
            _write_shard(part / name, source, files, class_names)
        done += len(files)
        if report:
            report(done, total)
    with atomic_write(part / "synsets.txt") as temporary:
        temporary.write_text("".join(f"{wnid}\n" for wnid in class_names))
    try:
        part.rename(target)
        (target / _PLAN).unlink()
    except OSError as error:
        raise FathomError(f"cannot write {target}: {error.strerror}") from error


def default_shards(size: int) -> int:
    """Returns the number of shards for a number of training images: 1024 for the full set."""
    return max(1, round(size / _IMAGES_PER_SHARD))


def _plan(splits: Mapping[str, FileImages], shards: int | None) -> Iterator[Shard]:
    """Yields the contents of each shard."""
    if shards is None:
        shards = default_shards(splits["train"].size) if "train" in splits else 1
    for split, images in splits.items():
        count = shards if split == "train" else max(1, shards // 8)
        if not 1 <= count <= images.size:
            raise FathomError(f"cannot make {count} shards of {images.size} {split} images")
        labels = images.labels()
        order = np.random.default_rng(_SEED).permutation(images.size)
        for number, members in enumerate(np.array_split(order, count)):
            files = [(images.describe(i), int(labels[i])) for i in members]
            yield f"{split}-{number:05}-of-{count:05}", files


def _open_part(part: Path, plan: list[Shard]) -> None:
    """Creates the folder of an unfinished conversion, or checks that it is of the same one."""
    digest = hashlib.sha256(repr(plan).encode("utf-8", "surrogateescape")).hexdigest()
    try:
        part.mkdir(parents=True, exist_ok=True)
        before = read_file(part / _PLAN).decode() if exists(part / _PLAN) else None
        others = any(part.iterdir())
    except OSError as error:
        raise FathomError(f"cannot write {part}: {error.strerror}") from error
    if before != digest and others:
        raise FathomError(
            f"{part} is left from a conversion of other images or into other shards: remove it"
        )
    with atomic_write(part / _PLAN) as temporary:
        temporary.write_text(digest)


def _write_shard(
    path: Path, source: Path, files: list[tuple[str, int]], class_names: tuple[str, ...]
) -> None:
    try:
        with atomic_write(path) as temporary, tf.io.TFRecordWriter(str(temporary)) as writer:
            for name, label in files:
                record = _record(read_file(source / name), name, label, class_names[label])
                writer.write(record.SerializeToString())
    except tf.errors.OpError as error:
        raise FathomError(f"cannot write {path}: {error.message.splitlines()[0]}") from error


def _record(encoded: bytes, name: str, label: int, wnid: str) -> tf.train.Example:
    def text(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    # Label 0 is a background class in the usual shards.
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label + 1]))
    features = {
        "image/encoded": text(encoded),
        "image/class/label": number,
        "image/class/synset": text(wnid.encode()),
        "image/filename": text(os.fsencode(Path(name).name)),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))
