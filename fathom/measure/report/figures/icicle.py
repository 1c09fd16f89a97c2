"""An icicle of each workload's op time by layer, op type and kernel: an analysis of our own."""

import pandas as pd

from fathom.hardware.description.ops import op_class
from fathom.measure.profile import tables
from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_LEVELS = {"layer": "layer", "type": "op type", "kernel": "kernel"}  # column and title
_TIME = "time per step (ms)"
_NARROWEST = 0.004  # of the width, that is drawn


def partition(ops: pd.DataFrame) -> pd.DataFrame:
    """Divides the op time by layer, op type and kernel, each part in its parent's place.

    Returns:
        one row per part: ``workload``; ``level``, as in ``_LEVELS``; ``layer``, ``op type`` and
        ``kernel``, the path to it, empty below its level; ``start (ms)``, the sum of the parts
        before it; mean time per step; ``share`` of the time in ops, from 0 to 1.
    """
    keys = ["workload", *_LEVELS]
    seconds = ops.groupby(keys, sort=False).seconds.sum().div(tables.steps(ops), level=0)
    leaves = seconds.mul(1e3).rename(_TIME).reset_index()
    for depth in range(1, len(keys)):  # heaviest first, within each parent
        leaves[f"by{depth}"] = -leaves.groupby(keys[: depth + 1])[_TIME].transform("sum")
    order = [part for depth in range(1, len(keys)) for part in (f"by{depth}", keys[depth])]
    leaves = selection.in_order(leaves.sort_values(order))
    leaves["start (ms)"] = leaves.groupby("workload")[_TIME].cumsum() - leaves[_TIME]
    levels = []
    for depth, title in enumerate(_LEVELS.values(), 2):
        each = leaves.groupby(keys[:depth], sort=False, as_index=False)
        levels.append(each.agg({"start (ms)": "min", _TIME: "sum"}).assign(level=title))
    table = pd.concat(levels, ignore_index=True).rename(columns=_LEVELS)
    whole = table.groupby(["workload", "level"])[_TIME].transform("sum")
    table["share"] = table[_TIME] / whole
    names = list(_LEVELS.values())
    table[names] = table[names].fillna("")
    return table[["workload", "level", *names, "start (ms)", _TIME, "share"]]


def summary(table: pd.DataFrame) -> str:
    """Says in a sentence which op of which layer takes the most."""
    types = table[table.level == "op type"]
    most = types.loc[types.groupby("workload", sort=False).share.idxmax()]
    listed = ", ".join(
        f"{workload} {kind} of {layer} ({share:.0%})"
        for workload, layer, kind, share in most[
            ["workload", "layer", "op type", "share"]
        ].itertuples(index=False)
    )
    return f"The op type of one layer with the largest share of the time in ops: {listed}."


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the parts of each workload, layers at the top and kernels at the bottom."""
    names = list(table.workload.unique())
    with style.panels(names, columns=1, width=style.WIDTH, height=1.5) as (figure, axes):
        for (_, mine), panel in zip(table.groupby("workload", sort=False), axes, strict=True):
            _draw_parts(panel, mine)
        style.legend_of_classes(figure, map(op_class, table["op type"]))
    return figure


def _draw_parts(panel: style.Panel, table: pd.DataFrame) -> None:
    levels = list(_LEVELS.values())
    whole = table[_TIME][table.level == levels[0]].sum()
    for row, level in enumerate(levels):
        mine = table[(table.level == level) & (table.share >= _NARROWEST)]
        parts = pd.DataFrame(
            {
                "start": mine["start (ms)"],
                "length": mine[_TIME],
                "name": mine[level].replace("", "without name"),
                "letter": mine["op type"].map(op_class),
                "label": mine[levels[: row + 1]].agg(" > ".join, axis=1)
                + mine.share.map(" ({:.1%})".format),
            }
        )
        style.slices(panel, row, parts, whole)
    style.name_rows(panel, levels)
    panel.set_xlim(0, whole)
    panel.set_xlabel(_TIME)


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    table = partition(ops)
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="icicle",
    order=3,
    title="Layers, ops and kernels",
    meaning="The time in ops of a step, divided by layer or role, below it by op type, and below "
    "that by kernel, as TensorFlow's profiler names it: the heaviest first, in the colours of the "
    "classes of op types. The order is not that of the step. Parts under 0.4 % are blank.",
    paper="no such figure; flame graphs (Gregg 2016), drawn downwards.",
    analyse=_analyse,
)
