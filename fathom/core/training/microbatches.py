"""Microbatches: parts of a training step's batch that a CPU computes at once.

The mathematics of a step in microbatches is that of the whole batch; sums differ by rounding.
``replicas`` has what is computed in each.
"""

from collections.abc import Sequence

import tensorflow as tf

from fathom.errors import FathomError
from fathom.options import Execution, precision_traits
from fathom.results.distribution import Statistics
from fathom.system.device import Device


def obstacle(
    execution: Execution,
    device: Device,
    *,
    trains: bool,
    statistics: Statistics | None,
    indivisible: str,
) -> str:
    """Returns why the batches of a run cannot be divided; empty if they can.

    Args:
        execution: names the strategy and the precision, and whether XLA compiles the step.
        device: of the run.
        trains: it is a training.
        statistics: what batch normalization uses on several replicas; None without it.
        indivisible: why the workload's batches cannot be divided; empty if they can.
    """
    if not trains:
        return "they are for training"
    if device.on_gpu:
        return "they are for CPUs: a GPU computes a batch at once"
    if execution.strategy != "none":
        return f"--strategy {execution.strategy} divides batches itself"
    if execution.xla:
        return "--xla would compute them in turn"
    if precision_traits(execution.precision).fixed:
        return f"{execution.precision} is simulated for whole batches"
    if statistics is not None:
        return "its batch normalization takes the statistics of whole batches"
    return indivisible


def check(workload: str, count: int, obstacle: str, sizes: Sequence[int | None]) -> None:
    """Raises FathomError if a workload's batches cannot be computed in so many microbatches.

    Args:
        workload: its name.
        count: of the microbatches that were asked for; 1 is always possible.
        obstacle: why batches cannot be divided; empty if they can.
        sizes: of the batches, where they are known.
    """
    if count == 1:
        return
    if obstacle:
        raise FathomError(f"{workload} cannot compute {count} microbatches: {obstacle}")
    for size in sizes:
        if size and size % count:
            raise FathomError(
                f"{workload}'s batch of {size} cannot be divided into {count} microbatches: try "
                "another --batch-size or --microbatches"
            )


def batch_sizes(signatures: Sequence[Sequence[tf.TensorSpec]]) -> list[int | None]:
    """Returns the number of examples in a batch of each of the shapes that a step has."""
    return [spec.shape[0] for signature in signatures for spec in signature]
