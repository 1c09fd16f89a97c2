"""The figures of the machine models: operations and designs under a machine's roofs."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fathom.hardware.accelerators.machine import Machine
from fathom.system.files import atomic_write

_PHASES = {"forward": "C0", "input gradient": "C1", "weight gradient": "C2", "update": "C3"}


def draw_roofline(operations: pd.DataFrame, machine: Machine, precision: str, path: Path) -> None:
    """Writes the operations of ``roofline.table`` as SVG: area by time, colour by phase.

    Raises:
        FathomError: the file cannot be written.
    """
    counted = operations[operations.flops > 0]
    figure, axes = _under_roofs(machine.peak(precision), machine.bandwidth, counted.intensity)
    for phase, colour in _PHASES.items():
        rows = counted[counted.phase == phase]
        area = 4 + 400 * rows.seconds / operations.seconds.max()
        axes.scatter(rows.intensity, rows.attainable, area, colour, alpha=0.5, label=phase)
    axes.set(title=machine.title, ylabel="attainable FLOP/s")
    axes.legend(loc="lower right")
    save_svg(figure, path)


def draw_designs(designs: pd.DataFrame, layer: str, machine: Machine, path: Path) -> None:
    """Writes all designs of ``tiling.designs`` for one layer as SVG; the best one is marked.

    Raises:
        FathomError: the file cannot be written.
    """
    figure, axes = _under_roofs(designs.roof.max(), machine.bandwidth, designs.intensity)
    axes.scatter(designs.intensity, designs.roof, 6, "0.6", label="design", rasterized=True)
    best = designs.sort_values(["seconds", "traffic_bytes"]).iloc[0]
    label = f"best: Tm {best.tm:.0f}, Tn {best.tn:.0f}, Tr {best.tr:.0f}, Tc {best.tc:.0f}"
    axes.scatter([best.intensity], [best.roof], 60, "C3", marker="*", label=label)
    axes.set(title=f"{layer} on {machine.title}", ylabel="FLOP/s")
    axes.legend(loc="lower right")
    save_svg(figure, path)


def draw_sweep(steps: pd.DataFrame, names: Sequence[str], machine: Machine, path: Path) -> None:
    """Writes how much of each step the memory bounds, as SVG: a line for each further setting.

    ``steps`` are rows of ``fathom roofline --sweep``, with ``bound by memory`` and ``ms``; of the
    ``names`` of swept values the first one is the axis.

    Raises:
        FathomError: the file cannot be written.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots(2, sharex=True)
    others = list(names[1:])
    for setting in steps[others].drop_duplicates().to_dict("records") if others else [{}]:
        rows = steps
        for name, value in setting.items():
            rows = rows[rows[name] == value]
        label = ", ".join(f"{name} {value:,}" for name, value in setting.items())
        axes[0].plot(rows[names[0]], rows["bound by memory"], "o-", label=label or None)
        axes[1].plot(rows[names[0]], rows.ms, "o-")
    axes[0].set(title=machine.title, ylabel="time bound by memory", ylim=(-0.05, 1.05))
    axes[1].set(xlabel=names[0], ylabel="least ms a step", xscale="log", yscale="log")
    if others:
        axes[0].legend()
    save_svg(figure, path)


def _under_roofs(peak: float, bandwidth: float, intensity: pd.Series) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    shown = [peak / bandwidth, *intensity[intensity > 0]]
    x = np.geomspace(min(shown) / 2, 2 * max(shown), 200)
    axes.loglog(x, np.minimum(peak, x * bandwidth), "k-", linewidth=1, label="roof")
    axes.set(xlabel="FLOPs per byte of memory traffic")
    return figure, axes


def save_svg(figure: Figure, path: Path) -> None:
    """Writes a figure as SVG, the same bytes each time."""
    with matplotlib.rc_context({"svg.hashsalt": "fathom"}), atomic_write(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
