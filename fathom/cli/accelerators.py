"""``fathom roofline``, ``explore`` and ``scale``: a workload on machines that need not exist."""

import argparse
import math
from collections import Counter
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from fathom.cli import sweep
from fathom.cli.command import refuse, write_csv
from fathom.cli.describe import OF_A_STEP, describe, step_of, with_zeros
from fathom.cli.terminal import duration, figures, new_table
from fathom.errors import FathomError
from fathom.hardware.accelerators import machine as machines
from fathom.hardware.accelerators import plan as plans
from fathom.hardware.accelerators import roofline as model
from fathom.hardware.accelerators import scaling, tiling, topology
from fathom.hardware.accelerators.fusion import fused
from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.tiling import Convolution
from fathom.options import unknown_option
from fathom.results.description import Description, Operation

_SHOWN = 15  # operations
_NODES = (1, 9, 64)


def roofline(args: argparse.Namespace, screen: Console) -> None:
    """Prints the layers and the longest operations with their bounds, or a row for each step."""
    if args.sweep:
        refuse(args, ["sparsity"], "is of one step: omit it with --sweep")
        _sweep_rooflines(args, screen)
        return
    machine, description = _machine_and_step(args)
    description = with_zeros(description, args)
    precision = args.precision or description.precision
    operations, total, by_memory, held = _bounded(machine, description, args)
    screen.print(f"{step_of(description)}, on {machine.title}, {precision}")
    screen.print(
        f"{machine.peak(precision) / 1e9:,.0f} GFLOP/s and {machine.bandwidth / 1e9:,.1f} GB/s: "
        f"below {machine.ridge(precision):.1f} FLOPs per byte, the memory is the limit"
    )
    longest = operations.nlargest(_SHOWN, "seconds")
    screen.print(_bounds(model.layers(operations).nlargest(_SHOWN, "seconds"), ["layer"]))
    screen.print(_bounds(longest, ["name", "phase"]))
    screen.print(
        f"at least {duration(total)} a step, {description.batch_size / total:,.0f} examples/s; "
        f"{by_memory:.0%} of it bound by the memory"
    )
    for level in machine.levels:
        bound = operations[operations.bound == level.name].seconds.sum()
        if bound:
            screen.print(f"{bound / total:.0%} of it bound by {level.name} on the chip")
    if held is not None:
        screen.print(_needed(machine, held))
    write_csv(operations, args.csv, screen)
    if args.svg:
        from fathom.hardware.accelerators.figures import draw_roofline

        draw_roofline(operations, machine, precision, args.svg)
        screen.print(f"written: {args.svg}")


def _bounded(
    machine: Machine, description: Description, args: argparse.Namespace
) -> tuple[pd.DataFrame, float, float, int | None]:
    """Returns a step's operations, their seconds, the memory's share of these, the bytes held."""
    step = fused(description, args.fusion) if args.fusion else description
    operations = model.table(step, machine, args.precision)
    seconds = operations.seconds.sum()
    by_memory = operations[operations.bound == model.MEMORY].seconds.sum() / seconds
    return operations, seconds, by_memory, model.memory_bytes(step, args.precision)


def _sweep_rooflines(args: argparse.Namespace, screen: Console) -> None:
    machine = machines.load(args.machine)

    def bounds(description: Description) -> sweep.Row:
        _, seconds, by_memory, held = _bounded(machine, description, args)
        held = held or 0
        return {
            "ms": 1e3 * seconds,
            "examples/s": description.batch_size / seconds,
            "bound by memory": by_memory,
            "GB held": held / 1e9,
            "fits": {True: "yes", False: "no", None: "unknown"}[_fits(machine, held)],
        }

    found = sweep.table(args, screen, _traced, bounds)
    write_csv(found, args.csv, screen)
    if args.svg:
        from fathom.hardware.accelerators.figures import draw_sweep

        draw_sweep(found, [name for name, _ in args.sweep], machine, args.svg)
        screen.print(f"written: {args.svg}")


