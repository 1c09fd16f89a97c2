"""A model's inference step for batches of any size up to a limit."""

import bisect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError

if TYPE_CHECKING:
    from fathom.core.training.compilation import Batch, Nest, Step
    from fathom.nn import NeuralNetworkModel

Sample: TypeAlias = "tuple[np.ndarray, ...]"
Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"  # of a sample's arrays


class Engine:
    """Runs samples in batches, each padded to the next compiled size: 1, 2, 4, ..., the limit.

    Args:
        model: a forward-only model after ``setup``.
        samples: number of different samples to draw from the model's inference data.
        limit: largest number of samples of a batch.

    Raises:
        FathomError: the model's data ends before there is a sample.
    """

    def __init__(self, model: "NeuralNetworkModel", samples: int, limit: int) -> None:
        self.limit = limit
        self.samples = draw(model, samples)  # each a tuple of the inputs' arrays
        self._sizes = [*(2**power for power in range((limit - 1).bit_length())), limit]
        function = tf.function(model.infer_step, autograph=False, jit_compile=model.xla == "step")
        self.shapes = {shapes_of(sample): sample for sample in self.samples}  # with one of each
        self._steps: dict[tuple[int, Shapes], Any] = {}
        with model.device.placement():
            for (shapes, sample), size in itertools.product(self.shapes.items(), self._sizes):
                self._steps[size, shapes] = function.get_concrete_function(
                    *(tf.TensorSpec((size, *array.shape), array.dtype) for array in sample)
                )

    @property
    def outputs(self) -> list[tuple[np.dtype, list[tuple[int | None, ...]]]]:
        """The dtype of each output, and its shapes for one sample of each of ``shapes``."""
        steps = [self._steps[self.limit, shapes] for shapes in self.shapes]
        columns = zip(*(tf.nest.flatten(step.structured_outputs) for step in steps), strict=True)
        return [
            (np.dtype(column[0].dtype.as_numpy_dtype), [tuple(spec.shape)[1:] for spec in column])
            for column in columns
        ]

    def warm_up(self) -> None:
        """Runs each batch size twice: TensorFlow optimizes a graph when it first runs."""
        for sample, size, _ in itertools.product(self.shapes.values(), self._sizes, range(2)):
            self.run([sample] * size)

    def run(self, samples: Sequence[Sample]) -> list[np.ndarray]:
        """Runs samples of equal shapes, at most ``limit``, in one batch, and waits for the results.

        Returns:
            the outputs on the host, as a service's answer would be; the first rows are of the
            samples, the others of padding.
        """
        size = self._sizes[bisect.bisect_left(self._sizes, len(samples))]
        padded = [*samples, *samples[-1:] * (size - len(samples))]
        batch = [tf.constant(np.stack(arrays)) for arrays in zip(*padded, strict=True)]
        outputs = self._steps[size, shapes_of(samples[0])](*batch)
        return [tensor.numpy() for tensor in tf.nest.flatten(outputs)]


def shapes_of(sample: Sample) -> Shapes:
    """Returns the shapes of a sample's arrays."""
    return tuple(array.shape for array in sample)


def draw(model: "NeuralNetworkModel", count: int) -> list[Sample]:
    """Returns the first examples that a forward-only model infers.

    Raises:
        FathomError: the model's data ends before there is one.
    """
    size = model.hyperparameters.batch_size
    found: list[Sample] = []

    def keep(step: "Step", batch: "Batch") -> "Nest":
        flat = [np.asarray(tensor) for tensor in batch]
        if model.steps_per_call > 1:  # a block of batches
            flat = [array.reshape(-1, *array.shape[2:]) for array in flat]
        found.extend(zip(*flat, strict=True))
        return step(*batch)

    model.run(keep, n_steps=-(-count // size), warmup=0)
    if not found:
        raise FathomError(f"{model.source.directory} has no example to infer")
    return found[:count]
