"""What setting up a model gives: its compiled steps, and what runs them."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from fathom import options
from fathom.core.data.pipeline import PREFETCHED
from fathom.core.training import replicas, strategies
from fathom.core.training.checkpoint import Checkpoints
from fathom.core.training.compilation import CompiledStep, Nest, Step
from fathom.core.training.footprint import require_memory
from fathom.core.training.phases import Phases
from fathom.core.training.runner import Loop, Runner
from fathom.errors import FathomError
from fathom.model import calibration, microbatches
from fathom.model.steps import StepFunctions
from fathom.model.workload import Workload
from fathom.numbers.simulation import Simulation
from fathom.options import precision_traits
from fathom.system.files import user_path

Variables = dict[str, tf.Variable]


class Compiled(NamedTuple):
    """What compiling gives.

    Attributes:
        step: of training, or of inference in a forward-only model.
        evaluate: returns the metrics of a batch's examples.
        phases: of ``step``, if it generates token by token.
    """

    step: CompiledStep
    evaluate: Step
    phases: Phases | None


class Prepared(NamedTuple):
    """The compiled steps, and what runs them and writes checkpoints."""

    compiled: Compiled
    runner: Runner


def prepare(model: Workload, settings: options.Setup) -> Prepared:
    """Restores a built model's checkpoint, and compiles its steps.

    Raises:
        FathomError: unusable options or checkpoints.
    """
    _check_batches(model)
    variables = model.built.variables() | _state(model)
    checkpoints = _open_checkpoints(model, variables, settings)
    strategies.agree(lambda: dict(_facts(model, settings, variables)))
    simulation = model.built.simulation
    if simulation is not None:
        _simulate(model, simulation, variables)
    compiled = _compile(model)
    if model.built.collectives:
        model.built.collectives.measure_link()
    saves = not model.forward_only and settings.checkpoint_dir is not None
    every = settings.checkpoint_every or options.CHECKPOINT_EVERY
    loop = Loop(
        trains=not model.forward_only,
        device=model.device,
        batch_size=model.hyperparameters.batch_size,
        steps_per_call=model.steps_per_call,
        steps_per_epoch=1 if model.forward_only else model.steps_per_epoch,
        checkpoint_every=every if saves else None,
        remedy=model.hyperparameters.remedy_for_divergence(),
    )
    runner = Runner(
        *(compiled.step, loop, model, checkpoints),
        saved_at=model.steps_done,
        stop=model.built.collectives.stop if model.built.collectives else bool,
    )
    return Prepared(compiled, runner)


def _state(model: Workload) -> Variables:
    """Returns the workload's own variables by name."""
    state = model.state()
    if not isinstance(state, dict) or not all(isinstance(v, tf.Variable) for v in state.values()):
        raise FathomError(
            f"state of {model.name} must return a dictionary of tf.Variables, not {state!r:.60}"
        )
    return state


def _facts(
    model: Workload, settings: options.Setup, variables: Variables
) -> Iterator[tuple[str, object]]:
    """Yields what the workers of a training have to have in common before the first step."""
    yield "data", model.source.fingerprint()
    yield from model.describe_data().items()
    yield "checkpoints", settings.checkpoint_dir is not None and settings.checkpoint_every
    yield "restored step", model.steps_done
    digest = hashlib.sha256()
    for name in sorted(variables):
        digest.update(variables[name].numpy())
    yield "variables", digest.hexdigest()[:12]


def check_strategy(model: Workload) -> None:
    """Raises FathomError if a model cannot be trained by the strategy of its options."""
    if not model.strategy:
        return
    name, precision = model.execution.strategy, model.execution.precision
    traits = precision_traits(precision)
    if model.forward_only:
        raise FathomError(f"--strategy {name} is for training")
    if model.undistributable:
        raise FathomError(f"{model.name} cannot be distributed: {model.undistributable}")
    if model.xla == "step":
        raise FathomError(f"--strategy {name} does not work with --xla")
    if traits.scales_loss or traits.fixed:
        raise FathomError(f"--strategy {name} does not work in {precision}: try bfloat16")


def _check_batches(model: Workload) -> None:
    """Checks that batches can be divided as the options ask, and fit into memory."""
    if model.strategy:
        strategies.check_batches(model.signatures(), model.strategy.num_replicas_in_sync)
    signatures = model.signatures()
    microbatches.check(model, [spec.shape[0] for each in signatures for spec in each])
    if not model.device.on_gpu:  # a GPU's allocator raises its own error
        require_memory(
            model.name,
            model.network,
            _own(model)[-1],
            model.steps_per_call,
            blocks=1 + PREFETCHED,
            trains=not model.forward_only,
        )


