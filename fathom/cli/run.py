"""The command line that every workload shares: ``python -m fathom.<workload>``."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from fathom import options, workloads
from fathom.cli import hyperparameters
from fathom.cli.parser import (
    MODEL_OPTIONS,
    STANDARD_OUTPUT,
    Parser,
    add_options,
    init_options,
    number,
)
from fathom.cli.terminal import console, import_tensorflow, interrupts_raised, run_command
from fathom.errors import FathomError, cause
from fathom.system.files import exists, user_path
from fathom.system.words import counted

if TYPE_CHECKING:
    from fathom.core.training.runner import Progress
    from fathom.nn import NeuralNetworkModel
    from fathom.results.records import RunResult

_MIN_FLOPS_TO_ESTIMATE = 1e12  # per step: smaller steps get no time estimate
_MIN_SECONDS_TO_ANNOUNCE = 10.0
_MIN_COLUMNS_OF_BAR = 80  # a narrower terminal would have no room for the number of the step


def run_workload(name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a workload with its command-line arguments, and exits."""
    program = f"fathom.{name}"
    run_command(program, lambda: _run(name, workload_parser(name, program).parse_args(arguments)))


def workload_parser(name: str, program: str) -> Parser:
    """Returns the parser of a workload's command line."""
    parser = Parser(prog=program, description=f"Runs Fathom's {name} workload.")
    count = number(int)
    parser.add_mode()
    text = "end after training step N, or after N inference steps"
    add_options(parser, "steps", type=number(int), help=text)
    parser.add_argument("--epochs", type=count, metavar="N", help="end after training epoch N")
    text = "leave the first N steps out of the statistics; default: a fifth, at most 5"
    parser.add_argument("--warmup", type=count, metavar="N", help=text)
    add_options(parser, *MODEL_OPTIONS, "microbatches", "xla")
    add_options(parser, "strategy", "replicas", "collectives", "reduce-dtype")
    text = "evaluate on the test data at the end"
    parser.add_argument("--evaluate", action="store_true", help=text)
    add_options(parser, "checkpoint-dir", "checkpoint-every")
    text = "continue from the newest checkpoint, if any"
    parser.add_argument("--resume", action="store_true", help=text)
    add_options(parser, "json")
    parser.add_argument("--quiet", action="store_true", help="print only errors")
    add_options(parser, "version")
    return parser


def _run(name: str, args: argparse.Namespace) -> None:
    _check(args)
    screen = console(stderr=args.json == STANDARD_OUTPUT)
    screen.quiet = args.quiet
    screen.ends_with_reader = not (args.json or args.checkpoint_dir)
    import_seconds = import_tensorflow()
    model_class = workloads.load(name, forward_only=args.infer)
    if "help" in args.set:
        for table in hyperparameters.tables(model_class):
            screen.print(table, soft_wrap=False)
        return
    _run_model(model_class, import_seconds, args, screen)


def _run_model(
    model_class: "type[NeuralNetworkModel]",
    import_seconds: float,
    args: argparse.Namespace,
    screen: Console,
) -> None:
    """Sets up the model and runs it.

    Nothing that imports TensorFlow may hold the model: TensorFlow keeps the frames that import it,
    and Atari's emulator complains if it is still in use at exit.
    """
    from fathom.core.training import strategies

    model = model_class(args.device, init_options(args, model_class))
    model.sections = {"import": import_seconds, **model.sections}
    if not model.is_chief:  # which prints and writes for all workers
        args.json, args.quiet, screen.quiet = None, True, True
    screen.print(f"{model.name}: {model.title}, {'inference' if args.infer else 'training'}")
    screen.print(f"data: {model.dataset.title}, {model.source}")
    with _errors_explained():
        model.setup(_setup_options(args))
        if args.evaluate:
            model.require_test_data()
    _run_steps(model, args, screen)
    strategies.end()


