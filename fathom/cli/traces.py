"""``fathom trace-memory``: the memory accesses of a step, for simulators of memory and caches."""

import argparse
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

from fathom.cli.command import build_model, refuse
from fathom.cli.describe import OF_A_STEP
from fathom.cli.terminal import new_table
from fathom.hardware.traces import formats, instructions, intervals, reuse
from fathom.hardware.traces.block import Block
from fathom.system.folders import require_replaceable, whole_folder

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

Blocks = Callable[[], Iterable[Block]]
Layers = list[str]


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the command with its parsed arguments."""
    out = args.out or Path(f"{args.workload}-trace")
    require_replaceable(out, "trace-memory", args.force)
    if args.program:
        from fathom.hardware.traces import valgrind

        without = "is of a traced step: omit it with --program"
        refuse(args, [*OF_A_STEP, "layout"], without)
        layers, tensors = valgrind.layers_of(args.program, args.workload), None
        trace: Blocks = partial(valgrind.blocks, args.program, args.workload)
    else:
        trace, layers, tensors = _of_step(args, screen)
    parts = reuse.measure(trace, layers)
    table = reuse.summary(*parts)
    with whole_folder(out, "trace-memory", args.force) as folder:
        if tensors is not None:
            tensors.to_csv(folder / "tensors.csv", index=False)
        _write(trace, args, folder, screen)
        table.to_csv(folder / "summary.csv", index=False)
        reuse.histogram(*parts).to_csv(folder / "distances.csv", index=False)
        if args.program:
            mix = instructions.mix(args.program, args.workload)
            mix.to_csv(folder / "instructions.csv", index=False)
        reuse.draw(table, args.workload, folder / "misses.svg")
    _show(table, screen)
    screen.print(f"written: {out}")


def _write(trace: Blocks, args: argparse.Namespace, folder: Path, screen: Console) -> None:
    """Writes the whole trace, or the intervals that stand for it."""
    form = formats.FORMATS[args.format]
    if not args.intervals:
        count = formats.write(trace(), form, folder / f"trace.{form.suffix}")
        screen.print(f"{count:,} accesses")
        return
    chosen = intervals.choose(trace(), args.intervals)
    wanted = set(chosen.interval)
    for number, pieces in itertools.groupby(intervals.pieces(trace()), lambda piece: piece[0]):
        if number in wanted:
            blocks = (block for _, block in pieces)
            formats.write(blocks, form, folder / f"trace-{number}.{form.suffix}")
    chosen.to_csv(folder / "intervals.csv", index=False)
    screen.print(f"{len(chosen)} intervals of {intervals.LENGTH:,} accesses, at most")


def _of_step(args: argparse.Namespace, screen: Console) -> tuple[Blocks, Layers, pd.DataFrame]:
    """Returns the trace of a step by its schedule, its layers, and the addresses of its tensors."""
    model = build_model(args, args.infer)
    if model.sized_by_data:
        model.load_data()
    model.build()
    return of_model(model, args.length, args.layout, screen.print)


def of_model(
    model: "NeuralNetworkModel", length: int | None, layout: str, note: Callable[[str], None]
) -> tuple[Blocks, Layers, pd.DataFrame]:
    """Returns the trace of a built model's step by the schedule.

    Args:
        model: built.
        length: of its examples, as of ``describe``.
        layout: of ``LAYOUTS``.
        note: receives what is not known.

    Returns:
        what yields the trace, the layers by number, and the addresses of the tensors.
    """
    from fathom.hardware.traces import layout as memory
    from fathom.hardware.traces import schedule, tensors
    from fathom.model import calibration, steps

    traced = steps.trace(model, length)
    values = {}
    if tensors.has_indices(traced.graph):
        model.load_data()
        batch = list(calibration.first_batch(model).values())
        signature = model.signature_of_length(length)
        if [tuple(each.shape) for each in batch] == [tuple(spec.shape) for spec in signature]:
            values = tensors.indices(traced, batch)
        else:
            note("indices are spread evenly: the batches of the data have other sizes")
    network, optimizer = model.network, model.optimizer
    found = tensors.accesses(traced.graph, network, optimizer, values)
    table = memory.place(found, layout)
    addresses = dict(zip(map(id, table.storage), table.address.tolist(), strict=True))
    trace = partial(schedule.blocks, found, addresses)
    return trace, schedule.layers_of(found), table.drop(columns="storage")


def _show(table: pd.DataFrame, screen: Console) -> None:
    """Prints the step's row, and those of the layers with most accesses."""
    sizes = [f"{size >> 10:,} KiB" for size in reuse.CACHES]
    titles = ["layer", "loads", "stores", "MB touched", *sizes]
    shown = new_table(titles, titles[1:], "misses per access, by size of the cache")
    work = (table.loads + table.stores).sort_values(ascending=False)
    for place in work.index[:10]:
        row = table.loc[place]
        missed = [f"{row[f'miss {size}']:.3f}" for size in reuse.CACHES]
        numbers = (f"{row.loads:,}", f"{row.stores:,}", f"{row.bytes / 1e6:,.2f}")
        shown.add_row(str(row.layer), *numbers, *missed)
    screen.print(shown)
    if table.sampled[0] < 1:
        screen.print(f"misses are those of {table.sampled[0]:.2%} of the lines")
