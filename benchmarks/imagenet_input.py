"""Times the stages of ImageNet's input, and a plain ``tf.data`` pipeline over the same bytes.

    python benchmarks/imagenet_input.py --data-dir ~/imagenet --workers 1

README.md in this folder explains the rows.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from fathom.cli.parser import Parser
from fathom.cli.terminal import console, import_tensorflow, run_command

CROP, SHORTER_SIDE, BATCH_SIZE = 224, 256, 32
READ_AHEAD = 4  # elements that a pipeline may have prepared while other stages were timed


def main() -> None:
    """Measures what the command line asks for."""
    parser = Parser(description="Times the stages of ImageNet's input.")
    add = parser.add_argument
    add("--data-dir", metavar="DIR", help="ImageNet, as JPEG tree; default: as for a workload")
    add("--images", type=int, default=320, metavar="N", help="per round; default: 320")
    add("--rounds", type=int, default=5, metavar="N", help="over all stages; default: 5")
    add("--workers", type=int, default=1, metavar="N", help="loading threads; default: 1")
    args = parser.parse_args()
    if min(args.rounds, args.workers) < 1 or args.images < BATCH_SIZE:
        parser.error(f"give at least {BATCH_SIZE} images, and at least 1 of everything else")
    args.images -= args.images % BATCH_SIZE
    run_command("imagenet_input", lambda: run(args))


def run(args: argparse.Namespace) -> None:
    """Times the stages in turn and prints the medians."""
    import_tensorflow()
    from fathom.core.data import locate
    from fathom.imagenet import ImageNet
    from fathom.imagenet.ilsvrc import convert

    screen = console()
    tree = locate(ImageNet, args.data_dir, seed=0).directory
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        convert(tree, records, shards=2)
        stages = all_stages(tree, records, args.images, args.workers)
        seconds: dict[str, list[float]] = {name: [] for name in stages}
        for _ in range(args.rounds):
            for name, stage in stages.items():
                seconds[name].append(stage())
    table = Table(box=SIMPLE)
    table.add_column("stage")
    table.add_column("images/s", justify="right")
    table.add_column("ms an image", justify="right")
    for name, times in seconds.items():
        median = statistics.median(times)
        rate, milliseconds = args.images / median, 1e3 * median / args.images
        table.add_row(name, f"{rate:,.0f}", f"{milliseconds:.3f}")
    screen.print(f"{tree}: {args.images} images a round, {args.workers} workers")
    screen.print(table)


def all_stages(tree: Path, records: Path, images: int, workers: int) -> dict[str, Callable]:
    """Returns what is timed, by name: functions that each go through ``images`` images."""
    import tensorflow as tf

    from fathom.imagenet import ImageNet
    from fathom.imagenet.images import (
        Augmentation,
        decode_window,
        evaluation_image,
        image_sides,
        training_image,
    )

    how = Augmentation(CROP, (SHORTER_SIDE, SHORTER_SIDE))
    tree_split, record_split = ImageNet.load(tree).train, ImageNet.load(records).train
    seed = tf.constant([0, 1], tf.int64)

    def each(split: Any, prepare: Callable) -> Callable:
        data = tf.data.Dataset.range(tf.int64.max).map(
            lambda i: prepare(split.read(i % split.size)[0]), workers
        )
        return taking(data.with_options(threads(workers)), images)

    return {
        "read, JPEG tree": each(tree_split, tf.strings.length),
        "read, TFRecord": each(record_split, tf.strings.length),
        "+ decode the whole": each(
            tree_split, lambda e: decode_window(e, tf.constant([0, 0]), image_sides(e))
        ),
        "+ decode and cut for training": each(tree_split, lambda e: training_image(e, seed, how)),
        "+ decode and cut for evaluation": each(
            tree_split,
            lambda e: evaluation_image(e, crop=CROP, shorter_side=SHORTER_SIDE, views=1),
        ),
        "training batches, JPEG tree": batches(tree, tree_split, how, images, workers),
        "training batches, TFRecord": batches(records, record_split, how, images, workers),
        "plain tf.data, JPEG tree": plain(tree, images, workers),
        "plain tf.data, TFRecord": plain(records, images, workers),
    }


def batches(directory: Path, split: Any, how: Any, images: int, workers: int) -> Callable:
    """Returns a function that takes ``images`` images in the workloads' training batches."""
    from fathom.core.data.pipeline import Sampler
    from fathom.imagenet import ImageNet
    from fathom.imagenet.input import training_batches

    data, order = ImageNet.load(directory), Sampler(split.size, BATCH_SIZE, seed=0)
    stream = training_batches(data, split, order, how, workers=workers)
    return taking(stream, images // BATCH_SIZE)


def plain(directory: Path, images: int, workers: int) -> Callable:
    """Returns the pipeline of TensorFlow's guides over the same files: whole images decoded."""
    import tensorflow as tf

    mean = tf.constant([123.68, 116.779, 103.939])

    def prepare(encoded: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        sides = tf.cast(tf.shape(pixels)[:2], tf.float32)
        scaled = tf.cast(tf.round(sides * SHORTER_SIDE / tf.reduce_min(sides)), tf.int32)
        image = tf.image.random_crop(tf.image.resize(pixels, scaled), [CROP, CROP, 3])
        return tf.image.random_flip_left_right(image) - mean

    def from_record(record: tf.Tensor) -> tf.Tensor:
        features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
        return prepare(tf.io.parse_single_example(record, features)["image/encoded"])

    shards = sorted(map(str, directory.glob("train-*")))
    if shards:
        data = tf.data.TFRecordDataset(shards).repeat().map(from_record, workers)
    else:
        paths = sorted(map(str, directory.glob("train/*/*")))
        data = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
        data = data.map(lambda path: prepare(tf.io.read_file(path)), workers)
    data = data.batch(BATCH_SIZE).prefetch(2).with_options(threads(workers))
    return taking(data, images // BATCH_SIZE)


def threads(workers: int) -> Any:
    """Returns the options that keep a pipeline on ``workers`` threads."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = workers
    return options


def taking(stream: Iterable, count: int) -> Callable[[], float]:
    """Returns a function that times the taking of ``count`` elements of an endless stream."""
    iterator = iter(stream)

    def stage() -> float:
        for _ in range(READ_AHEAD):
            next(iterator)
        started = time.perf_counter()
        for _ in range(count):
            next(iterator)
        return time.perf_counter() - started

    return stage


if __name__ == "__main__":
    main()
