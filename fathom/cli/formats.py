"""``fathom formats``: a workload's metric, and what is lost, in several number formats."""

import argparse
import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from fathom import workloads
from fathom.cli.command import Commands, add_command, refuse
from fathom.cli.parser import MODEL_OPTIONS, add_options, checked, init_options, result_file
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.errors import DivergedError, FathomError
from fathom.options import FIXED_POINT_OPTIONS, QUANTIZED, Execution, precision_traits
from fathom.results.formats import FormatRun, Formats
from fathom.results.records import UsedHyperparameters, UsedOptions
from fathom.system.files import exists

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

_DEFAULT = "float32,fixed32,fixed16,fixed:16.10,fixed12,fixed8"
_LAST = 20  # steps whose mean loss is reported


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    text = "train or evaluate a workload in several number formats"
    parser = add_command(commands, "formats", "cli.formats", text)
    parser.add_workload()
    parser.add_mode()
    text = f"precisions; default: {_DEFAULT}"
    kind = checked(_precisions)
    parser.add_argument(
        "--formats", type=kind, default=_DEFAULT.split(","), metavar="A,B", help=text
    )
    add_options(parser, "steps", default=100, help="of each training; default: %(default)s")
    shared = [name for name in MODEL_OPTIONS if name not in ("precision", "device")]
    add_options(parser, *shared)
    add_options(parser, "checkpoint-dir", help="with --infer: the checkpoints to load")
    text = "file of the result; formats that it has with this seed and options are not run again; "
    add_options(parser, "json", help=text + "default: WORKLOAD-MODE-formats.json")


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    _check(args)
    mode = "infer" if args.infer else "train"
    path = result_file(args.json or Path(f"{args.workload}-{mode}-formats.json"))
    import_tensorflow()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it warns of a step for each model
    model_class = workloads.load(args.workload, forward_only=args.infer)
    options = init_options(args, model_class)
    for precision in args.formats:
        model_class("cpu", _in(precision, options))  # is refused before any run
    plain = model_class("cpu", _in(Execution.precision, options))
    if args.infer:
        plain.setup({"checkpoint_dir": args.checkpoint_dir})
    result = _begun(path, args, plain)
    if args.infer:
        plain.run(n_steps=1, warmup=0)  # as the others do, so that all draw the same noise
    for precision in args.formats:
        model = model_class("cpu", _in(precision, options))
        if not any(_same(each, model.execution) for each in result.runs):
            screen.print(f"{model.name} in {precision}")
            result.runs.append(_measured(model, plain, args))
            result.write(path)
    plain.teardown()
    _show(result.runs, screen)
    screen.print(f"written: {path}")


def _check(args: argparse.Namespace) -> None:
    """Refuses options that would have no effect."""
    if args.infer:
        refuse(args, ["steps"], "is of training: omit it with --infer")
    else:
        refuse(args, ["checkpoint_dir"], "is for --infer: a training starts from scratch")
    if not any(precision_traits(each).fixed for each in args.formats):
        refuse(args, FIXED_POINT_OPTIONS, "is of fixed point, and no format is")


def _in(precision: str, options: Mapping[str, object]) -> dict[str, object]:
    """Returns the model's options in a precision: those of fixed point only where it is."""
    without = () if precision_traits(precision).fixed else FIXED_POINT_OPTIONS
    kept = {name: value for name, value in options.items() if name not in without}
    return kept | {"precision": precision}


def _precisions(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        precision_traits(name)
    return list(dict.fromkeys(names))


def _begun(path: Path, args: argparse.Namespace, model: "NeuralNetworkModel") -> Formats:
    """Returns the result so far; a file that exists must be of the same question."""
    data = Path(args.data_dir).resolve() if args.data_dir else model.source.kind
    options = dataclasses.asdict(model.run_options) | {"data": f"{model.dataset.name}, {data}"}
    if args.checkpoint_dir:
        folder = Path(args.checkpoint_dir).resolve()
        options["checkpoint"] = f"{folder}, step {model.steps_done}"
    begun = Formats(
        workload=model.name,
        mode=model.mode,
        steps=0 if args.infer else args.steps,
        hyperparameters=UsedHyperparameters(**dataclasses.asdict(model.hyperparameters)),
        options=UsedOptions(**options),
        environment=model.machine(),
        runs=[],
    )
    if not exists(path):
        return begun
    done = Formats.read(path)
    found, asked = _question(done), _question(begun)
    if others := sorted(name for name in {*found, *asked} if found.get(name) != asked.get(name)):
        raise FathomError(
            f"{path} is of another experiment, which differs in {', '.join(others)}: name a new "
            "file"
        )
    return done


def _question(result: Formats) -> dict[str, object]:
    """Returns what all runs of a file share, by name."""
    shared = {"workload": result.workload, "mode": result.mode, "steps": result.steps}
    return shared | result.hyperparameters.to_plain() | result.options.to_plain()


def _same(run: FormatRun, execution: Execution) -> bool:
    """Returns whether a run was made with these options."""
    if (run.precision, run.seed) != (execution.precision, execution.seed):
        return False
    fixed = run.fixed_point
    if fixed is None:
        return True
    asked = (execution.rounding_rule, execution.overflow_rule, {*execution.quantized})
    return (fixed.rounding, fixed.overflow, {*fixed.quantized}) == asked


def _measured(
    model: "NeuralNetworkModel", plain: "NeuralNetworkModel", args: argparse.Namespace
) -> FormatRun:
    """Returns a run of a model, given the same in float32, which inference is compared with."""
    import keras

    from fathom.model import calibration
    from fathom.numbers import errors

    keras.backend.clear_session(free_memory=False)  # or Keras goes on counting in layers' names
    model.setup({"checkpoint_dir": args.checkpoint_dir})
    ended, metrics = "complete", {}
    try:
        model.run(n_steps=1 if args.infer else args.steps, warmup=0)
        metrics = model.evaluate()
    except DivergedError as error:
        ended = str(error)
    result = model.record()
    losses = [loss for loss in result.steps.loss[-_LAST:] if loss is not None]
    by_layer = {}
    if args.infer and result.fixed_point is not None:
        batch = next(iter(calibration.batches(model)))
        by_layer = errors.by_layer(plain.network, model.network, batch)
    model.teardown()
    return FormatRun(
        precision=model.execution.precision,
        seed=model.execution.seed,
        metrics={name: value if np.isfinite(value) else None for name, value in metrics.items()},
        loss=float(np.mean(losses)) if losses else None,
        fixed_point=result.fixed_point,
        errors=by_layer,
        ended=ended,
    )


def _show(runs: list[FormatRun], screen: Console) -> None:
    """Prints the metrics of each run, and the shares that became zero."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    titles = ("seed", *names, "last loss", *(f"{kind} to 0" for kind in QUANTIZED))
    table = new_table(("format", *titles, ""), titles)
    for run in runs:
        numbers = [*(run.metrics.get(name) for name in names), run.loss]
        lost = [run.fixed_point and run.fixed_point.share(kind, "zeroed") for kind in QUANTIZED]
        table.add_row(
            run.precision,
            str(run.seed),
            *("" if number is None else f"{number:.5g}" for number in numbers),
            *("" if share is None else f"{share:.1%}" for share in lost),
            "" if run.ended == "complete" else run.ended,
        )
    screen.print(table)
