"""The command lines of ``fathom describe``, ``export``, ``sparsity`` and the models of machines.

Commands import their code when they run, so that ``--help`` is fast.
"""

import functools
from pathlib import Path
from typing import Any

from fathom import workloads
from fathom.cli import sweep
from fathom.cli.command import Commands, add_command
from fathom.cli.parser import Parser, add_options, checked, input_path, number, numbers, output_file
from fathom.hardware import networks
from fathom.system.files import named_path

_MOST_NODES = 1_000_000
_MACHINE_COMMANDS = {
    "roofline": "bound a workload's operations on a machine, without running anything",
    "explore": "find the best tilings of a workload's convolutions on an accelerator",
    "scale": "predict time, rate and energy on several nodes of a machine",
}


def add_commands(commands: Commands) -> None:
    """Adds the commands to the subparsers of ``python -m fathom``."""
    describe = add_command(commands, "describe", "cli.describe", "list the work of a step")
    _add_work(describe)
    add_options(describe, "precision")
    add_options(describe, "json", help="write the description as JSON; - prints it")
    _add_sweep(describe)
    _add_zeros(describe)
    text = "write one line per operation, or per step of a sweep"
    describe.add_argument("--csv", type=output_file, metavar="FILE", help=text)
    nearest = add_command(commands, "nearest", "cli.nearest", "find the workloads most like it")
    _add_work(nearest)
    add_options(nearest, "json", help="write the distances as JSON; - prints them")
    text = "draw the map of the workloads, with it among them"
    nearest.add_argument("--svg", type=output_file, metavar="FILE", help=text)
    export = add_command(commands, "export", "cli.export", "write it in another tool's format")
    _add_work(export, nargs="?")
    add_options(export, "precision", "data-dir")
    _add_zeros(export)
    add_options(export, "checkpoint-dir", help="weights, for formats that hold them")
    text = "folder of fathom profile --out, for formats with times"
    export.add_argument("--profile", type=input_path, metavar="DIR", help=text)
    text = "workers that share the batch of training, for formats with collectives"
    export.add_argument("--workers", type=number(int, minimum=1), default=1, metavar="N", help=text)
    text = "how the nodes share the step, as of scale, for formats with collectives"
    export.add_argument("--parallelism", metavar="data=8,...", help=text)
    text = "this node of --parallelism alone; default: all"
    export.add_argument("--rank", type=number(int, minimum=0), metavar="N", help=text)
    text = "the encoder or prefill, and one step of the decoder, not the loop over the words"
    export.add_argument("--stepwise", action="store_true", help=text)
    text = "machine of a program: x86_64 (default), x86_64_v3 (AVX2), aarch64, riscv64"
    export.add_argument("--target", metavar="MACHINE", help=text)
    export.add_argument("--to", required=True, metavar="FORMAT", help="list names the formats")
    add_options(export, "out", help="new folder; default: WORKLOAD-FORMAT")
    export.add_argument("--force", action="store_true", help="replace the folder")
    text = "write the memory accesses of a step, for simulators of memory"
    _add_traces(add_command(commands, "trace-memory", "cli.traces", text))
    text = "count the zeros of a workload's tensors by layer, and prune its weights"
    _add_sparsity(add_command(commands, "sparsity", "cli.sparsity", text))
    text = "run an exported network in int8, against float32"
    _add_int8(add_command(commands, "int8", "cli.int8", text))
    for name, text in _MACHINE_COMMANDS.items():
        _add_machine(add_command(commands, name, "cli.accelerators", text, name), name)
    _add_predictions(commands)


def _add_predictions(commands: Commands) -> None:
    text = "measure this machine, for roofline, scale and predict"
    parser = add_command(commands, "calibrate", "cli.predict", text, "calibrate")
    text = "folder of fathom characterize on this machine: its steps, for predict"
    parser.add_argument("folder", nargs="?", type=input_path, metavar="DIR", help=text)
    add_options(parser, "threads", default=1, help="default: %(default)s")
    text = "the machine file to write"
    parser.add_argument("--out", type=output_file, required=True, metavar="FILE", help=text)
    text = "predict the time of a step, with an interval, without running it"
    parser = add_command(commands, "predict", "cli.predict", text)
    parser.add_workload()
    _add_step(parser)
    text = "file of fathom calibrate"
    parser.add_argument("--machine", required=True, metavar="FILE", help=text)


@checked
def _work(text: str) -> str:
    """Is the argparse type of a workload's name, or of a network's file or folder."""
    is_model = text not in workloads.names() and (Path(text) / "saved_model.pb").is_file()
    if not is_model and not networks.is_file(text):
        return workloads.checked_name(text)
    path = str(named_path(text))
    return path if networks.is_file(path) else f"./{path}"


@checked
def _size(text: str) -> tuple[str, int]:
    """Is the argparse type of a size by name."""
    name, _, value = text.rpartition("=")
    if not name or not value.isdecimal() or int(value) >= 2**31:
        raise ValueError(f"must be NAME=N, as batch=8, not {text}")
    return name, int(value)


def _add_work(parser: Parser, **changes: Any) -> None:
    """Adds the options that choose the step to describe."""
    text = "a workload's name, as fathom list shows, or a network's file; see docs/networks.md"
    parser.add_workload(type=_work, help=text, **changes)
    text = "a size that the file leaves open, as batch=8"
    add = parser.add_argument
    add("--dim", type=_size, action="append", default=[], metavar="NAME=N", help=text)
    _add_step(parser)


