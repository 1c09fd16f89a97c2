"""Op times by the paper's op types and by layer."""

import pandas as pd

from fathom.results.profile import PHASES


def op_types(ops: pd.DataFrame) -> pd.DataFrame:
    """Returns the op types of each workload, in decreasing order of time.

    Args:
        ops: one profile per workload, from ``frames.profile_ops``.

    Returns:
        ``workload``; ``type`` and ``class``, the paper's; ``kernels``, the types named by
        TensorFlow's profiler, in decreasing order of time; ``seconds``, mean self time per step;
        ``share`` of the time of all ops and ``cumulative_share``, from 0 to 1; ``count``,
        occurrences per step.
    """
    keys = ["workload", "type"]
    table = ops.groupby(keys).agg({"class": "first", "seconds": "sum", "count": "sum"})
    steps = ops.groupby("workload").step.nunique()
    table[["seconds", "count"]] = table[["seconds", "count"]].div(steps, level=0, axis=0)
    by_kernel = ops.groupby([*keys, "kernel"]).seconds.sum().sort_values(ascending=False)
    table["kernels"] = by_kernel.reset_index("kernel").groupby(keys).kernel.agg(" ".join)
    table = table.reset_index().sort_values(["seconds", "type"], ascending=[False, True])
    seconds = table.groupby("workload").seconds
    table["share"] = (table.seconds / seconds.transform("sum")).fillna(0.0)
    table["cumulative_share"] = table.groupby("workload").share.cumsum()
    columns = [*keys, "class", "kernels", "seconds", "share", "cumulative_share", "count"]
    return _in_order(table[columns], ops)


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

    Args:
        ops: one profile per workload, from ``frames.profile_ops``.

    Returns:
        ``workload``, ``layer``; mean self time per step in each of ``PHASES``, in seconds;
        ``share`` of the time of all ops, from 0 to 1.
    """
    steps = ops.groupby("workload").step.nunique()
    table = ops.pivot_table("seconds", ["workload", "layer"], "phase", "sum", fill_value=0.0)
    table = table.reindex(columns=list(PHASES), fill_value=0.0).div(steps, level=0, axis=0)
    total = table.sum(axis=1)
    table["share"] = (total / total.groupby("workload").transform("sum")).fillna(0.0)
    table = table.reset_index().rename_axis(columns=None)
    return _in_order(table.sort_values("share", ascending=False, kind="stable"), ops)


def _in_order(table: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Sorts a table's workloads as in the op times; keeps the order of other columns."""
    place = {workload: i for i, workload in enumerate(ops.workload.unique())}
    by_place = table.sort_values("workload", key=lambda names: names.map(place), kind="stable")
    return by_place.reset_index(drop=True)
