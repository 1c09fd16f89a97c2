"""``fathom serve-test``: a workload's inference under the load of MLPerf's LoadGen."""

import argparse
import shutil
from datetime import datetime
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from fathom import workloads
from fathom.cli.command import Commands, add_command
from fathom.cli.parser import MODEL_OPTIONS, add_options, add_workload, init_options, number
from fathom.cli.terminal import end_at_once, import_tensorflow
from fathom.errors import FathomError
from fathom.results.serving import Scenario, ServingResult, Trial
from fathom.system.folders import new_folder


def add_commands(commands: Commands) -> None:
    """Adds the command to the subparsers of ``python -m fathom``."""
    parser = add_command(
        commands, "serve-test", "cli.serving", "measure the latency of inference under load"
    )
    add = parser.add_argument
    add_workload(parser)
    text = "of MLPerf; default: server"
    add("--scenario", choices=get_args(Scenario), default="server", help=text)
    positive = number(float, above=0)
    text = "queries per second of the server; default: search for the highest that meets the bound"
    add("--rate", type=positive, metavar="QPS", help=text)
    text = "of the server's 99th percentile, in milliseconds"
    add("--latency-bound", type=positive, metavar="MS", help=text)
    text = "shortest duration of a run of LoadGen, in seconds; default: 10 (MLPerf's own: 600)"
    add("--duration", type=number(float, minimum=1), default=10.0, metavar="S", help=text)
    add_options(parser, *MODEL_OPTIONS, "xla", "checkpoint-dir")
    add_options(parser, "out", help="folder of result and logs; default: results/<date and time>")


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    _check(args)
    out = args.out or Path("results") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    new_folder(out, "give another --out")
    import_tensorflow()
    from fathom.measure.serving import loadgen, scenarios
    from fathom.measure.serving.search import MOST_TRIALS

    model_class = workloads.load(args.workload, forward_only=True)
    model = model_class(args.device, init_options(args, model_class))
    model.setup({"checkpoint_dir": args.checkpoint_dir})
    searches = args.scenario == "server" and args.rate is None
    runs = f"up to {MOST_TRIALS} runs" if searches else "one run"
    screen.print(
        f"{args.workload}, {args.scenario}: batches of at most "
        f"{model.hyperparameters.batch_size}, {runs} of at least {args.duration:g} s"
    )
    bound = args.latency_bound / 1e3 if args.latency_bound else None
    try:
        result = scenarios.measure(
            model, args.scenario, args.duration, args.rate, bound, out, screen.print
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            shutil.rmtree(out, ignore_errors=True)  # LoadGen's unfinished logs
        if loadgen.runs():  # and would call Python while it ends, which aborts the process
            end_at_once()
        raise
    result.write(out / "serving.json")
    _show(result, screen)
    screen.print(f"written: {out / 'serving.json'}, LoadGen's logs beside it")
    model.teardown()
    if not result.result.valid:
        raise FathomError(
            f"LoadGen's verdict is INVALID ({result.result.reason}): the figures do not count"
        )


def _check(args: argparse.Namespace) -> None:
    """Raises FathomError for options that do not go together."""
    if args.scenario == "server":
        if args.latency_bound is None:
            raise FathomError("the scenario server needs --latency-bound MS")
    elif args.rate or args.latency_bound:
        raise FathomError(f"--rate and --latency-bound are of server, not {args.scenario}")


def _show(result: ServingResult, screen: Console) -> None:
    """Prints the percentiles of the trial that counts, and what the server did."""
    trial = result.result
    table = Table(box=None, header_style="bold")
    for title in ("samples/s", *trial.latency):
        table.add_column(title if title == "samples/s" else f"{title}, ms", justify="right")
    latencies = (f"{1e3 * seconds:,.4g}" for seconds in trial.latency.values())
    table.add_row(f"{trial.samples_per_second:,.4g}", *latencies)
    screen.print(table)
    screen.print(
        f"{trial.queries:,} queries, batches of {_mean_batch(trial):.3g} samples in the mean; "
        f"LoadGen: {'VALID' if trial.valid else 'INVALID'}"
    )
    for name, seconds in (
        ("first token", trial.first_token),
        ("each token after it", trial.output_token),
    ):
        if seconds:
            figures = ", ".join(f"{key} {1e3 * value:,.4g}" for key, value in seconds.items())
            screen.print(f"{name}, ms: {figures}")
    if result.trials:
        bound = 1e3 * (result.latency_bound or 0)
        screen.print(f"highest rate within {bound:g} ms: {trial.rate:,.4g} queries/s")


def _mean_batch(trial: Trial) -> float:
    number = sum(trial.batches.values())
    return sum(int(size) * count for size, count in trial.batches.items()) / max(1, number)
