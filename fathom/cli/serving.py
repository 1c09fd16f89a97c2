"""``fathom serve``, inference over HTTP, and ``fathom serve-test``, inference under load."""

import argparse
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from rich.console import Console

from fathom.cli.command import Commands, add_command, build_model, refuse
from fathom.cli.parser import MODEL_OPTIONS, Parser, add_options, input_path, number
from fathom.cli.terminal import end_at_once, new_table
from fathom.errors import FathomError
from fathom.results.serving import Batching, Bounds, Scenario, ServingResult
from fathom.system.folders import new_folder

if TYPE_CHECKING:
    from fathom.measure.serving.scenarios import Plan
    from fathom.nn import NeuralNetworkModel

_MIB = 2**20
_MOST_QUERIES = 10**7  # of a run, all of which are in memory
_BATCHINGS: dict[str, list[Batching]] = {
    "continuous": ["continuous"],
    "static": ["static"],
    "both": ["continuous", "static"],
}


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    _add_serve(add_command(commands, "serve", "cli.serving", "answer inference over HTTP", "serve"))
    parser = add_command(
        commands, "serve-test", "cli.serving", "measure the latency of inference under load"
    )
    add = parser.add_argument
    parser.add_workload()
    text = "of MLPerf; default: server"
    add("--scenario", choices=get_args(Scenario), default="server", help=text)
    positive = number(float, minimum=1e-6, maximum=1e6)  # what LoadGen and results can hold
    text = "queries per second of the server; default: search for the highest that meets the bounds"
    add("--rate", type=positive, metavar="QPS", help=text)
    for option, text in (
        ("--latency-bound", "of the server's 99th percentile, in milliseconds"),
        ("--ttft-bound", "the same of the time to the first token, of language models"),
        ("--tpot-bound", "the same of the time per output token after the first"),
    ):
        add(option, type=positive, metavar="MS", help=text)
    text = (
        "of language models: queries join a running batch, or wait for its end, or one test of "
        "each; default: continuous"
    )
    add("--batching", choices=_BATCHINGS, default="continuous", help=text)
    arrivals = parser.add_mutually_exclusive_group()
    text = "arrivals and lengths: an LLM inference trace of Azure (.csv) or Mooncake (.jsonl)"
    arrivals.add_argument("--trace", type=input_path, metavar="FILE", help=text)
    text = "arrivals in bursts: gamma-distributed intervals with this coefficient of variation"
    variation = number(float, minimum=1e-6, maximum=100)
    arrivals.add_argument("--burst", type=variation, metavar="CV", help=text)
    text = "endpoint to test instead: OpenAI's completions of language models, else KServe v2"
    add("--url", help=text)
    text = "shortest duration of a run, in seconds; default: 10 (MLPerf's own: 600)"
    seconds = number(float, minimum=1, maximum=86400)
    add("--duration", type=seconds, default=10.0, metavar="S", help=text)
    _add_cache(parser)
    add_options(parser, *MODEL_OPTIONS, "xla", "checkpoint-dir")
    add_options(parser, "out", help="folder of result and logs; default: results/<date and time>")


def _add_serve(parser: Parser) -> None:
    add = parser.add_argument
    parser.add_workload()
    text = "address to listen on; default: 127.0.0.1, this machine alone"
    add("--host", default="127.0.0.1", help=text)
    port = number(int, minimum=0, maximum=65535)
    add("--port", type=port, default=8000, help="default: 8000; 0: any that is free", metavar="P")
    count = number(int, minimum=1)
    text = "bytes of a request; default: 16 MiB"
    add("--body-limit", type=count, default=16 * _MIB, metavar="N", help=text)
    text = "requests that wait, before others get 429; default: 256"
    add("--queue-limit", type=count, default=256, metavar="N", help=text)
    text = "seconds of a request, also of those that run at the end; default: 60"
    add("--time-limit", type=number(float, above=0), default=60.0, metavar="S", help=text)
    _add_cache(parser)
    add_options(parser, *MODEL_OPTIONS, "xla", "checkpoint-dir")


def _add_cache(parser: Parser) -> None:
    text = "bound of language models' cached keys and values; default: room for full batches"
    parser.add_argument("--cache", type=number(float, above=0), metavar="MIB", help=text)


