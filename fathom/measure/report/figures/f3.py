"""Figure 3 of the Fathom paper: the share of time by op type, and the paper's own table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fathom.hardware.description.ops import CLASSES, op_class
from fathom.measure.profile import tables
from fathom.measure.report import intervals, published, selection, style
from fathom.measure.report.clustering import cosine_distance
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_VISIBLE = 1.0  # percent from which an op type has a column, as in the paper
_FAR = 0.1  # cosine distance to the paper's row from which the report lists each op's part
_DARKEST = 60  # percent
_DARK_BLUE = (0.03, 0.3, 0.6)  # red, green, blue; lighter ones let the page shine through
_WHITE_TEXT = 45  # percent from which a cell's number is white


def heat_map(ops: pd.DataFrame) -> pd.DataFrame:
    """Puts the op types' shares into the paper's columns, in percent of the time in ops.

    Returns:
        one row per workload; the columns are the paper's in its order, then our others above 1 %,
        by class.
    """
    percent, paper = 100 * tables.shares(ops), published.breakdown()
    extra = percent.columns[percent.max() >= _VISIBLE].difference(paper.columns)
    by_class = sorted(extra, key=lambda op_type: (op_class(op_type) or "Z", op_type))
    return percent.reindex(columns=[*paper.columns, *by_class], fill_value=0.0)


def distances(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the distance of each workload's shares, of all types, to the paper's row.

    Returns:
        one row per workload: ``cosine distance`` of the processes' mean shares, and ``from`` and
        ``to``, the limits of its 95 % interval between processes, from 0 to 1. Missing if the paper
        has no such workload; the limits also with one process.
    """
    paper = published.breakdown()
    rows = {
        workload: _distance(each, paper.loc[workload]).columns("cosine distance")
        for workload, each in ops.groupby("workload", sort=False)
        if workload in paper.index
    }
    table = pd.DataFrame.from_dict(rows, "index", columns=["cosine distance", "from", "to"])
    return table.reindex(ops.workload.unique())


def _distance(ops: pd.DataFrame, paper: pd.Series) -> intervals.Interval:
    ours = tables.shares_by_process(ops)
    ours = ours.reindex(ours.index.union(paper.index), fill_value=0.0)
    theirs = paper.reindex(ours.index, fill_value=0.0).to_numpy()
    sides = [ours.to_numpy()]
    (found,) = intervals.combine(sides, lambda means: cosine_distance(means, theirs))
    return found.clipped(0, 1)


def table(percent: pd.DataFrame, distance: pd.DataFrame) -> pd.DataFrame:
    """Returns our row and the paper's for each workload."""
    ours = percent.assign(others=(100 - percent.sum(axis=1)).clip(lower=0)).join(distance)
    theirs = published.breakdown().reindex(columns=percent.columns, fill_value=0.0)
    theirs = theirs.assign(others=100 - theirs.sum(axis=1)).reindex(columns=ours.columns)
    theirs = theirs[theirs.index.isin(ours.index)]
    both = pd.concat({"measured": ours, "paper": theirs}, names=["", "workload"])
    rows = [(source, name) for name in ours.index for source in ("measured", "paper")]
    there = both.loc[[row for row in rows if row in both.index]]
    return there.swaplevel().reset_index()


def shares(ops: pd.DataFrame, column: str = "type") -> pd.DataFrame:
    """Returns the share of each op ``type`` or ``class``, as the column says, of each workload.

    Returns:
        one row per workload and op type above 1 %, or class, in decreasing order: ``share (%)``,
        the mean over the processes; ``from`` and ``to``, the limits of its 95 % interval between
        processes, missing with one.
    """
    rows = []
    for workload, each in ops.groupby("workload", sort=False):
        percent = 100 * tables.shares_by_process(each, column)
        order = percent.mean(axis=1).sort_values(ascending=False, kind="stable").index
        for name, values in percent.loc[order].iterrows():
            found = intervals.mean(values.to_numpy()).clipped(0, 100)
            rows.append({"workload": workload, column: name, **found.columns("share (%)")})
    return pd.DataFrame(rows)


