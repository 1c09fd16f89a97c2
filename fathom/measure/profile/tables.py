"""Op times by the paper's op types and by layer, and beside the least that a machine allows.

``ops`` are one or several equal profiles per workload, from ``frames.profile_ops``.
"""

import numpy as np
import pandas as pd

from fathom.results.profile import PHASES

NEAR = 1.5  # times the attainable time
_LEAST_SHARE = 0.01  # of a workload's time in ops


def op_types(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the op types of each workload, in decreasing order of time.

    Returns:
        ``workload``; ``type`` and ``class``, the paper's; ``kernels``, the types named by
        TensorFlow's profiler, in decreasing order of time; ``seconds``, mean self time per step;
        ``share`` of the time of all ops and ``cumulative_share``, from 0 to 1, means over the
        profiles; ``count``, occurrences per step; ``dominated``, whether an occurrence is on
        average shorter than the cost of tracing it, so that its time is not to be relied on.
    """
    keys = ["workload", "type"]
    columns = {"class": "first", "seconds": "sum", "count": "sum", "tracing": "mean"}
    table = ops.groupby(keys).agg(columns)
    table[["seconds", "count"]] = table[["seconds", "count"]].div(steps(ops), level=0, axis=0)
    table["share"] = _mean_shares(ops, "type")
    by_kernel = ops.groupby([*keys, "kernel"]).seconds.sum().sort_values(ascending=False)
    table["kernels"] = by_kernel.reset_index("kernel").groupby(keys).kernel.agg(" ".join)
    table = table.reset_index().sort_values(["share", "type"], ascending=[False, True])
    table["cumulative_share"] = table.groupby("workload").share.cumsum()
    table["dominated"] = table.seconds < table["count"] * table.tracing.fillna(0.0)
    shown = [*keys, "class", "kernels", "seconds", "share", "cumulative_share", "count"]
    return _in_order(table[[*shown, "dominated"]], ops)


def under_roofs(
    ops: pd.DataFrame, work: pd.DataFrame, peak: float, bandwidth: float
) -> pd.DataFrame:
    """Relates the time of ops to the least that the machine allows.

    Args:
        ops: one profile per workload, from ``Folder.ops``.
        work: of the same profiles, from ``Folder.work``.
        peak: FLOP/s of a large matrix product.
        bandwidth: bytes/s of the memory.

    Returns:
        one row per workload, type, layer and phase with at least 1 % of the time in ops: share of
        it, seconds per step, flops, bytes, intensity (FLOPs per byte), rate (FLOP/s), bound
        (``compute`` or ``memory``), attainable time and how many times that the op takes.
    """
    keys = ["workload", "type", "layer", "phase"]
    seconds = ops.groupby(keys, sort=False).seconds.sum().div(steps(ops), level=0)
    table = seconds.rename("seconds").reset_index()
    table["share"] = table.seconds / table.groupby("workload").seconds.transform("sum")
    done = work.groupby(keys)[["flops", "bytes"]].sum().reset_index()
    table = table[table.share >= _LEAST_SHARE].merge(done, "left", keys)
    table["intensity"] = table.flops / table["bytes"]
    table["rate"] = table.flops / table.seconds
    computing, moving = table.flops / peak, table["bytes"] / bandwidth
    table["bound"] = np.where(computing >= moving, "compute", "memory")
    table["attainable"] = np.maximum(computing, moving)
    table["times"] = table.seconds / table.attainable
    return table.sort_values("seconds", ascending=False, ignore_index=True)


def steps(ops: pd.DataFrame) -> pd.Series:
    """Returns the number of profiled steps of each workload, in all its profiles."""
    return ops.groupby(["workload", "run"]).step.nunique().groupby("workload").sum()


def by_process(ops: pd.DataFrame, column: str = "type") -> pd.DataFrame:
    """Returns the mean self time per step of one workload, in seconds.

    Returns:
        one row per value of the column, one column per profile; 0 where it has no such op.
    """
    seconds = ops.pivot_table("seconds", column, "run", "sum", fill_value=0.0)
    return seconds / ops.groupby("run").step.nunique()


def shares_by_process(ops: pd.DataFrame, column: str = "type") -> pd.DataFrame:
    """Returns the shares in the time of all ops, from 0 to 1, like ``by_process``."""
    seconds = by_process(ops, column)
    return (seconds / seconds.sum()).fillna(0.0)


def _mean_shares(ops: pd.DataFrame, column: str) -> pd.Series:
    """Returns the mean share over the profiles by workload and value of the column."""
    shares = {
        workload: shares_by_process(each, column).mean(axis=1)
        for workload, each in ops.groupby("workload")
    }
    return pd.concat(shares) if shares else pd.Series(dtype=float)


def heaviest(ops: pd.DataFrame, column: str) -> list[str]:
    """Returns the values of a column in decreasing order of time."""
    seconds = ops.groupby(column).seconds.sum()
    return list(seconds.sort_values(ascending=False, kind="stable").index)


def shares(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the share of each op type in the time of all ops, from 0 to 1.

    Returns:
        one row per workload, one column per type; 0 for missing types.
    """
    table = op_types(ops)
    wide = table.pivot(index="workload", columns="type", values="share").fillna(0.0)
    return wide.loc[table.workload.unique(), table.type.unique()]


def layers(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the layers and roles of each workload, in decreasing order of time.

    Returns:
        ``workload``, ``layer``; mean self time per step in each of ``PHASES``, in seconds;
        ``share`` of the time of all ops, from 0 to 1.
    """
    table = ops.pivot_table("seconds", ["workload", "layer"], "phase", "sum", fill_value=0.0)
    table = table.reindex(columns=list(PHASES), fill_value=0.0).div(steps(ops), level=0, axis=0)
    table["share"] = _mean_shares(ops, "layer")
    table = table.reset_index().rename_axis(columns=None)
    return _in_order(table.sort_values("share", ascending=False, kind="stable"), ops)


def _in_order(table: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Sorts a table's workloads as in the op times; keeps the order of other columns."""
    place = {workload: i for i, workload in enumerate(ops.workload.unique())}
    by_place = table.sort_values("workload", key=lambda names: names.map(place), kind="stable")
    return by_place.reset_index(drop=True)
