"""Sweeps over batch sizes: where a larger batch gains no more, and where a GPU pays off."""

import itertools

import pandas as pd

from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

KNEE = 0.9  # of the best rate of a sweep
_CASE = ["workload", "mode", "device"]
_QUANTITIES = ("examples/s", "step (ms)", "peak memory (GiB)")


def sweeps(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns rate, step time and memory by batch size.

    Returns:
        ``workload``, ``mode``, ``device`` (``cpu`` or ``gpu``), ``batch size``, sorted; ``runs``,
        the number of equal ones; their medians of ``examples/s`` and ``step (ms)``, input excluded,
        of a batch of the stated cost if batches vary in length; ``peak memory (GiB)``, the largest:
        of the process, or of TensorFlow's allocations on a GPU; ``program``, where batches are
        divided or programs differ within a sweep; ``of the best``, the rate over the best rate of
        the sweep.
    """
    known = runs.dropna(subset="median_s")
    step = selection.step_seconds(known)
    peak = known.peak_gpu_bytes.where(known.on == "gpu", known.peak_resident_bytes)
    known = known.assign(
        device=known.on,
        rate=known.batch_size.astype(float) / step,
        step=1e3 * step,
        peak=peak.astype(float) / 2**30,
        program=programs.of(known),
    ).rename(columns={"batch_size": "batch size"})
    groups = known.groupby([*_CASE, "batch size"], sort=False)
    table = groups.agg(
        runs=("rate", "size"),
        rate=("rate", "median"),
        step=("step", "median"),
        peak=("peak", "max"),
        program=("program", programs.joined),
    ).reset_index()
    table = table.rename(columns=dict(zip(("rate", "step", "peak"), _QUANTITIES, strict=True)))
    table = selection.in_order(table.sort_values([*_CASE, "batch size"], kind="stable"))
    table = programs.drop_if_uniform(table, _CASE)
    best = table.groupby(_CASE)["examples/s"].transform("max")
    table["of the best"] = table["examples/s"] / best
    return table.reset_index(drop=True)


def knees(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the knee of each sweep: the smallest batch that reaches 90 % of the best rate.

    Returns:
        ``workload``, ``mode``, ``device``; ``knee (batch size)``; ``found``: the knee is not the
        largest batch measured, of which nothing tells whether a larger one gains; ``examples/s``
        and ``peak memory (GiB)`` at the knee; ``best examples/s``, ``largest batch size``.
    """
    near = table[table["of the best"] >= KNEE].drop_duplicates(_CASE)
    ends = table.groupby(_CASE)[["examples/s", "batch size"]].max()
    ends.columns = ["best examples/s", "largest batch size"]
    near = near.rename(columns={"batch size": "knee (batch size)"}).join(ends, on=_CASE)
    near["found"] = near["knee (batch size)"] < near["largest batch size"]
    columns = ["knee (batch size)", "found", "examples/s", "peak memory (GiB)", *ends.columns]
    return near[[*_CASE, *columns]].reset_index(drop=True)


def gpu_over_cpu(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the rates in ``sweeps`` of the GPU over those of the CPU, where both were measured.

    Returns:
        ``workload``, ``mode``, ``batch size``, ``GPU over CPU``.
    """
    keys = ["workload", "mode", "batch size"]
    rates = table.pivot(index=keys, columns="device", values="examples/s")
    ratio = (rates.reindex(columns=["gpu"]).gpu / rates.reindex(columns=["cpu"]).cpu).dropna()
    return selection.in_order(ratio.rename("GPU over CPU").reset_index()).reset_index(drop=True)


def summary(knees: pd.DataFrame, ratios: pd.DataFrame) -> str:
    """Summarizes knees, and where the GPU is ahead, in sentences."""
    at = knees["knee (batch size)"].astype(str)
    cases = knees.workload + " " + knees["mode"] + " (" + knees.device.str.upper() + ") " + at
    found, rising = cases[knees.found], cases[~knees.found]
    text = f"Batch size that reaches {KNEE:.0%} of the best rate: {', '.join(found) or 'none'}."
    if len(rising):
        text += f" Not reached before the largest one measured: {', '.join(rising)}."
    for (workload, mode), each in ratios.groupby(["workload", "mode"], sort=False):
        behind = each["batch size"][each["GPU over CPU"] <= 1].max()
        ahead = each if pd.isna(behind) else each[each["batch size"] > behind]
        sizes = f"{each['batch size'].min()} to {each['batch size'].max()}"
        text += f" {workload} {mode}: the GPU is ahead of the CPU "
        text += f"from batch size {ahead['batch size'].min()} on" if len(ahead) else "nowhere"
        text += f" ({sizes} measured)."
    return text


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws rate, step time and memory over batch size, for each workload, with the knees."""
    cases = list(itertools.product(table.workload.unique(), _QUANTITIES))
    titles = [f"{name}: {quantity}" for name, quantity in cases]
    with style.panels(titles, columns=len(_QUANTITIES), width=2.7, height=2.1) as (figure, axes):
        for panel, (name, quantity) in zip(axes, cases, strict=True):
            _draw_quantity(panel, table[table.workload == name], quantity)
        figure.supxlabel("batch size", fontsize=9)
        style.legend_above(figure, columns=5)
    return figure


def _draw_quantity(panel: style.Panel, table: pd.DataFrame, quantity: str) -> None:
    others = programs.differ(table, _CASE)
    for (mode, device), each in table.groupby(["mode", "device"], sort=False):
        colour = style.ORANGE if mode == "infer" else style.BLUE
        sizes, values = each["batch size"].astype(float), each[quantity]
        panel.plot(
            sizes,
            values,
            color=colour,
            marker="o" if device == "cpu" else "D",
            markersize=4,
            markerfacecolor="white" if device == "gpu" else None,
            linewidth=1,
            label=f"{'training' if mode == 'train' else 'inference'}, {str(device).upper()}",
        )
        knee = int(each["of the best"].ge(KNEE).to_numpy().argmax())
        if knee < len(each) - 1:
            panel.plot(sizes.iloc[knee], values.iloc[knee], "o", ms=10, mfc="none", color=colour)
    programs.mark(panel, table["batch size"].astype(float), table[quantity], others)
    style.scale_by_logarithm(panel, "x", base=2)
    style.scale_by_logarithm(panel, "y")
    panel.grid(axis="both")


def _analyse(folder: Folder) -> Findings:
    wanted = selection.timing_runs(folder, "batches")
    if wanted.empty:
        return Findings(gaps=["no sweep over batch sizes: fathom characterize --batches makes one"])
    table = sweeps(selection.timings(folder, "batches"))
    several = table.groupby(_CASE)["batch size"].transform("size") > 1
    table = table[several].reset_index(drop=True)
    gaps = [
        f"{run.workload} {run.mode} on the {run.on.upper()}: the sweep ended before batch size "
        f"{run.chosen_batch_size} ({run.reason})"
        for run in wanted[wanted.status == "failed"].itertuples()
    ]
    few = "measured at a single batch size"
    gaps += selection.gaps(wanted[wanted.status == "done"], table.workload.unique(), few)
    if table.empty:
        return Findings(gaps=gaps)
    bends, ratios = knees(table), gpu_over_cpu(table)
    tables = {"knees": bends} | ({"gpu_over_cpu": ratios} if len(ratios) else {})
    found = f"{summary(bends, ratios)}{programs.note(table, _CASE, 'batch size')}"
    return Findings(found, draw(table), table, tables, gaps)


FIGURE = Figure(
    id="M-batch",
    order=33,
    title="Batch size",
    meaning="Rate, step time and peak memory by batch size, input excluded, default thread pools; "
    "medians of equal runs. The knee, a ring, is the smallest batch that reaches 90 % of the best "
    "rate of its sweep; where that is the largest batch, there is no ring. The time of single runs "
    "varies, so that a knee can be one size off. A cross is a batch size at which another "
    "program ran than at the smallest: compiled by XLA or not, or in microbatches.",
    paper='Minsky, of Figure 3: speed-ups by a GPU are "more meaningful in those models where '
    'computational demand is higher"; the batch sizes are not varied.',
    analyse=_analyse,
)