def op_types(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns ``shares`` of the op types above 1 %."""
    table = shares(ops).rename(columns={"type": "op type"})
    return table[table["share (%)"] >= _VISIBLE].reset_index(drop=True)


def classes(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns ``shares`` of the classes A-G; ``none`` for types without one."""
    names = {letter: f"{letter} {name}" for letter, name in CLASSES.items()} | {"": "none"}
    table = shares(ops, "class")
    return table.assign(**{"class": table["class"].map(names)})


def differences(ops: pd.DataFrame, heaviest: int = 10) -> pd.DataFrame:
    """Splits a workload's distance to the paper's row by op type, in decreasing order.

    With both rows scaled to length 1, the cosine distance is half the squared length of their
    difference, which is a sum over op types; the parts add up to 1.

    Args:
        ops: of one or several equal profiles of a workload in the paper.
        heaviest: number of types.
    """
    (workload,) = ops.workload.unique()
    ours, paper = tables.op_types(ops).set_index("type"), published.breakdown().loc[workload]
    rows = ours.reindex([*paper.index, *ours.index.difference(paper.index, sort=False)])
    rows = rows.assign(
        paper=paper.reindex(rows.index, fill_value=0.0),
        measured=100 * rows.share.fillna(0.0),
        count=rows["count"].fillna(0.0),
        kernels=rows.kernels.fillna(""),
    )
    rows = rows.join(shares(ops).set_index("type")[["from", "to"]])
    scaled = rows[["measured", "paper"]] / np.linalg.norm(rows[["measured", "paper"]], axis=0)
    parts = (scaled.measured - scaled.paper) ** 2
    rows["part"] = parts / parts.sum()
    rows = rows[rows.part > 0].sort_values("part", ascending=False, kind="stable")[:heaviest]
    return pd.DataFrame(
        {
            "op type": rows.index,
            "class": [op_class(op_type) for op_type in rows.index],
            "measured (%)": rows.measured,
            "from": rows["from"],
            "to": rows["to"],
            "paper (%)": rows.paper,
            "part of distance": rows.part,
            "calls/step": rows["count"],
            "why": [_reason(str(op_type), row) for op_type, row in rows.iterrows()],
            "kernels": rows.kernels,
            "layers": [
                " ".join(tables.heaviest(ops[ops.type == op_type], "layer")[:3])
                for op_type in rows.index
            ],
        }
    )


def _reason(op_type: str, row: pd.Series) -> str:
    """Returns why the shares differ, as far as the profiles show."""
    if not row["count"]:
        return "no such op runs in this step"
    if not row["paper"]:
        named = op_type in published.breakdown().columns
        return "under 1 % in the paper" if named else "not in the paper's table"
    if row["from"] <= row["paper"] <= row["to"]:
        return "the paper's share is in the interval"
    return f"{row['measured'] / row['paper']:.2g} times the paper's share"


def summary(distance: pd.DataFrame) -> str:
    """Summarizes the distances to the paper's rows in a sentence."""
    known = intervals.listed(distance, ".3f")
    if not known:
        return "The paper's table has none of these workloads."
    return f"Cosine distance to the paper's rows: {known}."


def draw(percent: pd.DataFrame, distance: pd.DataFrame) -> style.Plot:
    """Draws the heat map of our shares above the paper's, in the same columns."""
    paper = published.breakdown().reindex(columns=percent.columns, fill_value=0.0)
    rows = len(percent), len(paper)
    with style.applied():
        figure = style.new_figure(3 + 0.34 * len(percent.columns), 3.2 + 0.32 * sum(rows))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=rows)
        labels = [
            str(name) if np.isnan(value) else f"{name}   {value:.3f}"
            for name, value in distance["cosine distance"].items()
        ]
        _draw_heat_map(above, percent.to_numpy(), labels)
        above.set_title("measured, with the cosine distance to the paper's row", loc="left", pad=18)
        _draw_heat_map(below, paper.to_numpy(), list(paper.index))
        below.set_title("the Fathom paper, Figure 3", loc="left")
        below.set_xticks(range(len(percent.columns)), percent.columns, rotation=90)
        _mark_classes(above, [op_class(op_type) for op_type in percent.columns])
    return figure


def _draw_heat_map(axes: style.Panel, percent: np.ndarray, labels: Sequence[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shown = np.ma.masked_less(percent, 0.5)  # rounds to 0
    blues = LinearSegmentedColormap.from_list("blues", [(*_DARK_BLUE, 0.0), (*_DARK_BLUE, 1.0)])
    edges = (np.arange(n + 1) - 0.5 for n in percent.T.shape)
    axes.pcolormesh(*edges, shown, cmap=blues, vmin=0, vmax=_DARKEST)
    axes.invert_yaxis()
    for row, column in np.argwhere(~np.ma.getmaskarray(shown)):
        value = percent[row, column]
        color = style.ALWAYS_WHITE if value >= _WHITE_TEXT else "black"
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8, color=color)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(percent.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.grid(which="minor", linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _mark_classes(axes: style.Panel, classes: Sequence[str]) -> None:
    """Writes the class above each group of columns, and draws lines between groups."""
    starts = [i for i in range(len(classes)) if i == 0 or classes[i] != classes[i - 1]]
    for start, end in zip(starts, [*starts[1:], len(classes)], strict=True):
        axes.annotate(
            classes[start] or "none",
            ((start + end - 1) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
        )
        for each in axes.figure.axes:
            each.axvline(start - 0.5, color="black", linewidth=1)


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    percent, distance = heat_map(ops), distances(ops)
    others = {"op_types": op_types(ops), "classes": classes(ops)}
    for workload in distance.index[distance["cosine distance"] > _FAR]:
        others[f"differences_{workload}"] = differences(ops[ops.workload == workload])
    caveats = selection.caveats(selection.training_profiles(folder))
    notes = f"{_other_batches(folder)}{selection.uncompiled(folder)}"
    found = f"{summary(distance)}{caveats}{notes}"
    return Findings(found, draw(percent, distance), table(percent, distance), others, gaps)


def _other_batches(folder: Folder) -> str:
    """Returns a note on profiles whose batch size was given, where it decides the shares."""
    other = selection.profile_runs(folder).dropna(subset="chosen_batch_size")
    sizes = other.drop_duplicates("workload", keep="last").set_index("workload").chosen_batch_size
    listed = ", ".join(f"{workload} {size}" for workload, size in sizes.items())
    return f" Shares depend on the batch size, which was given for {listed}." if listed else ""


FIGURE = Figure(
    id="F3",
    order=0,
    title="Share of time by op type",
    meaning="Percent of the time in ops, under the paper's names. The paper's columns come first, "
    "in its order, then other types above 1 %; the letters are its classes. The cosine "
    "distance includes types without a column. Shares are means over the processes; intervals are "
    "between processes.",
    paper="Fathom, Figure 3: below ours. It has only types above 1 %, measured on a 4 GHz Skylake "
    "i7-6700K with TensorFlow 0.8.",
    analyse=_analyse,
)