def _own(model: Workload) -> list[list[tf.TensorSpec]]:
    """Returns the shapes of this worker's rows of the batches."""
    with model.placement():
        workers = replicas.worker()[1]
    if workers == 1:
        return model.signatures()
    return [
        [tf.TensorSpec((s.shape[0] // workers, *s.shape[1:]), s.dtype, s.name) for s in signature]
        for signature in model.signatures()
    ]


def _simulate(model: Workload, simulation: Simulation, variables: Variables) -> None:
    """Computes in fixed point from here on, in formats chosen now unless they were restored."""
    if simulation.calibrates:
        simulation.calibrate()
        kept = [model.built.noise_step] if model.forward_only else list(variables.values())
        calibration.run(model, _compile(model).step.single, kept)
    simulation.begin()


def _compile(model: Workload) -> Compiled:
    """Compiles the step, the evaluation, and what else the workload compiles."""
    steps, phases = StepFunctions(model), _phases(model)
    xla = model.xla == "step" and model.microbatches == 1  # else it compiles each of them
    with model.placement():
        step = CompiledStep(
            steps.infer_all if model.forward_only else steps.train_all,
            _own(model),
            model.steps_per_call,
            xla=xla,
            call=functools.partial(_in_phases, model, phases) if phases else None,
        )
    evaluate = tf.function(
        # Of its own: TensorFlow counts the tracings of a method over all models, and warns.
        functools.partial(steps.evaluate),
        reduce_retracing=True,
        autograph=False,
        jit_compile=model.xla_beside_steps == "step" and model.evaluation_compiles,
    )
    model.compile_functions()
    return Compiled(step, evaluate, phases)


def _phases(model: Workload) -> Phases | None:
    """Returns the phases of generation, compiled, in microbatches if there are any."""
    phases, xla = microbatches.of_phases(model), model.xla == "step"
    if not phases:
        return None
    counts = microbatches.counts(model)
    prefill, decode = (
        tf.function(each, autograph=False, jit_compile=xla and count == 1)
        for each, count in zip((phases.prefill, phases.decode), counts, strict=True)
    )
    return Phases(dataclasses.replace(phases, prefill=prefill, decode=decode), model.device)


def _in_phases(model: Workload, phases: Phases, *inputs: tf.Tensor) -> Nest:
    outputs = phases.run(*inputs)
    model.built.noise_step.assign_add(1)
    return outputs


def _of_precision(model: Workload, variables: Variables) -> list[str]:
    """Returns the names of the variables that belong to a training's precision."""
    if not (optimizer := model.built.optimizer):
        return []
    scale = optimizer.loss_scale.variables if optimizer.loss_scale else ()
    formats = model.built.simulation.variables.values() if model.built.simulation else ()
    own = {id(variable) for variable in (*scale, *formats)}
    return [name for name, variable in variables.items() if id(variable) in own]


def _open_checkpoints(
    model: Workload, variables: Variables, settings: options.Setup
) -> Checkpoints | None:
    """Opens the folder of a training; a resumed run or a forward-only model loads the newest."""
    if settings.checkpoint_dir is None:
        return None
    compared = dataclasses.asdict(model.hyperparameters)
    compared |= {"seed": model.execution.seed, "precision": model.execution.computed_in}
    compared |= {"data": os.path.realpath(model.source.directory)}
    simulation = None if model.forward_only else model.built.simulation
    checkpoints = Checkpoints(
        *(user_path(settings.checkpoint_dir), model.name, compared, variables),
        formats=_of_precision(model, variables),
    )
    if not model.is_chief and not (settings.resume and checkpoints.latest):
        return None
    writes = model.is_chief and not model.forward_only
    begun = checkpoints.begin(settings.resume, writes)
    model.notes += begun.notes
    if checkpoints.latest:
        model.restore_state()
        if model.forward_only and model.average:
            model.average.apply()
        if simulation:
            simulation.has_formats = "precision" not in begun.changes
    if model.forward_only:
        return None
    if (rate := model.scheduled_rate(model.steps_done)) is not None:
        model.learning_rate.assign(rate)  # of the options, which may have changed
    elif "learning_rate" in begun.changes:
        model.change_learning_rate(*begun.changes["learning_rate"])
    return checkpoints if writes else None
