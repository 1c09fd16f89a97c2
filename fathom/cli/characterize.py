"""The command lines of ``fathom profile``, ``characterize``, ``report`` and ``compare``.

Commands import their code when they run, so that ``--help`` is fast.
"""

import argparse
import dataclasses
from pathlib import Path

from rich.console import Console

from fathom.cli.command import Commands, add_command, refuse
from fathom.cli.parser import (
    MODEL_OPTIONS,
    Parser,
    add_options,
    batch_sizes,
    checked,
    input_path,
    names,
    number,
    numbers,
)
from fathom.options import DEVICE_KINDS
from fathom.system.files import named_path

_MINUTES = number(float, above=0, maximum=1e6)  # as long as a timer can wait
_SHORTEST_LIFE = 5  # steps: four batches are held, and the first step is in no window


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    text = "show where a workload's time goes"
    _add_profile(add_command(commands, "profile", "cli.profile", text))
    text = "measure the suite, for fathom report"
    _add_characterize(
        add_command(commands, "characterize", "cli.characterize", text, "characterize")
    )
    text = "draw the papers' figures from measurements"
    parser = add_command(commands, "report", "cli.characterize", text, "report")
    text = "results directory of fathom characterize"
    parser.add_argument("directory", type=input_path, metavar="DIR", help=text)
    add_options(parser, "out", help="default: DIR/report")
    text = "compare measurements, or two variants by alternating runs"
    _add_compare(add_command(commands, "compare", "cli.characterize", text, "compare"))


def characterize(args: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom characterize``; see ``runner.run``."""
    from fathom.measure.runs import runner
    from fathom.measure.runs.request import Wanted

    fields = dataclasses.fields(Wanted)
    wanted = Wanted(**{field.name: getattr(args, field.name) for field in fields})
    runner.run(wanted, args.out, args.budget, screen)


def report(args: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom report``; see ``report.run``."""
    from fathom.measure.report.report import run

    run(args.directory, args.out or args.directory / "report", screen)


def compare(args: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom compare``; see ``compare_folders`` and ``interleave``."""
    from fathom.measure.report.compare import compare_folders, interleave

    sides = [args.base, *args.others]
    if args.interleave:
        interleave(sides, args.width / 100, 60 * args.budget, args.out, screen)
        return
    refuse(args, ("width", "budget", "out"), "is an option of --interleave")
    compare_folders([named_path(side) for side in sides], screen)


def _add_profile(parser: Parser) -> None:
    text = "its name (fathom list shows all); or the folder of an earlier profile, to show it again"
    parser.add_argument("workload", help=text)
    parser.add_mode()
    add_options(parser, "steps", default=20, help="steps to profile; default: %(default)s")
    text = "also trace short windows over a run of N steps on fresh batches"
    parser.add_argument("--life", type=number(int, minimum=_SHORTEST_LIFE), metavar="N", help=text)
    add_options(parser, *(name for name in MODEL_OPTIONS if name != "inter-op-threads"))
    text = "inter-op threads, the operations at once; default: one, so that their times add up"
    add_options(parser, "inter-op-threads", default=1, help=text)
    add_options(parser, "microbatches")
    add_options(parser, "out", help="write profile, tables and trace to this folder")
    text = "compare with the profile in this folder, op type by op type and op by op"
    parser.add_argument("--against", type=input_path, metavar="DIR", help=text)
    # For fathom characterize: write only profile.json and the raw trace.
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)


def _add_characterize(parser: Parser) -> None:
    add = parser.add_argument
    add_options(parser, "workloads", "modes")
    text = "cpu, gpu or both; default: the CPU, and a GPU if any"
    add("--devices", type=names("device", DEVICE_KINDS), metavar="A,B", help=text)
    text = "intra-op thread counts for training profiles; default: 1, 2, 4, ... cores"
    add_options(parser, "threads", type=checked(numbers), metavar="1,2,...", help=text)
    add_options(parser, "steps", help="steps per run; default: 20")
    count = number(int)
    text = "whole training runs per workload; default: 200; with --batches runs per size, 1"
    add("--repeats", type=count, metavar="N", help=text)
    add("--warmup-runs", type=count, metavar="N", help="whole runs before those; default: 10")
    text = (
        "processes per profile, inference timing and timing on fewer cores; below 2 there are no "
        "intervals; default: 3, or 1 with --quick"
    )
    add("--profile-repeats", type=number(int, minimum=1), metavar="N", help=text)
    add_options(parser, "precision")
    batches = parser.add_mutually_exclusive_group()
    add_options(batches, "batch-size")
    text = (
        "time each workload at these batch sizes, and make no other runs; default of the list: "
        "1, 2, 4, ... 256, with --quick 1, 4, 16, 64"
    )
    kind = checked(batch_sizes)
    batches.add_argument("--batches", nargs="?", const=[], type=kind, metavar="1,2,...", help=text)
    text = (
        "train with these numbers of workers of one thread, and make no other runs: the workers "
        "share --batch-size, then each has as much; and one worker of as many threads"
    )
    add("--workers", type=checked(numbers), metavar="1,2,...", help=text)
    text = "start no new runs after MINUTES"
    add("--budget", type=_MINUTES, metavar="MINUTES", help=text)
    text = (
        "few steps, 2 repeats, one process per profile, small batches for the large networks: "
        "the eight take 13 minutes on two fast cores, and more than half an hour on slow ones"
    )
    add("--quick", action="store_true", help=text)
    text = "results directory; runs that it already has are not repeated; default: %(default)s"
    add_options(parser, "out", default=Path("characterization"), help=text)


def _add_compare(parser: Parser) -> None:
    add = parser.add_argument
    add("base", metavar="A", help="results directory that the others are compared with")
    add("others", nargs="+", metavar="B", help="results directories")
    text = (
        "A and B are commands of runs, in quotes: run them in turn, each time in a new process, "
        "until the ratio of their step times is known"
    )
    add("--interleave", action="store_true", help=text)
    text = "end when the ratio's 95 %% interval is narrower than PERCENT of it; default: 2"
    add("--width", type=number(float, above=0), default=2.0, metavar="PERCENT", help=text)
    text = "end after MINUTES at the latest; default: 30"
    add("--budget", type=_MINUTES, default=30.0, metavar="MINUTES", help=text)
    text = "folder for the results of all runs; default: results/<date and time>"
    add_options(parser, "out", help=text)
