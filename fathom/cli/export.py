"""``fathom export``: writes a workload in the format of another tool."""

import argparse
from pathlib import Path

from rich.console import Console

from fathom import exports, workloads
from fathom.cli.describe import describe, step_of, with_zeros
from fathom.cli.parser import init_options
from fathom.cli.terminal import import_tensorflow
from fathom.errors import FathomError, require
from fathom.exports import ExportOptions, Format, NetworkFormat
from fathom.exports.format import write
from fathom.hardware import networks
from fathom.hardware.accelerators.plan import checked, parse
from fathom.options import precision_traits
from fathom.system.folders import require_replaceable, whole_folder

_ANNOUNCED = 1e9  # bytes


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    if args.to == "list":
        for name in exports.names():
            screen.print(f"{name}: {exports.find(name).about}")
        return
    to = exports.find(args.to)
    if args.workers > 1 and not getattr(to, "has_collectives", False):
        raise FathomError(f"{args.to} holds no collectives: omit --workers")
    if args.sparsity and not getattr(to, "has_densities", False):
        raise FathomError(f"{args.to} holds no zeros: omit --sparsity")
    _check_ranks(to, args)
    if args.stepwise and not getattr(to, "has_steps", False):
        raise FathomError(f"{args.to} holds whole networks: omit --stepwise")
    if args.target and args.target not in (targets := getattr(to, "targets", ())):
        remedy = f"choose of {', '.join(targets)}" if targets else "omit --target"
        raise FathomError(f"{args.to} cannot be for {args.target}: {remedy}")
    if args.profile and not getattr(to, "has_times", False):
        raise FathomError(f"{args.to} holds no times: omit --profile")
    if args.workload is None:
        raise FathomError("name the workload to export")
    out = args.out or Path(f"{Path(args.workload).stem}-{args.to}")
    if networks.is_file(args.workload) and not isinstance(to, Format):
        raise FathomError(f"{args.to} is of a workload's network: of a file, export its work")
    require_replaceable(out, "export", args.force)
    if isinstance(to, Format):
        _export_work(to, args, out, screen)
    else:
        _export_network(to, args, out, screen)
    screen.print(f"written: {out}")


def _export_work(to: Format, args: argparse.Namespace, out: Path, screen: Console) -> None:
    """Exports the description of the step."""
    if args.checkpoint_dir:
        raise FathomError(f"{args.to} holds no weights: omit --checkpoint-dir")
    description = with_zeros(describe(args), args)
    exported = to.export(description)
    with whole_folder(out, "export", args.force) as folder:
        write(exported, folder)
    size = sum(len(text) for text in exported.files.values())
    screen.print(f"{step_of(description)}: {len(exported.files)} files, {size / 1e3:,.0f} kB")
    _show_left_out(exported.left_out, screen)


def _export_network(
    to: NetworkFormat, args: argparse.Namespace, out: Path, screen: Console
) -> None:
    """Exports the network, or its step."""
    require(args.to, "exports", *to.packages)
    if args.train and not to.trains:
        raise FathomError(f"{args.to} holds no training step: omit --train")
    import_tensorflow()
    forward_only = args.infer or not to.trains
    model_class = workloads.load(args.workload, forward_only)
    options = init_options(args, model_class)
    options["xla"] = to.xla
    model = model_class("cpu", options)
    precision = model.execution.precision
    if precision_traits(precision).fixed:
        raise FathomError(f"{args.to} holds no fixed point: omit --precision {precision}")
    if args.workers > 1:
        options["batch_size"] = _part(model.hyperparameters.batch_size, args.workers)
        model = model_class("cpu", options)
    if args.checkpoint_dir is None:
        model.build()
    elif to.has_weights:
        model.setup({"checkpoint_dir": args.checkpoint_dir})
        for note in model.notes:
            screen.print(note)
    else:
        raise FathomError(f"{args.to} holds no weights: omit --checkpoint-dir")
    size = 4 * model.network.count_params()
    if to.has_weights and size > _ANNOUNCED:
        screen.print(f"the weights take {size / 1e9:,.1f} GB")
    with whole_folder(out, "export", args.force) as folder:
        given = ExportOptions(
            *(args.batch_size, args.length, args.profile, args.workers, args.stepwise),
            *(parse(args.parallelism)[0] if args.parallelism else None, args.rank),
            args.target,
        )
        left_out = to.save(model, folder, given)
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    mode = "infer" if forward_only else "train"
    screen.print(f"{args.workload}, {mode}: {len(sizes)} files, {sum(sizes) / 1e3:,.0f} kB")
    _show_left_out(left_out, screen)


def _check_ranks(to: Format | NetworkFormat, args: argparse.Namespace) -> None:
    if not args.parallelism:
        if args.rank is not None:
            raise FathomError("--rank is a node of a plan: give --parallelism")
        return
    if not getattr(to, "has_collectives", False):
        raise FathomError(f"{args.to} holds no collectives: omit --parallelism")
    plan = checked(parse(args.parallelism)[0])
    for name in ("workers", "profile"):
        if getattr(args, name) not in (1, None):
            raise FathomError(f"--{name} has no effect with --parallelism: omit it")
    if args.rank is not None and args.rank >= plan.nodes:
        raise FathomError(f"there are {plan.nodes:,} nodes, from 0: --rank {args.rank} is none")


def _part(batch_size: int, workers: int) -> int:
    """Returns the examples of one worker, of a batch that all share."""
    if batch_size % workers:
        raise FathomError(f"a batch of {batch_size} cannot be divided among {workers} workers")
    return batch_size // workers


def _show_left_out(lines: tuple[str, ...], screen: Console) -> None:
    for line in lines:
        screen.print(f"not expressed: {line}")
