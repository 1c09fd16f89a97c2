"""Figure 1 of the Fathom paper: the times of ops are stationary."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy.stats

from fathom.characterize.measure.folder import Folder
from fathom.characterize.profile import tables
from fathom.characterize.report import selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import MARKERS, PALETTE, panels, style

if TYPE_CHECKING:
    import matplotlib.figure

_DRIFT_LEVEL = 0.01  # significance level of a drift
_DRIFT_SIZE = 0.05  # smallest relevant change over the profiled steps
_FEWEST_FOR_DRIFT = 6  # steps: five in perfect order have p = 2 / 5! = 0.017


def follow(ops: pd.DataFrame, heaviest: int = 5) -> pd.DataFrame:
    """Follows the most expensive op types of each workload over the profiled steps.

    Args:
        ops: one profile per workload, from ``frames.profile_ops``.
        heaviest: number of types per workload.

    Returns:
        ``workload``, ``op type``, ``step``, ``time (s)``.
    """
    types = tables.op_types(ops).groupby("workload", sort=False).head(heaviest)
    types = types.loc[types.seconds > 0, ["workload", "type"]]
    seconds = ops.groupby(["workload", "type", "step"], as_index=False).seconds.sum()
    followed = types.merge(seconds, how="left")
    return followed.rename(columns={"type": "op type", "seconds": "time (s)"})


def statistics(followed: pd.DataFrame) -> pd.DataFrame:
    """Returns variation and drift of each op type from ``follow``, one row each."""
    groups = followed.groupby(["workload", "op type"], sort=False)["time (s)"]
    return pd.DataFrame(
        {"workload": workload, "op type": op_type, **_statistics(seconds.to_numpy())}
        for (workload, op_type), seconds in groups
    )


def _statistics(seconds: np.ndarray) -> dict[str, object]:
    """Returns the statistics of one op type's time in each step, float64 [steps].

    Variation is standard deviation over mean; drift the change from the first to the last step over
    the median by the Theil-Sen slope, with the p value of the Mann-Kendall test. ``drifts``:
    whether the time changes, significantly and by more than 5 %; None: too few steps.
    """
    steps, mean = len(seconds), float(seconds.mean())
    variation = drift = p_value = np.nan
    if steps > 1:
        variation = float(seconds.std(ddof=1) / mean)
        slope = scipy.stats.theilslopes(seconds).slope
        drift = float(slope * (steps - 1) / np.median(seconds))
        p_value = float(scipy.stats.kendalltau(np.arange(steps), seconds).pvalue)
    drifts = p_value < _DRIFT_LEVEL and abs(drift) > _DRIFT_SIZE
    return {
        "steps": steps,
        "mean (s)": mean,
        "variation": variation,
        "drift": drift,
        "p value": p_value,
        "drifts": drifts if steps >= _FEWEST_FOR_DRIFT else None,
    }


def summary(table: pd.DataFrame) -> str:
    """Summarizes the statistics in a sentence."""
    drifting = table[table.drifts == True]  # noqa: E712 - of True, False and None
    untold = sorted(table.workload[table.drifts.isna()].unique())
    pairs = zip(drifting.workload, drifting["op type"], strict=True)
    names = ", ".join(f"{workload}'s {op_type}" for workload, op_type in pairs)
    told = (
        f"{names or 'none'} {'drift' if len(drifting) > 1 else 'drifts'} over the profiled steps "
        f"(by more than {_DRIFT_SIZE:.0%}, p < {_DRIFT_LEVEL})"
    )
    few = f"less than {_FEWEST_FOR_DRIFT} steps do not tell of a drift: {', '.join(untold)}"
    known = len(untold) < table.workload.nunique()
    return (
        f"Half of the {len(table)} heaviest op types have a coefficient of variation of "
        f"{np.median(table.variation):.1%} or less from step to step; "
        f"{'; '.join([told] * known + [few] * bool(untold))}."
    )


def draw(followed: pd.DataFrame) -> "matplotlib.figure.Figure":
    """Draws the time of each op type from ``follow`` over its mean."""
    names = list(followed.workload.unique())
    variation = statistics(followed).set_index(["workload", "op type"]).variation
    with style():
        figure, axes = panels(names, columns=2, width=4.6, height=2.3)
        for workload, panel in zip(names, axes, strict=True):
            mine = followed[followed.workload == workload]
            for i, (op_type, each) in enumerate(mine.groupby("op type", sort=False)):
                panel.plot(
                    each.step,
                    each["time (s)"] / each["time (s)"].mean(),
                    color=PALETTE[i % len(PALETTE)],
                    marker=MARKERS[i % len(MARKERS)],
                    markersize=3,
                    linewidth=0.8,
                    label=f"{op_type} ({variation[workload, op_type]:.1%})",
                )
            panel.set_ylim(0, max(2.0, panel.get_ylim()[1]))
            panel.grid(axis="y")
            panel.set(xlabel="step", ylabel="time over its mean")
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.legend(
                loc="center left",
                bbox_to_anchor=(1, 0.5),
                title="op type (variation)",
                title_fontsize=8,
                handlelength=1.5,
            )
    return figure


def _analyse(folder: Folder) -> Findings:
    ops, gaps = selection.training_ops(folder)
    if ops.empty:
        return Findings(gaps=gaps)
    followed = follow(ops)
    table = statistics(followed)
    return Findings(summary(table), draw(followed), followed, {"op_types": table}, gaps)


FIGURE = Figure(
    id="F1",
    order=1,
    title="Op times are stationary",
    meaning="The time of each workload's five most expensive op types in every profiled step, "
    "over its mean. Variation is standard deviation over mean. Drift is the change from the "
    "first to the last step over the median (Theil-Sen slope), its p value from the Mann-Kendall "
    "test; a type drifts if p < 0.01 and the change is above 5 %. Where batches differ in "
    "length, the times do too.",
    paper="Fathom, Figure 1, a picture without numbers: the execution time of ops is stationary "
    "and has low variance.",
    analyse=_analyse,
)
