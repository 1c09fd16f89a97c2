"""The calibration pass: some float32 steps, in which rounders note the largest magnitudes."""

import itertools
from collections.abc import Iterable, Sequence

import tensorflow as tf

from fathom.errors import FathomError
from fathom.training.compilation import Batch, Step

STEPS = 20


def run(
    step: Step, batches: Iterable[Batch], steps_per_call: int, kept: Sequence[tf.Variable]
) -> None:
    """Runs the calibration's steps, and undoes what they changed.

    Args:
        step: one step, traced while rounders calibrate.
        batches: of the data; blocks of batches if a call runs several steps.
        steps_per_call: batches in a block.
        kept: the variables that get their values back.

    Raises:
        FathomError: there are no batches.
    """
    before = [variable.read_value() for variable in kept]
    steps = 0
    for batch in itertools.islice(_single(batches, steps_per_call), STEPS):
        step(*batch)
        steps += 1
    if not steps:
        raise FathomError("there is no data to calibrate on: give the fraction, as in fixed:16.10")
    for variable, value in zip(kept, before, strict=True):
        variable.assign(value)


def _single(batches: Iterable[Batch], steps_per_call: int) -> Iterable[Batch]:
    if steps_per_call == 1:
        return batches
    return (
        tuple(tensor[i] for tensor in block) for block in batches for i in range(steps_per_call)
    )
