"""The one command line that every workload shares: ``python -m fathom.<workload>``."""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

from fathom import options, workloads
from fathom.cli import hyperparameters
from fathom.cli.parser import MODEL_OPTIONS, Parser, add_mode, add_options, init_options, number
from fathom.cli.terminal import console, import_tensorflow, run_command, stop_signals
from fathom.errors import FathomError, cause
from fathom.system.files import user_path

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel
    from fathom.results.records import RunResult


_FLOPS_TO_TIME = 1e12  # a step of fewer is not worth an estimate of its time
_SECONDS_TO_WAIT = 10.0


def run_workload(name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a workload as its command line says, and exits."""
    program = f"fathom.{name}"
    chosen = workload_parser(name, program).parse_args(arguments)
    run_command(program, lambda: _run(name, chosen))


def workload_parser(name: str, program: str) -> Parser:
    """Returns the parser of a workload's command line."""
    parser = Parser(prog=program, description=f"Runs Fathom's {name} workload.")
    count = number(int)
    add_mode(parser)
    text = "end after step N of the training, or N steps of inference"
    add_options(parser, "steps", type=number(int), help=text)
    parser.add_argument(
        "--epochs", type=count, metavar="N", help="end after pass N over the training data"
    )
    text = "leave the first N steps out of the statistics; default: a fifth, 5 at most"
    parser.add_argument("--warmup", type=count, metavar="N", help=text)
    add_options(parser, *MODEL_OPTIONS, "xla")
    text = "evaluate on the test data at the end"
    parser.add_argument("--evaluate", action="store_true", help=text)
    add_options(parser, "checkpoint-dir", "checkpoint-every")
    text = "continue from the newest checkpoint, if any"
    parser.add_argument("--resume", action="store_true", help=text)
    add_options(parser, "json")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    add_options(parser, "version")
    return parser


def _run(name: str, chosen: argparse.Namespace) -> None:
    _check(chosen)
    screen = console()
    screen.quiet = chosen.quiet
    import_seconds = import_tensorflow()
    model_class = workloads.load(name, forward_only=chosen.infer)
    if "help" in chosen.set:
        screen.print(hyperparameters.table(model_class.Hyperparameters), soft_wrap=False)
        return
    model = model_class(chosen.device, init_options(chosen, model_class.Hyperparameters))
    model.sections = {"import": import_seconds, **model.sections}
    screen.print(f"{name}: {model.title}, {'inference' if chosen.infer else 'training'}")
    screen.print(f"data: {model.dataset.title}, {model.source}")
    with _errors_explained():
        model.setup(_setup_options(chosen))
        if chosen.evaluate:
            model.require_test_data()
    _run_steps(model, chosen, screen)
    if chosen.json:
        screen.print(f"result: {chosen.json}")


def _run_steps(model: "NeuralNetworkModel", chosen: argparse.Namespace, screen: Console) -> None:
    """Runs, records and evaluates; what ends early is recorded as far as it came."""
    n_steps = _steps_to_run(model, chosen)
    if not chosen.quiet:
        _print_start(model, n_steps, screen)
    progress = _progress(chosen, model, screen)
    result = None
    try:
        with _errors_explained():
            result = model.run(n_steps=n_steps, warmup=chosen.warmup, progress=progress)
            _write(result, chosen)  # an evaluation that fails must not lose the run
            _print_summary(result, screen)
            if chosen.evaluate:
                _evaluate(model, result, chosen, screen)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        if interrupted and chosen.checkpoint_dir and not chosen.infer:
            error.args = (_where_to_resume(model),)
        if result is None and model.steps.seconds:
            result = model.record()
        if result:
            result.ended = "interrupted" if interrupted else cause(error) or type(error).__name__
            _write(result, chosen)
        raise


def _where_to_resume(model: "NeuralNetworkModel") -> str:
    if model.saved_at:
        return f"--resume continues from step {model.saved_at:,}"
    return "no checkpoint was written yet"


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Makes a FathomError of memory that is not there, NumPy's and TensorFlow's.

    TensorFlow may make another error of a ``KeyboardInterrupt`` that comes within it, or none:
    after a signal it is one again.
    """
    import tensorflow as tf

    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise FathomError(
            f"not enough memory ({cause(error)}): use a smaller --batch-size, or smaller "
            "hyperparameters"
        ) from error
    except Exception as error:
        if stop_signals:
            raise KeyboardInterrupt from error
        raise
    if stop_signals:
        raise KeyboardInterrupt


def _check(chosen: argparse.Namespace) -> None:
    """Refuses before TensorFlow is loaded what cannot work, so that no run is lost at its end."""
    if chosen.steps is not None and chosen.epochs is not None:
        raise FathomError("--steps and --epochs exclude each other")
    if chosen.infer and chosen.epochs is not None:
        raise FathomError("--epochs counts passes over the training data: use --steps with --infer")
    options.Setup(**_setup_options(chosen))
    if chosen.checkpoint_dir:
        user_path(chosen.checkpoint_dir)
    if chosen.json or chosen.evaluate:
        _check_writable(chosen.json)


def _setup_options(chosen: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in options.field_names(options.Setup)}


def _check_writable(result: Path | None) -> None:
    """Tries to write a file beside the result, with a name as long as that of a temporary one."""
    folder, name = (result.absolute().parent, result.name) if result else (Path.cwd(), "")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}.", suffix=".tmp"):
            is_folder = result is not None and result.is_dir()
    except OSError as error:
        raise FathomError(
            f"{result or folder} cannot be written ({error.strerror}): give --json a file in a "
            "folder that exists and can be written"
        ) from error
    if is_folder:
        raise FathomError(f"--json {result} is a folder: give a file")


def _steps_to_run(model: "NeuralNetworkModel", chosen: argparse.Namespace) -> int:
    """Returns how many steps are left: ``--steps`` and ``--epochs`` count resumed ones too."""
    steps = model.default_steps if chosen.steps is None else chosen.steps
    if chosen.epochs is not None:
        steps = chosen.epochs * model.steps_per_epoch
    return steps if chosen.infer else max(0, steps - model.steps_done)


def _progress(chosen: argparse.Namespace, model: "NeuralNetworkModel", screen: Console) -> Any:
    from fathom.cli.progress import Bar, Lines, Progress

    if chosen.quiet:
        return Progress()
    return (Bar if screen.is_terminal else Lines)(screen, model.example)


def _print_start(model: "NeuralNetworkModel", n_steps: int, screen: Console) -> None:
    cost = model.cost()
    compiled = "" if model.xla == "off" else f", XLA for the {model.xla}"
    screen.print(
        f"network: {cost.parameters:,} parameters, {cost.forward_macs / 1e6:,.1f} million "
        f"multiply-accumulates an example; batch {model.hyperparameters.batch_size}, "
        f"{model.execution.precision}{compiled}, {model.device}, "
        f"{model.threads} thread{'s' if model.threads > 1 else ''}"
    )
    for line in model.notes:
        screen.print(line)
    screen.print(f"running {n_steps:,} steps{_time_ahead(model) if n_steps else ''}")


def _time_ahead(model: "NeuralNetworkModel") -> str:
    """Says how long a step takes where the first one keeps a person waiting."""
    from fathom.system.device import gemm_rate

    cost, batch_size = model.cost(), model.hyperparameters.batch_size
    flops = 2 * batch_size * (cost.forward_macs if model.forward_only else cost.training_macs)
    if flops < _FLOPS_TO_TIME:
        return ""
    seconds = flops / gemm_rate(model.device, model.execution.precision)
    if seconds < _SECONDS_TO_WAIT:
        return ""
    return f", each about {seconds:.0f} s or more; --batch-size makes them shorter"


def _print_summary(result: "RunResult", screen: Console) -> None:
    steps, speed = result.steps, result.throughput
    if not steps.seconds:
        screen.print("no steps were left to run")
        return
    screen.print(f"{len(steps.seconds):,} steps in {result.sections.run:.1f} s")
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
            f"{speed.flops_per_second / 1e9:,.1f} GFLOP/s"
        )
        screen.print(f"with input: {speed.examples_per_second_with_input:,.1f} {speed.example}/s")
    losses = [loss for loss in steps.loss if loss is not None]
    if losses:
        screen.print(f"loss: {losses[0]:.5g} at first, {losses[-1]:.5g} at last")
    for name, reason in (result.data.skipped or {}).items():
        screen.print(f"skipped: {name}: {reason}")
    screen.print(f"memory: peak {result.memory.peak_resident_bytes / 2**30:.2f} GiB")


def _write(result: "RunResult", chosen: argparse.Namespace) -> None:
    from fathom.system.environment import process_age

    result.sections.wall = process_age()
    if chosen.json:
        result.write(chosen.json)


def _evaluate(
    model: "NeuralNetworkModel", result: "RunResult", chosen: argparse.Namespace, screen: Console
) -> None:
    """Evaluates, records and prints the metrics, and writes the workload's pictures."""
    started = time.perf_counter()
    metrics = model.evaluate()
    result.metrics = result.metrics.model_copy(update=metrics)
    result.sections.evaluate = time.perf_counter() - started
    result.data = result.data.model_copy(update=model.describe_data())
    _write(result, chosen)  # a picture that fails must not lose the metrics
    if not model.steps_done:
        screen.print("the network is untrained: --checkpoint-dir takes up a trained one")
    for name, value in metrics.items():
        screen.print(f"{name}: {value:,.5g}" if isinstance(value, float) else f"{name}: {value:,}")
    for path in model.save_pictures(chosen.json.parent if chosen.json else Path.cwd()):
        screen.print(f"written: {path}")