def _run_steps(model: "NeuralNetworkModel", args: argparse.Namespace, screen: Console) -> None:
    """Runs, evaluates and writes the result, even if the run ends early."""
    n_steps, warmup = _steps_to_run(model, args), args.warmup
    if warmup and args.resume:
        warmup = min(warmup, max(0, n_steps - 1))  # few steps may be left
    elif warmup and warmup >= n_steps:
        raise FathomError(f"--warmup {warmup} leaves no step to measure: the run has {n_steps:,}")
    if not args.quiet:
        _print_start(model, n_steps, screen)
    progress = _progress(args, model, screen)
    file = None if args.json == STANDARD_OUTPUT else args.json
    result = None
    try:
        with _errors_explained():
            result = model.run(n_steps=n_steps, warmup=warmup, progress=progress)
            _print_summary(result, screen)
            if args.evaluate and model.is_chief:
                _evaluate(model, result, args, screen)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        if interrupted and args.checkpoint_dir and not args.infer:
            at = model.saved_at
            resume = f"--resume continues from step {at:,}"
            error.args = (resume if at else "no checkpoint was written yet",)
        if result is None and model.steps.seconds:
            result = model.record()
        if result:
            result.ended = "interrupted" if interrupted else cause(error)
            _write(result, args.json)
            if interrupted and file:
                error.args += (f"result so far: {file}",)
        raise
    if file and file.is_file() and args.resume and not n_steps and not args.evaluate:
        screen.print(f"result: {file} is kept, since no steps were left to run")
        return
    _write(result, args.json)
    if file:
        screen.print(f"result: {file}")


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Converts errors of too little memory, and of another worker's loss, to a FathomError."""
    import tensorflow as tf

    from fathom.core.training import strategies

    try:
        with interrupts_raised():
            yield
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise FathomError(
            f"not enough memory ({cause(error)}): use a smaller --batch-size, or smaller "
            "hyperparameters"
        ) from error
    except FathomError:
        raise
    except Exception as error:
        broken = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
        lost = strategies.lost()
        if lost or isinstance(error, broken):
            reason = "" if lost else f" ({cause(error)[:200]})"
            raise FathomError(
                f"{lost or 'another worker'} was lost{reason}: start all workers again with "
                "--resume"
            ) from error
        raise


def _check(args: argparse.Namespace) -> None:
    """Refuses invalid arguments before TensorFlow is loaded, so that no run fails at its end."""
    if args.steps is not None and args.epochs is not None:
        raise FathomError("--steps and --epochs exclude each other")
    if args.infer:
        _refuse_options_of_training(args)
    if args.warmup and args.steps is not None and args.warmup >= args.steps:
        raise FathomError(f"--warmup {args.warmup} leaves no step to measure: give more --steps")
    options.build(options.Setup, _setup_options(args))
    if args.checkpoint_dir:
        user_path(args.checkpoint_dir)
    if args.evaluate and not os.access(_folder_of_pictures(args.json), os.W_OK | os.X_OK):
        raise FathomError("--evaluate puts pictures in the working folder, which cannot be written")


def _refuse_options_of_training(args: argparse.Namespace) -> None:
    if args.epochs is not None:
        raise FathomError("--epochs counts passes over the training data: use --steps with --infer")
    if args.resume:
        raise FathomError("--infer loads the newest checkpoint of --checkpoint-dir: omit --resume")
    if args.checkpoint_every is not None:
        raise FathomError("--infer writes no checkpoints: omit --checkpoint-every")


def _setup_options(args: argparse.Namespace) -> dict[str, object]:
    return {name: getattr(args, name) for name in options.field_names(options.Setup)}


def _steps_to_run(model: "NeuralNetworkModel", args: argparse.Namespace) -> int:
    """Returns the number of remaining steps: ``--steps`` and ``--epochs`` include resumed ones."""
    steps = model.default_steps if args.steps is None else args.steps
    if args.epochs is not None:
        steps = args.epochs * model.steps_per_epoch
    return steps if args.infer else max(0, steps - model.steps_done)


def _progress(args: argparse.Namespace, model: "NeuralNetworkModel", screen: Console) -> "Progress":
    from fathom.cli.progress import Bar, Lines, Progress

    if args.quiet:
        return Progress()
    shows_bar = screen.is_terminal and not screen.is_dumb_terminal
    shows_bar = shows_bar and screen.width >= _MIN_COLUMNS_OF_BAR
    return (Bar if shows_bar else Lines)(screen, model.example)


def _print_start(model: "NeuralNetworkModel", n_steps: int, screen: Console) -> None:
    cost = model.cost()
    compiled = "" if model.xla == "off" else f", XLA for the {model.xla}"
    divided = f" in {model.microbatches} microbatches" if model.microbatches > 1 else ""
    screen.print(
        f"network: {cost.parameters:,} parameters, {_in_words(cost.forward_macs)} "
        f"multiply-accumulates per example; batch {model.hyperparameters.batch_size}"
        f"{divided}, {model.execution.precision}{compiled}, {model.device}, "
        f"{counted(model.threads, 'thread')}"
    )
    for line in model.notes:
        screen.print(line)
    screen.print(f"running {counted(n_steps, 'step')}{_time_ahead(model) if n_steps else ''}")


def _in_words(number: int) -> str:
    """Returns a number in thousands, millions or billions, such as 724.4 million."""
    for unit, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return str(number)