def _add_step(parser: Parser) -> None:
    """Adds the options of a step of a workload."""
    parser.add_mode()
    add_options(parser, "batch-size", "dataset", "set")
    text = "length of the examples, for workloads where it varies: frames, or words of the source"
    parser.add_argument("--length", type=number(int, minimum=1), metavar="N", help=text)


def _add_sweep(parser: Parser) -> None:
    text = "one row for each value of a hyperparameter or the length; NAME=A:B:xF multiplies by F"
    add, of = parser.add_argument, checked(sweep.values)
    add("--sweep", type=of, action="append", default=[], metavar="NAME=A,B,...", help=text)


def _add_zeros(parser: Parser) -> None:
    text = "zeros of the step's tensors, as fathom sparsity --csv writes them"
    parser.add_argument("--sparsity", type=input_path, metavar="FILE", help=text)


def _add_traces(parser: Parser) -> None:
    parser.add_workload()
    _add_step(parser)
    add_options(parser, "data-dir")
    add = parser.add_argument
    text = "trace the bare program in this folder of fathom export, built with ROI=VALGRIND"
    add("--program", type=input_path, metavar="DIR", help=text)
    text = "simulator that reads it; default: %(default)s"
    forms = ("ramulator2", "dramsim3", "champsim")
    add("--format", choices=forms, default=forms[0], help=text)
    text = "results share memory by lifetime (arena, default), or each has its own (plain)"
    add("--layout", choices=("arena", "plain"), default="arena", help=text)
    text = "write N intervals that stand for the trace, with weights; default: the whole trace"
    add("--intervals", type=number(int, minimum=1), metavar="N", help=text)
    add_options(parser, "out", help="new folder; default: WORKLOAD-trace")
    add("--force", action="store_true", help="replace the folder")


def _add_sparsity(parser: Parser) -> None:
    parser.add_workload()
    parser.add_mode()
    add_options(parser, "steps", default=20, help="steps of the run; default: %(default)s")
    add_options(parser, "batch-size", "threads", "dataset", "data-dir", "seed", "set")
    add_options(parser, "checkpoint-dir", help="with --infer: the checkpoints to load")
    share = number(float, above=0, maximum=1)
    shares = checked(lambda text: [share(each) for each in text.split(",")])
    text = "prune to these shares of the weights after the run, and evaluate"
    add = parser.add_argument
    add("--density", type=shares, metavar="0.5,...", help=text)
    add("--csv", type=output_file, metavar="FILE", help="write the table")


def _add_int8(parser: Parser) -> None:
    parser.add_workload()
    text = "the network in ONNX, as fathom export --to onnx writes it"
    parser.add_argument("--network", type=input_path, required=True, metavar="FILE", help=text)
    add_options(parser, "steps", default=5, help="steps of each turn; default: %(default)s")
    add_options(parser, "batch-size", "threads", "dataset", "data-dir", "seed", "set")
    add_options(parser, "checkpoint-dir", help="the checkpoints that the export loaded")
    text = "also evaluate each network on the test data"
    parser.add_argument("--evaluate", action="store_true", help=text)


def _add_machine(parser: Parser, command: str) -> None:
    _add_work(parser, **({"nargs": "?"} if command == "explore" else {}))
    add = parser.add_argument
    text = "a machine's name, as in docs/accelerators.md, or a JSON file that describes one"
    add("--machine", required=True, metavar="NAME|FILE", help=text)
    text = "of fathom describe, instead of tracing"
    add("--description", type=input_path, metavar="FILE", help=text)
    if command != "explore":
        text = "type of number, one of the machine's; default: that of the step"
        add("--precision", metavar="TYPE", help=text)
        text = (
            "count the operations of a layer between its products as one (elementwise), or with "
            "the products of its heads too (attention)"
        )
        add("--fusion", choices=("elementwise", "attention"), help=text)
    if command == "roofline":
        _add_sweep(parser)
        _add_zeros(parser)
    if command == "scale":
        text = "numbers of nodes; default: of 1,9,64 those with an example each, or --parallelism's"
        of = checked(functools.partial(numbers, most=_MOST_NODES))
        add("--nodes", type=of, metavar="1,9,...", help=text)
        text = (
            "what the nodes share besides the examples, as degrees of data, tensor, pipeline, "
            "expert, sharded, microbatches, interleaved; and sequence, recompute"
        )
        add("--parallelism", default="", metavar="tensor=8,...", help=text)
        text = "weak scaling: the examples of the step are those of one part of the nodes' batch"
        add("--weak", action="store_true", help=text)
        text = "share of the computation that can hide sums of gradients; default: 0"
        add("--overlap", type=number(float, minimum=0, maximum=1), default=0.0, help=text)
    if command == "explore":
        text = "these layers of the workload alone; or those of a CSV file with SCALE-Sim's columns"
        add("--layers", metavar="A,B|FILE", help=text)
    add("--csv", type=output_file, metavar="FILE", help="write the table")
    if command != "scale":
        add("--svg", type=output_file, metavar="FILE", help="draw it under the machine's roofs")
