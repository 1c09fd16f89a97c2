"""``fathom describe``: lists the work of one step of a workload, without running it."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pandas as pd
from rich.console import Console

from fathom.cli import sweep
from fathom.cli.command import build_model, refuse, write_csv, write_json
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.errors import FathomError
from fathom.hardware import networks
from fathom.hardware.description import sparsity
from fathom.hardware.description.memory import peak_bytes
from fathom.results.description import Description

OF_A_STEP = ("train", "infer", "batch_size", "dataset", "data_dir", "set", "length")
"""The options that choose a workload's step."""

_SUMS = ["macs", "flops", "input_bytes", "weight_bytes", "output_bytes"]


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    if args.sweep:
        refuse(args, ["sparsity"], "is of one step: omit it with --sweep")
        write_csv(sweep.table(args, screen, describe, sweep.work), args.csv, screen)
        return
    description = with_zeros(describe(args), args)
    write_json(description, args.json, screen)
    _show(description, screen)
    write_csv(description.frame(), args.csv, screen)


def describe(args: argparse.Namespace) -> Description:
    """Returns the description of the chosen workload's step, or of the network in a file.

    Raises:
        FathomError: an invalid option, or a file that cannot be described.
    """
    if networks.is_file(args.workload):
        refuse(args, OF_A_STEP, "is of a workload: omit it")
        if "precision" in args.given and args.precision:  # None where a machine takes it
            raise FathomError("--precision is of a workload: a file has its own numbers")
        path = Path(args.workload)
        if networks.needs_tensorflow(path):
            import_tensorflow()
        return networks.read(path, dict(args.dim))
    refuse_sizes(args)
    return build_model(args, args.infer).describe(args.length)


def refuse_sizes(args: argparse.Namespace) -> None:
    """Raises FathomError if a workload has the open sizes of a network's file."""
    refuse(args, ["dim"], "is of a network's file: a workload has --set")


def with_zeros(description: Description, args: argparse.Namespace) -> Description:
    """Returns a description with the zeros of ``--sparsity``, if it was given."""
    if args.sparsity is None:
        return description
    return sparsity.measured(description, sparsity.read(args.sparsity))


def step_of(description: Description) -> str:
    """Returns which step is described, in words."""
    return f"{description.workload}, {description.mode}, batch size {description.batch_size}"


def _giga(number: float) -> str:
    """Returns billions in words, small numbers with three digits."""
    return f"{number / 1e9:,.3f}" if number >= 1e8 or not number else f"{number / 1e9:.3g}"


def _show(description: Description, screen: Console) -> None:
    """Prints the totals, and the sums by phase and kind."""
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in description.inputs.items())
    screen.print(f"{step_of(description)}, {description.precision}: {shapes}")
    numbers = ["operations", "GMACs", "other GFLOPs", "MB read", "MB of weights", "MB written"]
    table = new_table(["phase", "kind", *numbers], numbers)
    groups = description.frame().groupby(["phase", "kind"], sort=False)
    for (phase, kind), rows in cast("Iterable[tuple[tuple[str, str], pd.DataFrame]]", groups):
        macs, flops, *read = rows[_SUMS].sum()
        work = _giga(macs), _giga(flops)
        table.add_row(phase, kind, f"{len(rows):,}", *work, *(_giga(1e3 * n) for n in read))
    screen.print(table)
    products = description.frame().groupby("dtype").macs.sum()
    by_type = ", ".join(f"{_giga(macs)} {name}" for name, macs in products.items() if macs)
    screen.print(f"GMACs by number format: {by_type or 'none'}")
    intensity = description.total_flops / max(1, description.traffic_bytes)
    screen.print(
        f"{len(description.operations):,} operations, {_giga(description.macs)} GMACs, "
        f"{_giga(description.total_flops)} GFLOPs, {_giga(description.traffic_bytes)} GB "
        f"if none reuses another's data: {intensity:.2f} FLOPs per byte"
    )
    for name in description.without_rule:
        share = description.share_without_rule(name)
        screen.print(f"no rule for {name}: {share:.1%} of the bytes, its arithmetic is not counted")
    most, held = peak_bytes(description), description.held_bytes
    if most is not None and held is not None:
        screen.print(
            f"at most {_giga(1e3 * most)} MB held at once, without scratch memory within "
            f"operations: {_giga(1e3 * held)} for the whole step (variables, constants, the "
            "batch), the rest for results until they have been read"
        )
