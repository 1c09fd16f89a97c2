"""Metric against the bits of a number format: the papers' claim, shown on the workloads."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.options import QUANTIZED, precision_traits
from fathom.results.formats import FormatRun, Formats

_FLOAT = "float32"
_LOOKS = {"infer": ("inference", style.BLUE, "o"), "train": ("training", style.ORANGE, "s")}
_LOST = {"gradients to 0": style.GREY, "updates to 0": style.RED}


def runs(results: Sequence[Formats]) -> pd.DataFrame:
    """Returns one row per run, of each workload and mode from many bits to few.

    Returns:
        ``workload``, with the settings in which files of one differ; ``mode``; ``format``;
        ``bits``, infinite for floating point; ``seed``; ``metric``, the first one of the workload's
        evaluation; its ``value``, missing if the training diverged; ``loss``; the shares of values
        that saturated and that became 0, by kind of tensor; ``ended``.
    """
    rows = [_row(name, result, run) for name, result in _named(results) for run in result.runs]
    columns = ["workload", "mode", "format", "bits", "seed", "metric", "value", "loss"]
    columns += [f"{kind} {share}" for kind in QUANTIZED for share in ("saturated", "to 0")]
    columns.append("ended")
    table = pd.DataFrame(rows, columns=columns)
    by = ["mode", "bits", "format", "seed"]
    return selection.in_order(table.sort_values(by, ascending=[True, False, False, True]))


def _named(results: Sequence[Formats]) -> list[tuple[str, Formats]]:
    cases = [(each.workload, each.mode) for each in results]
    settings = [
        {"steps": each.steps} | each.hyperparameters.to_plain() | each.options.to_plain()
        for each in results
    ]
    return list(zip(selection.names_apart(cases, settings), results, strict=True))


def _row(workload: str, result: Formats, run: FormatRun) -> dict[str, object]:
    metric = next((name for each in result.runs for name in each.metrics), "")
    number_format = precision_traits(run.precision).fixed
    row: dict[str, object] = {
        "workload": workload,
        "mode": result.mode,
        "format": _name(run),
        "bits": np.inf if number_format is None else float(number_format.bits),
        "seed": run.seed,
        "metric": metric,
        "value": run.metrics.get(metric),
        "loss": run.loss,
    }
    for kind in QUANTIZED:
        if run.fixed_point is not None:
            row[f"{kind} saturated"] = run.fixed_point.share(kind, "saturated")
            row[f"{kind} to 0"] = run.fixed_point.share(kind, "zeroed")
    return row | {"ended": run.ended}


def _name(run: FormatRun) -> str:
    """Returns the precision, with what is not the default: rounding, overflow, kinds of tensors."""
    fixed = run.fixed_point
    if fixed is None:
        return run.precision
    defaults = (("nearest", fixed.rounding), ("saturate", fixed.overflow))
    changes = [value for default, value in defaults if value != default]
    if set(fixed.quantized) != set(QUANTIZED):
        changes.append(" and ".join(fixed.quantized))
    return ", ".join([run.precision, *changes])


def layer_errors(results: Sequence[Formats]) -> pd.DataFrame:
    """Returns the relative error of each layer's output against float32, in the order of layers."""
    rows = [
        {"workload": name, "format": _name(run), "layer": layer, "error": error}
        for name, result in _named(results)
        for run in result.runs
        for layer, error in run.errors.items()
    ]
    return selection.in_order(pd.DataFrame(rows, columns=["workload", "format", "layer", "error"]))


def summary(table: pd.DataFrame) -> str:
    """Compares 16 bits with float32 in a sentence per workload and mode."""
    sentences = []
    for (workload, mode, metric), mine in table.groupby(["workload", "mode", "metric"], sort=False):
        exact = mine[mine.format == _FLOAT].value.dropna()
        narrow = [_text(name, each) for name, each in mine[mine.bits == 16].groupby("format")]
        if len(exact) and narrow:
            words = f"{workload}, {_LOOKS[str(mode)][0]}: {metric} {_range(exact)} in float32"
            sentences.append(f"{words}, {', '.join(narrow)}.")
    return " ".join(sentences) or "No fixed-point format of 16 bits was run beside float32."


