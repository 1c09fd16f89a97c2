"""Table 1 of the Minsky paper: GPU utilization by kernels."""

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import published, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import listed, mean
from fathom.measure.runs.folder import Folder

_KERNELS, _COPIES = "kernels / API calls", "copies / kernels"


def gpu_use(profiles: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Compares kernels, API calls and copies of training profiles on a GPU with the paper's.

    The op times are of the same profiles, of which those without a GPU are left out.

    Returns:
        one row per workload measured here or in the paper: ``workload``; time in kernels over time
        in API calls, and ``from`` and ``to``, the limits of its 95 % interval between processes;
        time in copies over time in kernels, from 0 to 1; both in the whole process, from the
        set-up on, as in the paper, and in the profiled steps; the share of the op time in ops that
        ran on the CPU; the paper's ratios. Missing if nothing was measured, or no kernel ran.
    """
    times = profiles.dropna(subset="kernel_s")
    ratios = pd.DataFrame(
        {
            _KERNELS: times.process_kernel_s / times.process_api_s.replace(0, np.nan),
            _COPIES: times.process_memcpy_s / times.process_kernel_s.replace(0, np.nan),
            f"{_KERNELS}, profiled steps": times.kernel_s / times.api_s.replace(0, np.nan),
            f"{_COPIES}, profiled steps": times.memcpy_s / times.kernel_s.replace(0, np.nan),
        }
    ).astype(float)
    by_workload, paper = ratios.groupby(times.workload), published.gpu_efficiency()
    used = {name: mean(each.to_numpy()).columns(_KERNELS) for name, each in by_workload[_KERNELS]}
    kernels = pd.DataFrame.from_dict(used, "index", float, [_KERNELS, "from", "to"])
    table = kernels.join(by_workload.mean().drop(columns=_KERNELS))
    table = table.reindex(table.index.union(paper.index))
    mine = ops[ops.workload.isin(times.workload)]
    table["share of op time on the CPU"] = _seconds(mine[mine.on == "cpu"]) / _seconds(mine)
    table[f"{_KERNELS}, paper"] = paper.kernels_over_api
    table[f"{_COPIES}, paper"] = paper.memcpy_share
    table = selection.in_order(table.rename_axis("workload").reset_index())
    return table.reset_index(drop=True)


def _seconds(ops: pd.DataFrame) -> pd.Series:
    return ops.groupby("workload").seconds.sum()


def api_calls(calls: pd.DataFrame) -> pd.DataFrame:
    """Returns the calls of the driver and the runtime, in decreasing order of time.

    Returns:
        ``workload``, ``call``, mean ``count`` and ``seconds`` of a process, and their ``share`` of
        the time of all calls, from 0 to 1.
    """
    table = calls.groupby(["workload", "call"])[["count", "seconds"]].sum()
    table = table.div(calls.groupby("workload").run.nunique(), level=0, axis=0).reset_index()
    table = table.sort_values("seconds", ascending=False, kind="stable")
    table["share"] = table.seconds / table.groupby("workload").seconds.transform("sum")
    return selection.in_order(table)


def ops_on_cpu(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the op types that ran on the CPU in profiles on a GPU, in decreasing order of time.

    Returns:
        ``workload``, ``type``, ``seconds`` a step and ``share`` of the time of all ops, on the CPU
        and the GPU, from 0 to 1.
    """
    steps, total = tables.steps(ops), _seconds(ops)
    table = ops[ops.on == "cpu"].groupby(["workload", "type"], as_index=False).seconds.sum()
    table["share"] = table.seconds / table.workload.map(total)
    table["seconds"] /= table.workload.map(steps)
    return selection.in_order(table.sort_values("share", ascending=False, kind="stable"))


def summary(table: pd.DataFrame, measured: bool) -> str:
    """Summarizes the ratios in a sentence."""
    if not measured:
        return "Nothing was measured on a GPU: the figures are the paper's."
    if table[_COPIES].isna().all():
        return "The GPU ran no kernels."
    if table[_KERNELS].isna().all():
        known = listed(table.set_index("workload")[[_COPIES]], ".2f")
        return f"The profiler recorded no launches. Time in copies over time in kernels: {known}."
    known = listed(table.set_index("workload")[[_KERNELS, "from", "to"]], ".2f")
    return f"Time in kernels over the time of API calls: {known}."


def draw(table: pd.DataFrame, measured: bool) -> style.Plot:
    """Draws the two ratios of each workload and of the paper, or only the paper's."""
    rows = np.arange(len(table))
    titles = {_KERNELS: "kernel time over API call time", _COPIES: "copy time over kernel time"}
    names, height = list(titles.values()), 1.4 + 0.3 * len(rows)
    with style.panels(names, columns=2, width=4, height=height) as (figure, both):
        for axes, column in zip(both, titles, strict=True):
            if measured:
                axes.plot(table[column], rows, "o", color=style.BLUE, label="measured")
            axes.plot(table[f"{column}, paper"], rows, "kD", mfc="white", label="Minsky, Table 1")
            axes.set_xscale("log")
            axes.set_xlabel("ratio")
            axes.grid()
            style.name_rows(axes, list(table.workload))
        style.legend_above(figure, columns=2)
    return figure


def _analyse(folder: Folder) -> Findings:
    profiles = selection.profiles(folder, "gpu")
    there = profiles.workload[profiles.kernel_s.notna()]
    ops, calls = selection.ops_of(folder, profiles), folder.api_calls()
    table = gpu_use(profiles, ops)
    gaps, others = ["no profile was taken on a GPU"], {}
    if len(there):
        wanted = selection.profile_runs(folder, "gpu")
        gaps = selection.gaps(wanted, there, "its profiles have no times of the GPU")
        recorded = profiles.run[profiles.process_api_s.notna()]
        others["api_calls"] = api_calls(calls[calls.run.isin(recorded)])
        others["ops_on_cpu"] = ops_on_cpu(ops)
    found, plot = summary(table, bool(len(there))), draw(table, bool(len(there)))
    caveats = selection.caveats(profiles) if len(there) else ""
    return Findings(f"{found}{caveats}", plot, table, others, gaps)


FIGURE = Figure(
    id="M-gpu",
    order=35,
    title="GPU efficiency",
    meaning="Time in kernels over time in calls to the driver and the runtime, and time in copies "
    "over time in kernels, of training profiles on a GPU: drawn for the whole process from the "
    "set-up of the network on, as in the paper; the table also has the profiled steps alone, and "
    "the share of the op time in ops that ran on the CPU: those without a GPU kernel, and those "
    "that handle shapes and control flow. Other tables list the API calls and these op types.",
    paper="Minsky, Table 1, one P100: next to ours, or alone without a GPU; without speech.",
    analyse=_analyse,
)
