"""The calibration pass: some float32 steps, in which rounders note the largest magnitudes."""

import itertools
from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from fathom.core.training.compilation import Batch, Step
from fathom.core.training.values import restored
from fathom.errors import FathomError
from fathom.model.workload import Workload

STEPS = 20


def run(workload: Workload, step: Step, kept: Sequence[tf.Variable]) -> None:
    """Runs the calibration's steps on a built workload's data, and undoes what they changed.

    The step was traced while rounders calibrate; the variables ``kept`` get their values back.

    Raises:
        FathomError: there are no batches.
    """
    history = dict(workload.history)
    if not workload.forward_only:
        workload.save_state()
    steps = 0
    with restored(kept):
        for batch in itertools.islice(batches(workload), STEPS):
            step(*batch)
            steps += 1
    if not steps:
        raise FathomError("there is no data to calibrate on: give the fraction, as in fixed:16.10")
    if not workload.forward_only:
        workload.restore_state()
    workload.history = history


def first_batch(workload: Workload) -> dict[str, tf.Tensor]:
    """Returns the tensors of the first batch of the data, as the step takes them, by name.

    Of a built workload, which need not be set up.
    """
    workload.compile_functions()  # which may fill caches, or play
    tensors = map(tf.convert_to_tensor, keras.tree.flatten(next(iter(batches(workload)))))
    names = (spec.name for spec in workload.signatures()[-1])
    return dict(zip(names, tensors, strict=False))


def batches(workload: Workload) -> Iterable[Batch]:
    """Returns a run's batches one by one, also of blocks of batches for calls of several steps."""
    forward, count = workload.forward_only, workload.steps_per_call
    blocks = workload.inference_batches() if forward else workload.training_batches(0)
    if count == 1:
        return blocks
    return (tuple(tensor[i] for tensor in block) for block in blocks for i in range(count))