def serve(args: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom serve`` with its parsed arguments."""
    from fathom.measure.serving.http.application import Limits, aiohttp, bind

    aiohttp()
    bound = bind(args.host, args.port)
    model = build_model(args, forward_only=True, device=args.device)
    model.setup({"checkpoint_dir": args.checkpoint_dir})
    _require_text(model, args, ("cache",))
    from fathom.measure.serving.http.serve import serve

    def ready(url: str) -> None:
        screen.print(f"{args.workload} answers at {url}; Ctrl-C ends it", soft_wrap=True)

    limits = Limits(args.body_limit, args.queue_limit, args.time_limit)
    serve(model, bound, limits, _cache_bytes(args), ready)
    screen.print("ended")
    model.teardown()


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom serve-test`` with its parsed arguments."""
    _check(args)
    out = args.out or Path("results") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    model = build_model(args, forward_only=True, device=args.device)
    from fathom.measure.serving import loadgen

    plan = _plan(args)
    new_folder(out, "give another --out")
    screen.print(f"{args.workload}: setting up and warming up")
    try:
        model.setup({"checkpoint_dir": args.checkpoint_dir})
        _check_bounds(model, args)
        results = _test(args, model, plan, out, screen)
    except BaseException as error:
        if loadgen.runs():  # and would call Python while it ends, which aborts the process
            end_at_once()
        unfinished = (out / "static", out) if isinstance(error, KeyboardInterrupt) else ()
        for folder in unfinished:  # without the result of a first test
            if not (folder / "serving.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
        raise
    model.teardown()
    _compare(results, screen)
    for result in results:
        if not result.result.valid:
            raise FathomError(
                f"{_judge(result)} is INVALID ({result.result.reason}): the figures do not count"
            )


def _test(
    args: argparse.Namespace, model: "NeuralNetworkModel", plan: "Plan", out: Path, screen: Console
) -> list[ServingResult]:
    """Runs the test of each batching; the folder has the first, and a folder in it the second."""
    from fathom.measure.serving import scenarios
    from fathom.measure.serving.search import MOST_TRIALS

    runs = f"up to {MOST_TRIALS} runs" if plan.searches else "one run"
    results: list[ServingResult] = []
    batchings = _BATCHINGS[args.batching]
    for name, service in scenarios.services(
        model, batchings, _cache_bytes(args), plan.arrivals, args.url
    ):
        screen.print(
            f"{args.workload}, {args.scenario}, {args.url or f'{name} batching'}: batches of at "
            f"most {service.limit}, {runs} of at least {args.duration:g} s"
        )
        folder = out / name if results else out
        result = scenarios.measure(model, service, plan, folder, screen.print)
        result = result.model_copy(update={"batching": name, "url": args.url})
        result.write(folder / "serving.json")
        _show(result, screen)
        screen.print(f"written: {folder / 'serving.json'}, the logs of its runs beside it")
        results.append(result)
    return results


def _plan(args: argparse.Namespace) -> "Plan":
    from fathom.measure.serving.arrivals import Gamma, Trace, read_trace
    from fathom.measure.serving.loadgen import find
    from fathom.measure.serving.scenarios import Plan

    bounds = {
        "latency": args.latency_bound,
        "first_token": args.ttft_bound,
        "output_token": args.tpot_bound,
    }
    seconds = {name: bound / 1e3 for name, bound in bounds.items() if bound}
    arrivals: Gamma | Trace | None = None
    if args.trace:
        arrivals = read_trace(args.trace)
    elif args.burst:
        arrivals = Gamma(args.burst)
    else:
        find()
    return Plan(args.scenario, args.duration, args.rate, Bounds(**seconds), arrivals)


def _check(args: argparse.Namespace) -> None:
    """Raises FathomError for options that do not go together."""
    of_server = ("rate", "latency_bound", "ttft_bound", "tpot_bound", "trace", "burst")
    if args.scenario != "server":
        refuse(args, of_server, f"is of the scenario server, not {args.scenario}")
    elif args.latency_bound and (args.ttft_bound or args.tpot_bound):
        raise FathomError("give --latency-bound, or --ttft-bound and --tpot-bound of written text")
    elif bool(args.ttft_bound) != bool(args.tpot_bound):
        raise FathomError("give --ttft-bound and --tpot-bound together")
    if (args.rate or 0) * args.duration > _MOST_QUERIES:
        raise FathomError(
            f"--rate {args.rate:g} and --duration {args.duration:g} are more than "
            f"{_MOST_QUERIES:,} queries: give less"
        )
    if args.url:
        refuse(args, ("batching", "cache"), "is of a server in this process, not of --url")
        if not args.url.startswith(("http://", "https://")):
            raise FathomError(f"--url {args.url} does not begin with http:// or https://")


def _check_bounds(model: "NeuralNetworkModel", args: argparse.Namespace) -> None:
    """Raises FathomError for the bounds of another kind of inference, or none."""
    writes_text = model.token_decoder() is not None
    _require_text(model, args, ("batching", "cache", "ttft_bound", "tpot_bound"))
    if writes_text:
        reason = f"is not of {args.workload}, which writes text: give --ttft-bound and --tpot-bound"
        refuse(args, ("latency_bound",), reason)
    if args.scenario == "server" and not (
        args.latency_bound or args.ttft_bound or args.trace or (args.burst and args.rate)
    ):
        bounds = "--ttft-bound MS and --tpot-bound MS" if writes_text else "--latency-bound MS"
        raise FathomError(f"the scenario server of {args.workload} needs {bounds}")


def _require_text(
    model: "NeuralNetworkModel", args: argparse.Namespace, options: tuple[str, ...]
) -> None:
    """Raises FathomError for options of text if the model writes none, else for its choices."""
    if model.token_decoder() is None:
        refuse(args, options, f"is of workloads that write text, not of {args.workload}")
        return
    for name in ("temperature", "top_k", "top_p", "draft_layers", "draft_tokens"):
        if any(assignment.startswith(f"{name}=") for assignment in args.set):
            raise FathomError(
                f"--set {name} has no effect: a service decodes token by token, the most probable "
                "ones unless a request asks for others"
            )


def _cache_bytes(args: argparse.Namespace) -> int | None:
    return int(args.cache * _MIB) if args.cache else None


def _judge(result: ServingResult) -> str:
    judge = "LoadGen's verdict" if result.arrivals == "LoadGen" else "the run"
    return f"{judge} on {result.batching} batching" if result.batching == "static" else judge


def _show(result: ServingResult, screen: Console) -> None:
    """Prints the percentiles of the trial that counts, and what the server did."""
    trial = result.result
    titles = ("ms", *trial.latency)
    table = new_table(titles, titles)
    for name, seconds in (
        ("latency", trial.latency),
        ("first token", trial.first_token),
        ("each next token", trial.output_token),
    ):
        if seconds:
            table.add_row(name, *(f"{1e3 * value:,.4g}" for value in seconds.values()))
    screen.print(table)
    rates = [f"{trial.samples_per_second:,.4g} samples/s"]
    if trial.tokens_per_second:
        rates.append(f"{trial.tokens_per_second:,.4g} tokens/s")
    if trial.batches:
        mean = np.average(list(map(int, trial.batches)), weights=list(trial.batches.values()))
        rates.append(f"batches of {mean:.3g} in the mean")
    if trial.goodput is not None:
        rates.append(f"goodput {trial.goodput:,.4g} queries/s")
    verdict = "VALID" if trial.valid else "INVALID"
    queries = f"{trial.queries:,} {'query' if trial.queries == 1 else 'queries'}"
    screen.print(f"{queries}, {', '.join(rates)}; {result.arrivals}: {verdict}")
    if result.trials:
        screen.print(f"highest rate within {_bounds(result)}: {trial.rate:,.4g} queries/s")


def _bounds(result: ServingResult) -> str:
    names = {"latency": "", "first_token": " to the first token", "output_token": " per next token"}
    given = result.bounds.given().items()
    return " and ".join(f"{1e3 * bound:g} ms{names[name]}" for name, bound in given)


def _compare(results: list[ServingResult], screen: Console) -> None:
    """Prints the highest rates of the two kinds of batching side by side."""
    if len(results) < 2 or not results[0].bounds.given():
        return
    rates = [result.result.rate if result.trials else result.result.goodput for result in results]
    texts = [f"{result.batching} {rate:,.4g}" for result, rate in zip(results, rates, strict=True)]
    ratio = f", {rates[0] / rates[1]:.3g} times as much" if rates[0] and rates[1] else ""
    screen.print(f"goodput within {_bounds(results[0])}, queries/s: {', '.join(texts)}{ratio}")
