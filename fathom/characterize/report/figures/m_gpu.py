"""Table 1 of the Minsky paper: GPU utilization by kernels."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import published, selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.style import BLACK, BLUE, legend_above, panels, style

if TYPE_CHECKING:
    import matplotlib.figure

_KERNELS, _COPIES = "kernels / API calls", "copies / kernels"


def gpu_use(profiles: pd.DataFrame) -> pd.DataFrame:
    """Compares kernels, API calls and copies of training profiles on a GPU with the paper's.

    Args:
        profiles: profile runs, one per workload, from ``Folder.runs_frame``; those without a GPU
            are left out.

    Returns:
        one row per workload measured here or in the paper: ``workload``; time in kernels over time
        in API calls; time in copies over time in kernels, from 0 to 1; the same of the paper.
        Missing if nothing was measured, or no kernel ran.
    """
    times = profiles.dropna(subset="kernel_s").set_index("workload")
    paper = published.gpu_efficiency()
    there = [name for name in selection.order() if name in {*times.index, *paper.index}]
    times, paper = times.reindex(there), paper.reindex(there)
    table = pd.DataFrame(
        {
            _KERNELS: times.kernel_s / times.api_s.replace(0, np.nan),
            _COPIES: times.memcpy_s / times.kernel_s.replace(0, np.nan),
            f"{_KERNELS}, paper": paper.kernels_over_api,
            f"{_COPIES}, paper": paper.memcpy_share,
        }
    )
    return table.rename_axis("workload").reset_index()


def summary(table: pd.DataFrame, measured: bool) -> str:
    """Summarizes the ratios in a sentence."""
    if not measured:
        return "Nothing was measured on a GPU: the figures are the paper's."
    if table[_KERNELS].isna().all():
        return "The GPU ran no kernels."
    best = table.iloc[table[_KERNELS].argmax()]
    return (
        f"{best.workload} uses the GPU best: its kernels take {best[_KERNELS]:.2f} of the time of "
        "its API calls."
    )


def draw(table: pd.DataFrame, measured: bool) -> "matplotlib.figure.Figure":
    """Draws the two ratios of each workload and of the paper, or only the paper's."""
    rows = np.arange(len(table))
    titles = {_KERNELS: "kernel time over API call time", _COPIES: "copy time over kernel time"}
    with style():
        height = 1.4 + 0.3 * len(rows)
        figure, both = panels(list(titles.values()), columns=2, width=4, height=height)
        for axes, column in zip(both, titles, strict=True):
            if measured:
                axes.plot(table[column], rows, "o", color=BLUE, label="measured")
            paper, look = table[f"{column}, paper"], {"color": BLACK, "markerfacecolor": "white"}
            axes.plot(paper, rows, "D", **look, label="Minsky, Table 1")
            axes.set_xscale("log")
            axes.set_xlabel("ratio")
            axes.grid()
            axes.set_yticks(rows, table.workload)
            axes.set_ylim(len(rows) - 0.5, -0.5)
        legend_above(figure, columns=2)
    return figure


def _analyse(folder: Folder) -> Findings:
    profiles = selection.profiles(folder, "gpu").drop_duplicates("workload")
    there = profiles.workload[profiles.kernel_s.notna()]
    table, runs = gpu_use(profiles), folder.runs_frame()
    gaps = ["no profile was taken on a GPU"]
    if len(there):
        gaps = selection.gaps(runs[selection.is_profile(runs, "gpu")], there)
    found, plot = summary(table, bool(len(there))), draw(table, bool(len(there)))
    return Findings(found, plot, table, gaps=gaps)


FIGURE = Figure(
    id="M-gpu",
    order=11,
    title="GPU efficiency",
    meaning="Time in kernels over time in calls to the driver and the runtime, and time in copies "
    "over time in kernels, from the device planes of training profiles on a GPU.",
    paper="Minsky, Table 1, one P100: next to ours, or alone without a GPU; without speech.",
    analyse=_analyse,
)