def explore(args: argparse.Namespace, screen: Console) -> None:
    """Prints each layer's best tiling, and its best under the unrolling best for all."""
    machine, title, layers, left = _layers(args)
    found = tiling.explore(layers, machine)
    screen.print(f"{title}, on {machine.title}")
    columns = ["layer", "design", "times", "tm", "tn", "tr", "tc", "cycles"]
    rates = ["GFLOP/s", "GB/s", "on chip, KiB"]
    table = new_table([*columns, *rates], numbers=[*columns[2:], *rates])
    for row in found.to_dict("records"):
        rate = row["intensity"] * row["traffic_bytes"] / row["seconds"]
        table.add_row(
            *(row["layer"], row["design"]),
            *(f"{row[name]:,}" for name in columns[2:]),
            f"{rate / 1e9:,.1f}",
            f"{row['traffic_bytes'] / row['seconds'] / 1e9:,.2f}",
            f"{row['on_chip_bytes'] / 1024:,.0f}",
        )
    screen.print(table)
    flops = 2 * sum(layer.times * layer.macs for layer in layers)
    for design, rows in found.groupby("design", sort=False):
        total = (rows.times * rows.seconds).sum()
        tiles = f" (Tm {rows.tm.max()}, Tn {rows.tn.max()})" if design == "common" else ""
        screen.print(
            f"{design}{tiles}: {duration(total)} a step, {flops / total / 1e9:,.1f} GFLOP/s"
        )
    if left:
        kinds = Counter(f"{row.kind} ({row.phase})" for row in left)
        screen.print(
            f"left out, with {sum(row.macs for row in left):,} MACs: "
            + ", ".join(f"{count:,} of kind {kind}" for kind, count in kinds.items())
        )
    write_csv(found, args.csv, screen)
    if args.svg:
        from fathom.hardware.accelerators.figures import draw_designs

        longest = max(layers, key=lambda layer: layer.times * layer.macs)
        designs = tiling.designs(longest.shape, machine)
        draw_designs(designs, longest.name, machine, args.svg)
        screen.print(f"written: {args.svg}: {len(designs):,} designs of {longest.name}")


def scale(args: argparse.Namespace, screen: Console) -> None:
    """Prints time, rate and efficiency by number of nodes, and what a node of the most sends."""
    asked = _plans(args)
    machine, description = _machine_and_step(args)
    steps = [
        scaling.scale(
            scaling.grown(description, plan.data) if args.weak else description,
            *(machine, plan, args.overlap, args.precision, args.fusion),
        )
        for plan in asked or _plans_for(math.inf if args.weak else description.batch_size, screen)
    ]
    found = scaling.table(steps)
    how = args.parallelism or "data parallel"
    screen.print(f"{step_of(description)}, on {machine.title}, {how}" + ", weak" * args.weak)
    titles = ["nodes", "step", "communication", "bubble", "GFLOP/s", "GFLOP/s/mm2", "GFLOP/s/W"]
    titles += ["efficiency", "MB a node"]
    table = new_table(titles, numbers=titles)
    for row in found.to_dict("records"):
        table.add_row(
            f"{row['nodes']:,}",
            duration(row["seconds"]),
            f"{row['communication_seconds'] / row['seconds']:.1%}",
            f"{row['bubble_seconds'] / row['seconds']:.1%}",
            f"{row['rate'] / 1e9:,.0f}",
            _or_unknown(row["rate_per_mm2"]),
            _or_unknown(row["operations_per_watt"]),
            f"{row['efficiency']:.1%}",
            "-" if row["memory_bytes"] is pd.NA else f"{row['memory_bytes'] / 1e6:,.0f}",
        )
    screen.print(table)
    _print_messages(steps[-1], screen)
    _print_memory(machine, found, screen)
    gradients = scaling.gradient_bytes(description)
    if description.mode == "train" and gradients:
        screen.print(
            f"{description.total_flops / gradients:,.0f} FLOPs per byte of gradients "
            f"({2 * description.macs / gradients:,.0f} of multiply-accumulates alone)"
        )
    write_csv(found, args.csv, screen)


def _plans(args: argparse.Namespace) -> list[Plan]:
    """Returns a plan for each number of nodes that the options name."""
    plan, complete = plans.parse(args.parallelism)
    if complete and args.nodes:
        raise FathomError("--nodes follows from data=N: omit one of them")
    if complete or (args.parallelism and not args.nodes):
        return [*([Plan()] if plan.nodes > 1 else []), plans.checked(plan)]  # beside one node
    return [plan.on(nodes) for nodes in args.nodes or ()]


def _plans_for(examples: float, screen: Console) -> list[Plan]:
    """Returns data parallelism on the default numbers of nodes that have examples enough."""
    if too_many := [f"{nodes}" for nodes in _NODES if nodes > examples]:
        screen.print(f"left out: {', '.join(too_many)} nodes, more than the {examples} examples")
    return [Plan(data=nodes) for nodes in _NODES if nodes <= examples]


