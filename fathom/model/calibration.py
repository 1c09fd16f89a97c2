"""The calibration pass: some float32 steps, in which rounders note the largest magnitudes."""

import itertools
from collections.abc import Iterable, Sequence

import tensorflow as tf

from fathom.core.training.compilation import Batch, Step
from fathom.errors import FathomError
from fathom.model.workload import Workload

STEPS = 20


def run(workload: Workload, step: Step, kept: Sequence[tf.Variable]) -> None:
    """Runs the calibration's steps on a workload's data, and undoes what they changed.

    Args:
        workload: built, and not yet run.
        step: its step, traced while rounders calibrate.
        kept: the variables that get their values back.

    Raises:
        FathomError: there are no batches.
    """
    history = dict(workload.history)
    if not workload.forward_only:
        workload.save_state()
    before = [variable.read_value() for variable in kept]
    if workload.forward_only:
        batches = workload.inference_batches()
    else:
        batches = workload.training_batches(0)
    steps = 0
    for batch in itertools.islice(single(batches, workload.steps_per_call), STEPS):
        step(*batch)
        steps += 1
    if not steps:
        raise FathomError("there is no data to calibrate on: give the fraction, as in fixed:16.10")
    for variable, value in zip(kept, before, strict=True):
        variable.assign(value)
    if not workload.forward_only:
        workload.restore_state()
    workload.history = history


def single(batches: Iterable[Batch], steps_per_call: int) -> Iterable[Batch]:
    """Returns the batches one by one, also of blocks of batches for calls of several steps."""
    if steps_per_call == 1:
        return batches
    return (
        tuple(tensor[i] for tensor in block) for block in batches for i in range(steps_per_call)
    )
