"""Sums of a workload's metrics over test data."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from fathom.core.training.compilation import Batch
from fathom.system.device import Device


def sum_metrics(
    evaluate: Callable[..., dict[str, tf.Tensor]], batches: Iterable[Batch], device: Device
) -> tuple[dict[str, float], int]:
    """Returns the sum of each metric over all examples, in float64, and their number.

    Args:
        evaluate: takes the tensors of a batch; returns the metrics of its examples by name, each
            [batch].
        batches: of any sizes.
        device: evaluates; the batches may be made elsewhere.
    """
    sums: dict[str, float] = {}
    examples = 0
    for batch in batches:
        with device.placement():
            metrics = {name: values.numpy() for name, values in evaluate(*batch).items()}
        examples += len(next(iter(metrics.values())))
        for name, values in metrics.items():
            sums[name] = sums.get(name, 0.0) + float(values.sum(dtype=np.float64))
    return sums, examples
