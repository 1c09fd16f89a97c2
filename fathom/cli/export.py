"""``fathom export``: writes a workload in the format of another tool."""

import argparse
from pathlib import Path

from rich.console import Console

from fathom import exports, workloads
from fathom.cli.command import refuse
from fathom.cli.describe import describe, refuse_sizes, step_of, with_zeros
from fathom.cli.parser import init_options
from fathom.cli.terminal import import_tensorflow
from fathom.errors import FathomError, require
from fathom.exports import ExportOptions, Format, NetworkFormat
from fathom.exports.format import write
from fathom.hardware import networks
from fathom.hardware.accelerators.plan import checked, parse
from fathom.options import precision_traits
from fathom.system.files import user_path
from fathom.system.folders import require_replaceable, whole_folder
from fathom.system.words import counted

_ANNOUNCED = 1e9  # bytes
_TAKEN_BY = {  # what a format must have for an option, and what the others hold
    "workers": ("has_collectives", "no collectives"),
    "parallelism": ("has_collectives", "no collectives"),
    "sparsity": ("has_densities", "no zeros"),
    "stepwise": ("has_steps", "whole networks"),
    "profile": ("has_times", "no times"),
    "checkpoint_dir": ("has_weights", "no weights"),
}


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    if args.to == "list":
        for name in exports.names():
            screen.print(f"{name}: {exports.find(name).about}")
        return
    to = exports.find(args.to)
    for option, (needed, held) in _TAKEN_BY.items():
        if option in args.given and not getattr(to, needed, False):
            raise FathomError(f"{args.to} holds {held}: omit --{option.replace('_', '-')}")
    _check_ranks(args)
    if args.target and args.target not in (targets := getattr(to, "targets", ())):
        remedy = f"choose of {', '.join(targets)}" if targets else "omit --target"
        raise FathomError(f"{args.to} cannot be for {args.target}: {remedy}")
    if args.workload is None:
        raise FathomError("name the workload to export")
    out = args.out or Path(f"{Path(args.workload).stem}-{args.to}")
    if networks.is_file(args.workload) and not isinstance(to, Format):
        raise FathomError(f"{args.to} is of a workload's network: of a file, export its work")
    require_replaceable(out, "export", args.force)
    if isinstance(to, Format):
        left_out = _export_work(to, args, out, screen)
    else:
        left_out = _export_network(to, args, out, screen)
    for line in left_out:
        screen.print(f"not expressed: {line}")
    screen.print(f"written: {out}")


def _export_work(
    to: Format, args: argparse.Namespace, out: Path, screen: Console
) -> tuple[str, ...]:
    """Exports the description of the step; returns what the format cannot express."""
    description = with_zeros(describe(args), args)
    exported = to.export(description)
    with whole_folder(out, "export", args.force) as folder:
        write(exported, folder)
    size = sum(len(text) for text in exported.files.values())
    screen.print(
        f"{step_of(description)}: {counted(len(exported.files), 'file')}, {size / 1e3:,.0f} kB"
    )
    return exported.left_out


def _export_network(
    to: NetworkFormat, args: argparse.Namespace, out: Path, screen: Console
) -> tuple[str, ...]:
    """Exports the network, or its step; returns what the format cannot express."""
    refuse_sizes(args)
    require(args.to, "exports", *to.packages)
    if args.train and not to.trains:
        raise FathomError(f"{args.to} holds no training step: omit --train")
    import_tensorflow()
    model_class = workloads.load(args.workload, forward_only=args.infer or not to.trains)
    options = init_options(args, model_class) | {"xla": to.xla}
    model = model_class("cpu", options)
    precision = model.execution.precision
    if precision_traits(precision).fixed:
        raise FathomError(f"{args.to} holds no fixed point: omit --precision {precision}")
    if args.workers > 1:
        size = model.hyperparameters.batch_size
        if size % args.workers:
            raise FathomError(f"a batch of {size} cannot be divided among {args.workers} workers")
        model = model_class("cpu", options | {"batch_size": size // args.workers})
    if args.checkpoint_dir is None:
        model.build()
    else:
        if not any(user_path(args.checkpoint_dir).glob("ckpt-*.index")):
            raise FathomError(f"nothing to restore: {args.checkpoint_dir} holds no checkpoint")
        resume = not model.forward_only
        model.setup({"checkpoint_dir": args.checkpoint_dir, "resume": resume})
        for note in model.notes:
            screen.print(note)
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
    screen.print(
        f"{args.workload}, {model.mode}: {counted(len(sizes), 'file')}, {sum(sizes) / 1e3:,.0f} kB"
    )
    return left_out


def _check_ranks(args: argparse.Namespace) -> None:
    if not args.parallelism:
        refuse(args, ["rank"], "is a node of a plan: give --parallelism")
        return
    plan = checked(parse(args.parallelism)[0])
    refuse(args, ["workers", "profile"], "has no effect with --parallelism: omit it")
    if args.rank is not None and args.rank >= plan.nodes:
        raise FathomError(f"there are {plan.nodes:,} nodes, from 0: --rank {args.rank} is none")