def _time_ahead(model: "NeuralNetworkModel") -> str:
    """Returns an estimate of the step time if steps are slow."""
    from fathom.system import rates

    cost, batch_size = model.cost(), model.hyperparameters.batch_size
    flops = 2 * batch_size * (cost.forward_macs if model.forward_only else cost.training_macs)
    if flops < _MIN_FLOPS_TO_ESTIMATE:
        return ""
    seconds = flops / rates.gemm_ceiling(model.device, model.execution.precision).rate
    if seconds < _MIN_SECONDS_TO_ANNOUNCE:
        return ""
    return f", each about {seconds:.0f} s or more; --batch-size makes them shorter"


def _print_summary(result: "RunResult", screen: Console) -> None:
    steps, speed = result.steps, result.throughput
    if not steps.seconds:
        screen.print("no steps were left to run")
        return
    count = result.environment.microbatches
    divided = f" of {count} microbatches" if count > 1 else ""
    screen.print(f"{counted(len(steps.seconds), 'step')}{divided} in {result.sections.run:.1f} s")
    if len(steps.counted):
        spread = steps.spread
        measured = (
            f"{1e3 * steps.median:,.2f} ms, one measurement ("
            if spread is None
            else f"median {1e3 * steps.median:,.2f} ms, spread {spread:.1%} (interquartile, "
        )
        screen.print(
            f"step: {measured}{len(steps.seconds) - len(steps.counted)} warm-up steps left out); "
            f"{speed.examples_per_second:,.1f} {speed.example}/s, "
            f"{(speed.flops_per_second or 0) / 1e9:,.1f} GFLOP/s"
        )
        with_input = speed.examples_per_second_with_input
        screen.print(f"with input: {with_input:,.1f} {speed.example}/s on average")
    if result.energy.joules_per_step is not None:
        screen.print(
            f"energy: {result.energy.joules_per_step:,.3g} J a step, "
            f"{(result.energy.flops_per_joule or 0) / 1e9:,.3g} GFLOP/J"
        )
    for part in (result.generation, result.distribution):
        for line in part.summary() if part else ():
            screen.print(line)
    losses = [loss for loss in steps.loss if loss is not None]
    if losses:
        screen.print(f"loss: {losses[0]:.5g} at the first step, {losses[-1]:.5g} at the last")
    for name, reason in (result.data.skipped or {}).items():
        screen.print(f"skipped: {name}: {reason}")
    peak, on_gpu = result.memory.peak_resident_bytes, result.memory.peak_gpu_bytes
    if peak is not None:
        of_gpu = "" if on_gpu is None else f", of the GPU {on_gpu / 2**30:.2f} GiB"
        screen.print(f"memory: peak {peak / 2**30:.2f} GiB{of_gpu}")
    if result.disturbed:
        screen.print(
            f"other processes took the processor: the steps had it {result.cpu_share:.0%} of their "
            f"time, with {result.processor.involuntary_switches:,} involuntary context switches"
        )


def _is_file(result: Path) -> bool:
    """Returns whether the result is a file, which may be written twice: no pipe and no device."""
    return result != STANDARD_OUTPUT and (not exists(result) or result.is_file())


def _folder_of_pictures(result: Path | None) -> Path:
    """Returns the folder of the result's file, or the working folder."""
    return result.parent if result and _is_file(result) else Path.cwd()


def _write(result: "RunResult", path: Path | None) -> None:
    """Writes the result to a file, or to standard output."""
    from fathom.system.environment import process_age

    result.sections.wall = process_age()
    if path == STANDARD_OUTPUT:
        try:
            sys.stdout.write(result.to_json())
            sys.stdout.flush()
        except OSError as error:
            raise FathomError(f"cannot print the result: {error.strerror}") from error
    elif path:
        result.write(path)


def _evaluate(
    model: "NeuralNetworkModel", result: "RunResult", args: argparse.Namespace, screen: Console
) -> None:
    """Evaluates, records and prints the metrics, and writes the workload's pictures."""
    if args.json and _is_file(args.json):
        with contextlib.suppress(FathomError):  # the same error is reported at the end
            _write(result, args.json)  # in case the evaluation is killed
    started = time.perf_counter()
    metrics = model.evaluate()
    result.metrics = result.metrics.model_copy(update=metrics)
    result.sections.evaluate = time.perf_counter() - started
    result.data = result.data.model_copy(update=model.describe_data())
    if not model.steps_done:
        screen.print("the network is untrained: --checkpoint-dir loads a checkpoint")
    for name, value in metrics.items():
        screen.print(f"{name}: {value:,.5g}" if isinstance(value, float) else f"{name}: {value:,}")
    for path in model.save_pictures(_folder_of_pictures(args.json)):
        screen.print(f"written: {path}")
