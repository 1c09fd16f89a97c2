"""Operations under the roofs of the machine that they ran on (Drumond et al., section V-A)."""

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.characterization import Machine

_TOLERANCE = 1.1  # of the peak: a convolution may be faster than a matrix product
_COLORS = {
    "forward": style.BLUE,
    "backward": style.ORANGE,
    "optimizer": style.GREEN,
    "other": style.RED,
}


def summary(table: pd.DataFrame) -> str:
    """Summarizes in a sentence how near the ops are to their roofs."""
    near = table.share.where(table.times <= tables.NEAR, 0.0)
    covered = table.groupby("workload", sort=False).share.sum()
    shares = near.groupby(table.workload, sort=False).sum() / covered
    text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    below = table[(table.times < 1) & (table.bound == "memory")]
    caches = f" {len(below)} take less: their data was in a cache." if len(below) else ""
    times = f"within {tables.NEAR} times the attainable"
    return f"Of the time in ops of 1 % or more, {times}: {text}.{caches}"


def draw(table: pd.DataFrame, peak: float, bandwidth: float) -> style.Plot:
    """Draws each op's rate over its intensity under the roofs, area by share of the time."""
    with style.panels(list(table.workload.unique()), 4, 2.4, 2.2) as (figure, axes):
        shown = table[table.flops > 0]
        x = np.geomspace(min(0.05, shown.intensity.min()), max(1e3, shown.intensity.max()), 100)
        for panel, workload in zip(axes, table.workload.unique(), strict=True):
            panel.loglog(x, np.minimum(peak, x * bandwidth), color=style.GREY, linewidth=1)
            for row in shown[shown.workload == workload].itertuples():
                panel.plot(
                    [row.intensity],
                    [row.rate],
                    "o",
                    color=_COLORS[row.phase],
                    markersize=np.sqrt(10 + 300 * row.share),
                    markeredgewidth=0,
                    alpha=0.6,
                    label=f"{row.type} of {row.layer}, {row.share:.1%}",
                )
            panel.set_xlabel("FLOPs per byte")
            panel.set_ylabel("FLOP/s")
        style.legend_of_colours(figure, _COLORS)
    return figure


def _analyse(folder: Folder) -> Findings:
    runs = selection.profiles(folder).drop_duplicates("workload")
    runs = runs[runs.precision == folder.machine.environment.precision]
    runs = runs[runs.threads == runs.threads.min()]  # as the roofs
    ops, work = selection.ops_of(folder, runs), folder.work()
    fewer = "no op times on as few threads as the others, in the precision of the roofs"
    gaps = selection.gaps(selection.profile_runs(folder), runs.workload, fewer)
    mine = work[work.run.isin(runs.run)]
    roofs = _roofs(folder.machine, int(runs.threads.min())) if len(runs) else None
    if roofs is None or mine.empty:
        return Findings(gaps=[*gaps, "the folder has no memory bandwidth, or no described work"])
    table = tables.under_roofs(ops[ops.workload.isin(mine.workload)], mine, *roofs)
    gaps += [
        f"{row.workload}: {row.type} of {row.layer} ({row.phase}) is not described"
        for row in table[table.flops.isna()].itertuples()
    ]
    gaps += above_peak(table, roofs[0], folder.machine.disturbed(str(runs.threads.min())))
    return Findings(summary(table), draw(table, *roofs), table, gaps=gaps)


def above_peak(table: pd.DataFrame, peak: float, cpu_share: float | None) -> list[str]:
    """Returns why the roofs are no limits, in a sentence; none if no op computes faster.

    Args:
        table: from ``tables.under_roofs``.
        peak: FLOP/s of a large matrix product.
        cpu_share: share of the processor that other processes left for its measurement; None: all.
    """
    faster = table[table.rate > _TOLERANCE * peak]
    reasons = []
    if len(faster):
        first = faster.loc[faster.rate.idxmax()]
        reasons.append(
            f"of {len(faster)} ops above the peak {first.workload}'s {first.type} of {first.layer} "
            f"({first.phase}) reaches {first.rate / peak:.1f} times of it"
        )
    if cpu_share is not None:
        reasons.append(f"other processes left {cpu_share:.0%} of the processor to their probes")
    elif reasons:
        reasons.append("its work is counted too high, or the processor was slower when probed")
    return [f"roofs that are limits: {'; '.join(reasons)}"] if reasons else []


def _roofs(machine: Machine, threads: int) -> tuple[float, float] | None:
    """Returns the peak FLOP/s and the memory's bytes/s on this many threads, if measured."""
    key = str(threads)
    peaks, bandwidths = machine.gemm_flops_per_second, machine.triad_bytes_per_second
    return (peaks[key], bandwidths[key]) if key in peaks and key in bandwidths else None


FIGURE = Figure(
    id="roofline",
    order=20,
    title="Roofline",
    meaning="each op type of a layer and phase with at least 1 % of the time in ops, in training "
    "profiles with the fewest threads. Roofs: a large matrix product, and the triad of the STREAM "
    "benchmark, on as many threads. Work is that of the step's description, an op's bytes those of "
    "its inputs, weights and outputs once each; what stays in a cache makes an op faster than its "
    "roof.",
    paper="Drumond et al., figure 6: the principle, without measurements.",
    analyse=_analyse,
)
