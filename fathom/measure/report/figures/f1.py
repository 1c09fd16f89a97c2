"""Figure 1 of the Fathom paper: the times of ops are stationary."""

import numpy as np
import pandas as pd
import scipy.stats

from fathom.measure.profile import tables
from fathom.measure.report import intervals, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder

_DRIFT_SIZE = 0.05  # smallest relevant change over the profiled steps
_STEADY = 0.1  # coefficient of variation
_HIGHEST = 2.0  # time over its mean up to which a panel reaches, or twice that of most steps
_MOST = 75  # percent of the steps


def follow(ops: pd.DataFrame, heaviest: int = 5) -> pd.DataFrame:
    """Follows the ``heaviest`` op types of each workload over the profiled steps.

    Returns:
        ``workload``, ``op type``, ``run``, ``step``, ``time (s)``.
    """
    types = tables.op_types(ops).groupby("workload", sort=False).head(heaviest)
    types = types.loc[types.seconds > 0, ["workload", "type"]]
    seconds = ops.groupby(["workload", "type", "run", "step"], as_index=False).seconds.sum()
    followed = types.merge(seconds, how="left")
    return followed.rename(columns={"type": "op type", "seconds": "time (s)"})


def statistics(followed: pd.DataFrame) -> pd.DataFrame:
    """Returns variation and drift of each op type from ``follow``, one row each.

    Both are means over the processes: ``variation``, standard deviation over mean in the steps of
    a process, with the limits ``from`` and ``to`` of its 95 % interval; ``drift``, the change from
    the first to the last step over the median by the Theil-Sen slope, with its limits and
    Student's ``p value`` between processes, with Holm's correction over all rows. ``drifts``:
    whether the time changes, significantly and by more than 5 %. With one process or one step
    there are no limits, and ``drifts`` is None.
    """
    groups = followed.groupby(["workload", "op type"], sort=False)
    table = pd.DataFrame(
        {"workload": workload, "op type": op_type, **_statistics(each)}
        for (workload, op_type), each in groups
    )
    table["p value"] = intervals.holm(table["p value"].to_numpy())
    table["drifts"] = [
        None if np.isnan(p) else p < 1 - intervals.CONFIDENCE and abs(drift) > _DRIFT_SIZE
        for p, drift in zip(table["p value"], table.drift, strict=True)
    ]
    return table


def _statistics(followed: pd.DataFrame) -> dict[str, object]:
    """Returns the statistics of one op type."""
    by_run = [each["time (s)"].to_numpy() for _, each in followed.groupby("run")]
    drifts = np.array([_drift(seconds, np.arange(len(seconds))) for seconds in by_run])
    variation = intervals.mean(np.array(list(map(_variation, by_run)))).clipped(0, np.inf)
    return {
        "processes": len(by_run),
        "steps": len(by_run[0]),
        "mean (s)": float(np.mean([seconds.mean() for seconds in by_run])),
        **variation.columns("variation"),
        **intervals.mean(drifts).columns("drift", "drift "),
        "p value": intervals.p_value(drifts),
    }


def _variation(seconds: np.ndarray) -> float:
    return float(seconds.std(ddof=1) / seconds.mean()) if len(seconds) > 1 else np.nan


def _drift(seconds: np.ndarray, steps: np.ndarray) -> float:
    if len(seconds) < 2:
        return np.nan
    slope = scipy.stats.theilslopes(seconds, steps).slope
    return float(slope * (steps[-1] - steps[0]) / np.median(seconds))


def follow_run(life: pd.DataFrame, followed: pd.DataFrame) -> pd.DataFrame:
    """Follows the op types of ``follow`` over whole runs on fresh batches, of ``Folder.life``.

    Returns:
        ``workload``, ``op type``, ``run``, ``window``, ``step``, ``time (s)`` of a batch of the
        stated cost.
    """
    types = followed[["workload", "op type"]].drop_duplicates()
    names = {"type": "op type", "seconds": "time (s)"}
    columns = ["workload", "op type", "run", "window", "step", "time (s)"]
    return types.merge(life.rename(columns=names))[columns]


def run_statistics(run: pd.DataFrame) -> pd.DataFrame:
    """Returns variation and drift of each op type from ``follow_run``, one row each.

    Variation is that of all steps in the windows. Drift is the change from the first to the last
    window over the median, by the Theil-Sen slope of the windows' medians, and the p value that of
    the Mann-Kendall test within the run: it says nothing about other processes.
    """
    return pd.DataFrame(
        {"workload": workload, "op type": op_type, **_over_run(each)}
        for (workload, op_type), each in run.groupby(["workload", "op type"], sort=False)
    )


def _over_run(run: pd.DataFrame) -> dict[str, object]:
    windows = run.groupby("window")[["step", "time (s)"]].median()
    steps, medians = windows.step.to_numpy(), windows["time (s)"].to_numpy()
    several = len(windows) > 1
    return {
        "steps": len(run),
        "windows": len(windows),
        "mean (s)": float(run["time (s)"].mean()),
        "variation": _variation(run["time (s)"].to_numpy()),
        "drift": _drift(medians, steps),
        "p value": float(scipy.stats.kendalltau(steps, medians).pvalue) if several else np.nan,
    }


