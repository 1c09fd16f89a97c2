"""Figure 6 of the Fathom paper: the effect of intra-op parallelism on each op type."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fathom.measure.profile import tables
from fathom.measure.report import intervals, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import Interval
from fathom.measure.runs.folder import Folder
from fathom.system.words import counted

_HEAVIEST = 7  # op types shown per workload
_LAYERS_NAMED = 3


def scaling(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares the most expensive op types of each workload by the number of threads.

    The types shown have the largest share of the time at any number of threads, so that types that
    emerge with more threads are included; they are sorted by their time with the fewest threads.

    Args:
        ops: profiles from ``Folder.ops``, one or several equal ones per workload and number of
            threads; workloads with a single number of threads are left out.

    Returns:
        ``workload``; ``op type``; ``role``, the layers that take most of its time; ``threads``;
        ``time per step (s)``, the mean over the processes, and ``from`` and ``to``, the limits of
        its 95 % interval between processes; ``share of time in ops``, from 0 to 1.
    """
    tables_of = [_scaling(each) for each in _several(ops)]
    return pd.concat(tables_of, ignore_index=True) if tables_of else pd.DataFrame({"workload": []})


def changes(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares the same op types on the fewest and the most threads.

    Returns:
        ``workload``; ``op type``; ``threads``, the fewest, and ``to threads``; ``times as fast``,
        the ratio of the geometric mean times, and the limits ``from`` and ``to`` of its 95 %
        interval between processes; ``share`` and ``then``, of the time in ops, and ``change``,
        their difference, with the limits ``change from`` and ``change to``.
    """
    return pd.DataFrame([row for each in _several(ops) for row in _changes(each)])


def _several(ops: pd.DataFrame) -> list[pd.DataFrame]:
    """Returns the op times of each workload with several numbers of threads."""
    groups = [each for _, each in ops.groupby("workload", sort=False)]
    return [each for each in groups if each.threads.nunique() > 1]


def _by_threads(ops: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Returns one workload's times per step by type and process, for each number of threads."""
    types = sorted(ops.type.unique())
    return {
        int(each.threads.iloc[0]): tables.by_process(each).reindex(types, fill_value=0.0)
        for _, each in ops.groupby("threads")
    }


def _order(seconds: Mapping[int, pd.DataFrame]) -> list[str]:
    """Returns the types to show in decreasing order of their time with the fewest threads."""
    shares = pd.concat(
        [(each / each.sum()).mean(axis=1).rename(threads) for threads, each in seconds.items()],
        axis=1,
    )
    shown = shares.max(axis=1).sort_values(ascending=False, kind="stable").index[:_HEAVIEST]
    fewest = seconds[min(seconds)].mean(axis=1)[shown].sort_index()
    return list(fewest.sort_values(ascending=False, kind="stable").index)


def _scaling(ops: pd.DataFrame) -> pd.DataFrame:
    """Compares one workload's op types."""
    seconds, rows = _by_threads(ops), []
    for op_type in _order(seconds):
        role = _role(ops[ops.type == op_type])
        for threads, each in seconds.items():
            time = intervals.mean(each.loc[op_type].to_numpy()).clipped(0, np.inf)
            rows.append(
                {
                    "workload": ops.workload.iloc[0],
                    "op type": op_type,
                    "role": role,
                    "threads": threads,
                    **time.columns("time per step (s)"),
                    "share of time in ops": (each / each.sum()).loc[op_type].mean(),
                }
            )
    return pd.DataFrame(rows)


def _changes(ops: pd.DataFrame) -> list[dict[str, object]]:
    """Returns the rows of ``changes`` of one workload."""
    seconds = _by_threads(ops)
    few, many = seconds[min(seconds)], seconds[max(seconds)]
    return [
        _change(few.loc[op_type], many.loc[op_type], few.sum(), many.sum())
        | {"workload": ops.workload.iloc[0], "op type": op_type}
        | {"threads": min(seconds), "to threads": max(seconds)}
        for op_type in _order(seconds)
    ]


def _change(
    few: pd.Series, many: pd.Series, all_few: pd.Series, all_many: pd.Series
) -> dict[str, object]:
    """Compares one type's times by process, given those of all ops."""
    shares = [(part / whole).to_numpy() for part, whole in ((few, all_few), (many, all_many))]
    (change,) = intervals.combine([s[np.newaxis] for s in shares], lambda a, b: b[0] - a[0])
    return {
        **intervals.ratio(few.to_numpy(), many.to_numpy()).columns("times as fast"),
        "share": shares[0].mean(),
        "then": shares[1].mean(),
        **change.columns("change", "change "),
    }


def _role(ops: pd.DataFrame) -> str:
    """Returns the layers that take most of a type's time, in decreasing order."""
    layers = tables.heaviest(ops, "layer")
    more = ", ..." if len(layers) > _LAYERS_NAMED else ""
    return ", ".join(layers[:_LAYERS_NAMED]) + more


def summary(table: pd.DataFrame) -> str:
    """Summarizes the effect of more threads for each workload, from ``changes``."""
    return " ".join(
        _sentence(str(workload), each) for workload, each in table.groupby("workload", sort=False)
    )


def _sentence(workload: str, table: pd.DataFrame) -> str:
    heaviest, grown = table.iloc[0], table.iloc[table.change.argmax()]
    faster = Interval(*heaviest[["times as fast", "from", "to"]])
    more = Interval(*(100 * grown[["change", "change from", "change to"]]))
    parts = []
    if not np.isnan(faster.value):
        parts = [f"{heaviest['op type']} {faster.text('.2f')} times as fast{_noise(faster, 1)}"]
    parts.append(
        f"the share of {grown['op type']} {grown.share:.1%}, then {grown.then:.1%}, a difference "
        f"of {more.text('.1f')} points{_noise(more, 0)}"
    )
    threads = f"from {heaviest.threads} to {heaviest['to threads']} threads"
    return f"{workload}, {threads}: {'; '.join(parts)}."


def _noise(interval: Interval, equal: float) -> str:
    within = interval.known and not interval.excludes(equal)
    return " (within the noise)" if within else ""


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the absolute time of each op type by threads, with the layers that use it."""
    import matplotlib

    numbers = sorted(table.threads.unique())
    colours = matplotlib.colormaps["cividis"](np.linspace(0.25, 0.9, len(numbers)))
    names = list(table.workload.unique())
    with style.panels(names, columns=2, width=4.8, height=3) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            mine = table[table.workload == name]
            roles = mine.drop_duplicates("op type")
            height = 0.8 / mine.threads.nunique()
            rows = np.arange(len(roles))
            for j, (threads, each) in enumerate(mine.groupby("threads")):
                look = numbers.index(threads)
                panel.barh(
                    rows + (j - (mine.threads.nunique() - 1) / 2) * height,
                    1e3 * each["time per step (s)"],
                    height=height,
                    color=colours[look],
                    edgecolor="white",
                    hatch=style.HATCHES[look % len(style.HATCHES)],
                    label=counted(threads, "thread"),
                )
            labels = [
                f"{op_type}\n{style.shortened(role, 28)}"
                for op_type, role in zip(roles["op type"], roles.role, strict=True)
            ]
            panel.set_yticks(rows, labels, fontsize=7.5)
            panel.invert_yaxis()
            panel.grid(axis="x")
            panel.set_xlabel("time per step (ms)")
        style.legend_above(figure, columns=4)
    return figure


def _analyse(folder: Folder) -> Findings:
    profiles = selection.profiles(folder)
    ops = selection.ops_of(folder, profiles)
    table = scaling(ops)
    one = "profiled with a single number of threads"
    gaps = selection.gaps(selection.profile_runs(folder), table.workload.unique(), one)
    if table.empty:
        return Findings(gaps=[*gaps, "profiles with at least two numbers of threads are needed"])
    compared = changes(ops)
    profiles = profiles[profiles.workload.isin(table.workload)]
    found = f"{summary(compared)}{selection.caveats(profiles, 'threads')}"
    return Findings(found, draw(table), table, {"changes": compared}, gaps)


FIGURE = Figure(
    id="F6",
    order=31,
    title="Intra-op parallelism",
    meaning="Mean time per step of the most expensive op types, by the number of intra-op threads. "
    "Intervals are between processes. "
    "Below each type are the layers in which it takes most of its time.",
    paper="Fathom, Figure 6, pictures of deepq, seq2seq and memnet without numbers: types that "
    "scale diminish and others emerge; deepq's optimizer rises to about 7 % at 8 threads.",
    analyse=_analyse,
)
