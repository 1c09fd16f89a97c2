"""Microbatches: parts of a step's batch that a CPU computes at once.

The mathematics of a step in microbatches is that of the whole batch; sums differ by rounding.
``core.training.replicas`` has what is computed in each.
"""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf

from fathom.core.training import replicas
from fathom.core.training.compilation import Nest, Step
from fathom.core.training.phases import TwoPhases
from fathom.errors import FathomError
from fathom.model.workload import Workload
from fathom.options import precision_traits


def obstacle(model: Workload) -> str:
    """Returns why the batches of a run cannot be divided; empty if they can."""
    execution = model.execution
    if model.device.on_gpu:
        return "they are for CPUs: a GPU computes a batch at once"
    if precision_traits(execution.precision).fixed:
        return f"{execution.precision} is simulated for whole batches"
    if model.forward_only:
        return "" if model.divides_inference else "this inference computes whole batches"
    if execution.strategy != "none":
        return f"--strategy {execution.strategy} divides batches itself"
    if execution.xla:
        return "--xla would compute them in turn"
    if model.batch_statistics is not None:
        return "its batch normalization takes the statistics of whole batches"
    return model.indivisible


def check(model: Workload, sizes: Sequence[int | None]) -> None:
    """Raises FathomError if batches of these sizes cannot be divided as the options ask.

    Microbatches that nobody asked for are left out where they are not possible.
    """
    count = model.execution.microbatches
    if not isinstance(count, int) or count == 1:
        return
    if reason := obstacle(model):
        raise FathomError(f"{model.name} cannot compute {count} microbatches: {reason}")
    for size in sizes:
        if size and size % count:
            raise FathomError(
                f"{model.name}'s batch of {size} cannot be divided into {count} microbatches: try "
                "another --batch-size or --microbatches"
            )


def counts(model: Workload) -> tuple[int, int]:
    """Returns the microbatches of a prefill, and of the decoding after it."""
    return model.microbatches, model.microbatches if model.divides_decoding else 1


def of_phases(model: Workload) -> TwoPhases | None:
    """Returns the phases of an inference, if it has two, each divided as the model says."""
    phases = model.two_phases()
    if phases is None:
        return None
    each = zip((phases.prefill, phases.decode), counts(model), strict=True)
    prefill, decode = (divided(phase, count, model.xla == "step") for phase, count in each)
    return dataclasses.replace(phases, prefill=prefill, decode=decode)


def divided(step: Step, count: int, xla: bool) -> Step:
    """Returns an inference that computes a batch in microbatches, and joins what they return.

    Args:
        step: takes and returns tensors or nests of them, each [batch, ...].
        count: of microbatches; 1: the step itself.
        xla: XLA compiles a microbatch; all of them in one program it would run in turn.
    """
    if count == 1:
        return step

    def whole(*batch: tf.Tensor) -> Nest:
        outputs = []
        for number in range(count):
            part = functools.partial(step)  # of its own, as what is traced depends on the number
            if xla:
                part = tf.function(part, autograph=False, jit_compile=True)
            with replicas.computing(replicas.Microbatch(number, count, None)):
                outputs.append(part(*tf.nest.map_structure(replicas.part, batch)))
        return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *outputs)

    return whole