def run_summary(table: pd.DataFrame) -> str:
    """Summarizes the statistics of whole runs in a sentence."""
    return (
        f" Over a whole run on fresh batches, one process each, the {len(table)} op types vary by "
        f"{np.nanmedian(table.variation):.1%} in the median, and change by "
        f"{table.drift.abs().median():.1%} from the first to the last window."
    )


def summary(table: pd.DataFrame) -> str:
    """Summarizes the statistics in a sentence."""
    if table.variation.isna().all():
        return "One profiled step shows neither variation nor drift."
    known = table[table.processes > 1]
    if known.empty:
        return (
            "The coefficient of variation from step to step is "
            f"{np.nanmedian(table.variation):.1%} in the median of the {len(table)} heaviest op "
            "types."
        )
    pairs = known.loc[known.drifts.astype(bool), ["workload", "op type"]].itertuples(index=False)
    names = ", ".join(f"{workload}'s {op_type}" for workload, op_type in pairs)
    less, more = (known.to < _STEADY).sum(), (known["from"] > _STEADY).sum()
    left = len(known) - less - more
    others = f"; the intervals of the other {left} include {_STEADY:.0%}" if left else ""
    return (
        f"From step to step, {less} of the {len(known)} heaviest op types vary by less than "
        f"{_STEADY:.0%} (coefficient of variation), {more} by more{others}. A drift over the "
        f"profiled steps of more than {_DRIFT_SIZE:.0%} is significant in {names or 'none'}."
    )


def draw(followed: pd.DataFrame, run: pd.DataFrame | None = None) -> style.Plot:
    """Draws the times from ``follow`` over their means, beside those from ``follow_run`` if any."""
    several = run is not None and len(run) > 0
    shown = []
    for workload, mine in followed.groupby("workload", sort=False):
        shown.append((f"{workload}, consecutive steps" if several else workload, mine))
        if run is not None and workload in set(run.workload):
            shown.append((f"{workload}, a whole run", run[run.workload == workload]))
    titles = [str(title) for title, _ in shown]
    with style.panels(titles, columns=2, width=4.6, height=2.3) as (figure, axes):
        for (_, mine), panel in zip(shown, axes, strict=True):
            _draw_panel(panel, mine)
    return figure


def _draw_panel(panel: style.Panel, followed: pd.DataFrame) -> None:
    """Draws the op types of one workload, means over the processes; lines end at gaps."""
    shown = {
        str(op_type): _over_mean(each) for op_type, each in followed.groupby("op type", sort=False)
    }
    highest = max(_HIGHEST, 2 * np.nanpercentile(np.concatenate([*shown.values()]), _MOST))
    for i, (op_type, times) in enumerate(shown.items()):
        each = followed[followed["op type"] == op_type]
        by_run = [one["time (s)"].to_numpy() for _, one in each.groupby("run")]
        panel.plot(
            times.index,
            times,
            color=style.PALETTE[i % len(style.PALETTE)],
            marker=style.MARKERS[i % len(style.MARKERS)],
            markersize=3,
            linewidth=0.8,
            label=f"{op_type} ({np.mean(list(map(_variation, by_run))):.1%})",
        )
    longest = max(shown.values(), key=pd.Series.max)
    if longest.max() > highest:
        panel.annotate(f"↑{longest.max():.1f}", (longest.idxmax(), highest), ha="center", va="top")
    panel.set_ylim(0, highest)
    panel.grid(axis="y")
    panel.set(xlabel="step", ylabel="time over its mean")
    panel.locator_params(axis="x", integer=True)
    panel.legend(
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        title="op type (variation)",
        title_fontsize=8,
        handlelength=1.5,
    )


def _over_mean(followed: pd.DataFrame) -> pd.Series:
    """Returns the time of an op type over its mean, by step; NaN in steps not measured."""
    seconds = followed.groupby("step")["time (s)"].mean()
    steps = range(int(seconds.index.min()), int(seconds.index.max()) + 1)
    return (seconds / seconds.mean()).reindex(steps)


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    followed, life = follow(ops), folder.life()
    run = follow_run(life[life.run.isin(ops.run)], followed)
    table, more = statistics(followed), {}
    found = f"{summary(table)}{selection.caveats(selection.training_profiles(folder))}"
    if len(run):
        more = {"whole_run": run, "whole_run_op_types": run_statistics(run)}
        found += run_summary(more["whole_run_op_types"])
        without = [name for name in followed.workload.unique() if name not in set(run.workload)]
        gaps = [*gaps, f"{', '.join(without)}: no windows over a whole run"] if without else gaps
    return Findings(found, draw(followed, run), followed, {"op_types": table, **more}, gaps)


FIGURE = Figure(
    id="F1",
    order=10,
    title="Op times over a run",
    meaning="The time of each workload's five most expensive op types in every profiled step, "
    "over its mean, averaged over the processes. Variation is standard deviation over mean. Drift "
    "is the change from the first to the last step over the median (Theil-Sen slope). Both are "
    "computed in each process; intervals and p values are between processes. A type drifts if "
    "p < 0.05, with Holm's correction, and the change is above 5 %. Where batches differ in "
    "length, the times do too. A whole run, of one process, is on fresh batches: its times, in "
    "short windows from its start to its end, are divided by the batch's work; a line ends where "
    "steps were not measured. An arrow has the longest time, if it is beyond the panel.",
    paper="Fathom, Figure 1, a picture without numbers: the execution time of ops is stationary "
    "and has low variance.",
    analyse=_analyse,
)