def _text(name: object, equal: pd.DataFrame) -> str:
    values = equal.value.dropna()
    text = f"{_range(values)} in {name}" if len(values) else f"none in {name}, which diverged"
    if 0 < len(values) < len(equal):
        text += f" ({len(equal) - len(values)} of {len(equal)} diverged)"
    lost = equal["updates to 0"].dropna()
    return text + (f" with {lost.mean():.0%} of the updates rounded to 0" if len(lost) else "")


def _range(values: pd.Series) -> str:
    ends = (f"{values.min():.4g}", f"{values.max():.4g}")
    return " to ".join(dict.fromkeys(ends))


def draw(table: pd.DataFrame, errors: pd.DataFrame) -> style.Plot:
    """Draws for each workload the metric, what training loses, and the error by layer."""
    colours = dict(zip(errors.format.unique(), itertools.cycle(style.PALETTE)))
    errors = errors.assign(colour=errors.format.map(colours))
    kinds = (
        ("", _draw_metric, table),
        (", training: became 0", _draw_lost, table.dropna(subset=["updates to 0"])),
        (": error against float32", _draw_errors, errors),
    )
    cases = [
        (str(name) + suffix, draw_panel, mine)
        for suffix, draw_panel, rows in kinds
        for name, mine in rows.groupby("workload", sort=False)
    ]
    titles = [name for name, *_ in cases]
    with style.panels(titles, columns=2, width=4.6, height=2.7) as (figure, axes):
        for panel, (_, draw_panel, mine) in zip(axes, cases, strict=True):
            draw_panel(panel, mine)
        style.legend_above(figure, columns=4)
    return figure


def _draw_metric(panel: style.Panel, table: pd.DataFrame) -> None:
    names = list(table.sort_values("bits", ascending=False, kind="stable").format.unique())
    for mode, mine in table.groupby("mode", sort=False):
        words, colour, marker = _LOOKS[str(mode)]
        at = mine.format.map(names.index)
        panel.plot(at, mine.value, marker, color=colour, markersize=4, alpha=0.8, label=words)
        exact = mine[mine.format == _FLOAT].value
        if exact.notna().any():
            panel.axhline(exact.mean(), color=colour, linewidth=0.8, linestyle="--")
    panel.set_xticks(range(len(names)), names, rotation=30, fontsize=8)
    panel.set_ylabel(table.metric.iloc[0])
    panel.grid(axis="y")


def _draw_lost(panel: style.Panel, table: pd.DataFrame) -> None:
    means = 100 * table.groupby("format", sort=False)[list(_LOST)].mean()
    series = {name: (means[name].to_numpy(), colour) for name, colour in _LOST.items()}
    style.bars(panel, list(means.index), series)
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of the values (%)")


def _draw_errors(panel: style.Panel, errors: pd.DataFrame) -> None:
    layers = list(errors.layer.unique())
    for (name, colour), mine in errors.groupby(["format", "colour"], sort=False):
        at = mine.layer.map(layers.index)
        panel.plot(at, mine.error, ".-", color=colour, linewidth=0.8, markersize=4, label=name)
    panel.set_yscale("log")
    shown = range(0, len(layers), 1 + len(layers) // 12)
    panel.set_xticks(
        shown, [style.shortened(layers[i], 12) for i in shown], rotation=45, fontsize=7
    )
    panel.set_ylabel("relative error")
    panel.grid(axis="y")


def _analyse(folder: Folder) -> Findings:
    results = [Formats.read(file) for file in sorted(folder.path.glob("formats/[!.]*.json"))]
    table, errors = runs(results), layer_errors(results)
    if table.empty:
        remedy = "mkdir DIR/formats; fathom formats ... --json DIR/formats/NAME.json"
        return Findings(gaps=[f"no metric against bits: {remedy}"])
    return Findings(summary(table), draw(table, errors), table, {"errors": errors})


FIGURE = Figure(
    id="formats",
    order=54,
    title="Metric against the bits of the numbers",
    meaning="Each workload's metric in each number format, from the files that fathom formats "
    "wrote into the folder formats: of inference with weights trained in float32, and of trainings "
    "in the format; dashed: the mean in float32. Of trainings, the shares of the gradients and of "
    "the weights' updates that were rounded to 0. Of inference, the root mean square of the "
    "difference between each layer's output and that in float32, over that in float32.",
    paper="Drumond, section IV-A: 16-bit fixed point has a low output error in inference and "
    "prevents training from converging; 32 bits are used for training.",
    analyse=_analyse,
)
