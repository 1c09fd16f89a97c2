"""Table 1 of the Minsky paper: GPU utilization by kernels."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fathom.characterize.measure.folder import Folder
from fathom.characterize.report import published, selection
from fathom.characterize.report.figure import Figure, Findings
from fathom.characterize.report.intervals import Interval, mean
from fathom.characterize.report.style import BLACK, BLUE, legend_above, panels, style

if TYPE_CHECKING:
    import matplotlib.figure

_KERNELS, _COPIES = "kernels / API calls", "copies / kernels"


def gpu_use(profiles: pd.DataFrame) -> pd.DataFrame:
    """Compares kernels, API calls and copies of training profiles on a GPU with the paper's.

    Args:
        profiles: profile runs, one or several equal ones per workload, from ``Folder.runs_frame``;
            those without a GPU are left out.

    Returns:
        one row per workload measured here or in the paper: ``workload``; time in kernels over time
        in API calls, and ``from`` and ``to``, the limits of its 95 % interval between processes;
        time in copies over time in kernels, from 0 to 1; the same of the paper. Missing if nothing
        was measured, or no kernel ran.
    """
    times = profiles.dropna(subset="kernel_s")
    kernels = times.kernel_s / times.api_s.replace(0, np.nan)
    copies = times.memcpy_s / times.kernel_s.replace(0, np.nan)
    used = {name: mean(each.to_numpy(float)) for name, each in kernels.groupby(times.workload)}
    paper = published.gpu_efficiency()
    there = [name for name in selection.order() if name in {*used, *paper.index}]
    ours, paper = [used.get(name, Interval(np.nan)) for name in there], paper.reindex(there)
    table = pd.DataFrame(
        {
            _KERNELS: [each.value for each in ours],
            "from": [each.low for each in ours],
            "to": [each.high for each in ours],
            _COPIES: copies.groupby(times.workload).mean().reindex(there).to_numpy(),
            f"{_KERNELS}, paper": paper.kernels_over_api,
            f"{_COPIES}, paper": paper.memcpy_share,
        },
        index=there,
    )
    return table.rename_axis("workload").reset_index()


def summary(table: pd.DataFrame, measured: bool) -> str:
    """Summarizes the ratios in a sentence."""
    if not measured:
        return "Nothing was measured on a GPU: the figures are the paper's."
    if table[_KERNELS].isna().all():
        return "The GPU ran no kernels."
    known = table.dropna(subset=_KERNELS)
    limits = zip(known.workload, known[[_KERNELS, "from", "to"]].to_numpy(), strict=True)
    listed = ", ".join(f"{workload} {Interval(*each).told('.2f')}" for workload, each in limits)
    return f"Time in kernels over the time of API calls: {listed}."


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
    profiles = selection.profiles(folder, "gpu")
    there = profiles.workload[profiles.kernel_s.notna()]
    table, runs = gpu_use(profiles), folder.runs_frame()
    gaps = ["no profile was taken on a GPU"]
    if len(there):
        gaps = selection.gaps(runs[selection.is_profile(runs, "gpu")], there)
    found, plot = summary(table, bool(len(there))), draw(table, bool(len(there)))
    caveats = selection.caveats(profiles) if len(there) else ""
    return Findings(f"{found}{caveats}", plot, table, gaps=gaps)


FIGURE = Figure(
    id="M-gpu",
    order=11,
    title="GPU efficiency",
    meaning="Time in kernels over time in calls to the driver and the runtime, and time in copies "
    "over time in kernels, from the device planes of training profiles on a GPU.",
    paper="Minsky, Table 1, one P100: next to ours, or alone without a GPU; without speech.",
    analyse=_analyse,
)
