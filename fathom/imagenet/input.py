"""Batches of ImageNet images, loaded while the network computes.

A batch with a damaged image is loaded again image by image. The damaged one is reported on stderr
and replaced (in training) or left out (in evaluation).
"""

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from fathom.core.data.pipeline import DataLoader, Sampler
from fathom.errors import FathomError, cause
from fathom.imagenet.ilsvrc import ImageNet, Images
from fathom.imagenet.images import (
    UNDECODABLE,
    Augmentation,
    evaluation_image,
    training_image,
)
from fathom.system.device import CPU

_TRIES = 20


def training_batches(
    data: ImageNet,
    split: Images,
    order: Sampler,
    augmentation: Augmentation,
    first_step: int = 0,
    workers: int = 1,
) -> DataLoader:
    """Streams training batches; batch t is determined by the images, the sampler and t alone.

    Args:
        data: records the damaged images.
        split: its images.
        order: the sampler; ``order.size`` is ``split.size``.
        augmentation: cropping and augmentation.
        first_step: the step of the first batch.
        workers: number of batches loaded in parallel, on one core each.

    Returns:
        Batches of (images float32 [batch, crop, crop, 3], labels int32 [batch]). A damaged image is
        replaced by another, drawn by its seed. A worker of a distributed training loads its own
        rows. Reading raises FathomError if an image is damaged and ``data.strict`` is set, if 20 in
        a row are damaged, or if a label is out of range.
    """
    loader = _Loader(
        data,
        split,
        lambda encoded, seed: training_image(encoded, seed, augmentation),
        (augmentation.crop, augmentation.crop, 3),
    )
    return DataLoader(
        *(order, loader.load, first_step, workers), recover=loader.load_replacing, by_example=True
    )


def evaluation_batches(
    data: ImageNet,
    split: Images,
    batch_size: int,
    *,
    crop: int,
    shorter_side: int,
    views: int,
    workers: int = 1,
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Streams a whole split once, in order; the last batch may be smaller.

    Args:
        data: records the damaged images.
        split: its images.
        batch_size: images per batch.
        crop: side of a view in pixels.
        shorter_side: length to which an image's shorter side is scaled; at least ``crop``.
        views: views of each image, 1 or 10; see ``evaluation_image``.
        workers: number of batches loaded in parallel, on one core each.

    Returns:
        Batches of (images float32 [batch, views, crop, crop, 3], labels int32 [batch]). Damaged
        images are left out. Reading raises FathomError as for ``training_batches``.
    """
    loader = _Loader(
        data,
        split,
        lambda encoded, _: evaluation_image(
            encoded, crop=crop, shorter_side=shorter_side, views=views
        ),
        (views, crop, crop, 3),
    )
    order = _InTurn(split.size, min(batch_size, split.size), seed=0, shuffle=False)
    batches = DataLoader(order, loader.load, workers=workers, recover=loader.load_leaving_out)
    n_batches = -(-order.size // order.batch_size)
    return (batch for batch in itertools.islice(batches, n_batches) if len(batch[1]))


class _InTurn(Sampler):
    """Every example once, in order; the last batch may be smaller."""

    def indices(self, step: tf.Tensor) -> tf.Tensor:
        start = tf.minimum(step * self.batch_size, self.size)
        return tf.range(start, tf.minimum(start + self.batch_size, self.size))

    def seeds(self, step: tf.Tensor) -> tf.Tensor:
        return tf.zeros([tf.size(self.indices(step)), 2], tf.int64)


@dataclass(frozen=True)
class _Loader:
    """Loads batches from one split."""

    data: ImageNet  # records the damaged images
    split: Images
    prepare: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of an encoded image, a seed int64 [2]
    shape: tuple[int, ...]  # of what ``prepare`` returns

    def load(self, indices: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Loads a batch in graph operations; fails if any of its images fails."""

        def load_one(example: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            index, seed = example
            encoded, label = self.split.read(index)
            tf.debugging.Assert((label >= 0) & (label < self.data.classes), [label])
            return self.prepare(encoded, seed), label

        return tf.map_fn(
            load_one,
            (indices, seeds),
            parallel_iterations=1,  # batches run in parallel; both were measured to be no faster
            fn_output_signature=(tf.TensorSpec(self.shape), tf.TensorSpec([], tf.int32)),
        )

    def load_replacing(self, indices: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Loads a batch that failed, replacing its damaged images."""
        examples = zip(indices, seeds, strict=True)
        return self._stack(self._load_or_replace(*example) for example in examples)

    def load_leaving_out(self, indices: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Loads a batch that failed, without its damaged images."""
        examples = (self._try(*example) for example in zip(indices, seeds, strict=True))
        return self._stack(example for example in examples if example)

    def _load_or_replace(self, index: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Loads an example, or else the first of its replacements that is not damaged."""
        others = tf.random.stateless_uniform(
            [_TRIES - 1],
            tf.random.experimental.stateless_fold_in(seed, 2),
            maxval=self.split.size,
            dtype=tf.int64,
        )
        for candidate in (index, *others):
            if example := self._try(candidate, seed):
                return example
        name = self.split.describe(int(index))
        raise FathomError(
            f"{name} cannot be read, nor can {_TRIES - 1} others drawn in its place: the data is "
            "damaged or in another format"
        )

    def _try(self, index: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Loads one example eagerly; records a damaged one and returns None."""
        with CPU.placement():
            try:
                encoded, label = self.split.read(index)
            except tf.errors.OpError as error:
                self._note_bad(int(index), cause(error))
                return None
            if not 0 <= label < self.data.classes:
                first, background = (0, "false") if label < 0 else (1, "true")
                raise FathomError(
                    f"{self.split.describe(int(index))} has label {int(label)}, outside "
                    f"0..{self.data.classes - 1}: if the records number the classes from {first}, "
                    f"use --set background_class={background}"
                )
            try:
                return self.prepare(encoded, seed), label
            except tf.errors.ResourceExhaustedError as error:  # the image may be whole
                raise FathomError(
                    f"{self.split.describe(int(index))} cannot be loaded: {cause(error)}: free "
                    "memory, or use smaller images"
                ) from error
            except tf.errors.OpError:
                self._note_bad(int(index), UNDECODABLE)
                return None

    def _note_bad(self, index: int, reason: str) -> None:
        name = self.split.describe(index)
        if self.data.strict:
            raise FathomError(f"{name} cannot be used: {reason}")
        if name not in self.data.skipped:
            self.data.skipped[name] = reason
            print(f"skipped {name}: {reason}", file=sys.stderr)

    def _stack(
        self, examples: Iterator[tuple[tf.Tensor, tf.Tensor]]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        loaded = list(examples)
        if not loaded:
            return tf.zeros([0, *self.shape]), tf.zeros([0], tf.int32)
        images, labels = zip(*loaded, strict=True)
        return tf.stack(images), tf.stack(labels)