def _print_memory(machine: Machine, found: pd.DataFrame, screen: Console) -> None:
    known = found[found.memory_bytes.notna()]
    if known.empty:
        return
    screen.print(_needed(machine, int(known.memory_bytes.iloc[-1])))
    too_few = known.nodes[known.memory_bytes > (machine.memory_bytes or math.inf)]
    too_few = too_few[too_few != known.nodes.iloc[-1]]
    if len(too_few):
        screen.print(f"IT DOES NOT FIT on fewer: {', '.join(f'{n:,}' for n in too_few)}")


def _print_messages(step: scaling.Scaled, screen: Console) -> None:
    if not step.transfers:
        return
    table = new_table(["sent for", "over", "MB a node", "time"], numbers=["MB a node", "time"])
    for row in scaling.messages(step).to_dict("records"):
        table.add_row(
            row["purpose"], row["level"], f"{row['bytes'] / 1e6:,.2f}", duration(row["seconds"])
        )
    screen.print(f"each of {step.nodes:,} nodes sends in a step:")
    screen.print(table)


def _traced(args: argparse.Namespace) -> Description:
    """Returns the step in float32: the bytes of another precision are scaled."""
    return describe(argparse.Namespace(**{**vars(args), "precision": None}))


def _needed(machine: Machine, held: int) -> str:
    """Returns in words whether a step fits into a machine's memory."""
    needed = f"a node holds at least {figures(held / 1e9)} GB at once"
    if machine.memory_bytes is None:
        return needed
    has = f"{machine.title} has {figures(machine.memory_bytes / 1e9)} GB"
    return f"{needed}: {has}" + ("" if _fits(machine, held) else ", IT DOES NOT FIT")


def _fits(machine: Machine, held: float) -> bool | None:
    """Returns whether a machine has as much memory; None if it is not known."""
    return None if machine.memory_bytes is None else held <= machine.memory_bytes


def _machine_and_step(args: argparse.Namespace) -> tuple[Machine, Description]:
    machine = machines.load(args.machine)
    if args.description is None:
        return machine, _traced(args)
    without = "has no effect with --description, which is of one step: omit it"
    refuse(args, (*OF_A_STEP, "dim"), without)
    description = Description.read(args.description)
    if description.workload != args.workload:
        raise FathomError(
            f"{args.description} describes {description.workload}, not {args.workload}"
        )
    return machine, description


def _layers(args: argparse.Namespace) -> tuple[Machine, str, list[Convolution], list[Operation]]:
    """Returns the machine, what has the layers, they themselves, and the operations left out."""
    is_path = args.workload is None and "/" in (args.layers or "")  # else part of a layer's name
    if args.layers and (is_path or args.layers.endswith(".csv")):
        if args.workload:
            raise FathomError(f"{args.layers} is a file of layers: omit {args.workload}")
        refuse(args, ("description", *OF_A_STEP, "dim"), "has no effect with layers of a file")
        return machines.load(args.machine), args.layers, topology.read(Path(args.layers)), []
    if args.workload is None:
        raise FathomError("name a workload, or give --layers a CSV file")
    machine, description = _machine_and_step(args)
    layers, left = tiling.convolutions(description)
    if args.layers:
        known = list(dict.fromkeys(layer.name for layer in layers))
        names = args.layers.split(",")
        for name in names:
            if name not in known:
                raise unknown_option("layer", name, known)
        layers = [layer for layer in layers if layer.name in names]
        left = [row for row in left if row.layer in names]
    return machine, step_of(description), layers, left


def _bounds(rows: pd.DataFrame, names: list[str]) -> Table:
    numbers = ["GFLOPs", "MB", "FLOPs/byte", "at least"]
    table = new_table([*names, "bound", *numbers], numbers)
    for row in rows.to_dict("records"):
        table.add_row(
            *(row[name] for name in names),
            row["bound"],
            f"{row['flops'] / 1e9:,.3f}",
            f"{row['bytes'] / 1e6:,.2f}",
            f"{row['intensity']:,.2f}",
            duration(row["seconds"]),
        )
    return table


def _or_unknown(rate: float) -> str:
    return "unknown" if pd.isna(rate) else f"{rate / 1e9:,.2f}"
