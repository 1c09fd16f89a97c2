"""Scaling of distributed training, measured and predicted from the bytes of the gradients."""

import numpy as np
import pandas as pd

from fathom.hardware.accelerators.scaling import step_seconds
from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.distribution import ring_bytes

_CASE = ["workload", "workers", "threads", "batch_size"]
_MEASURED = ["examples_per_second", "collective_share", "waiting_s", "gradient_bytes"]
_LOOKS = {
    "strong": (style.BLUE, "o", "shared batch"),
    "weak": (style.ORANGE, "D", "batch each"),
    "threads": (style.GREY, "s", "threads"),
}


def scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Compares trainings on several workers, and on several threads, with one of one thread.

    Args:
        runs: completed timings of the set ``scaling``, from ``Folder.runs_frame``; medians count
            where several are equal.

    Returns:
        ``workload``; ``scaling``: ``strong`` (the workers share the batch), ``weak`` (a batch for
        each worker) or ``threads`` (of one worker); ``workers``; ``threads`` of each; ``batch
        size`` of all together; ``runs``; ``examples/s``; ``efficiency``, the rate per worker or
        thread over that of one; ``predicted`` efficiency, missing for threads; ``share in sums`` of
        the step; ``waiting (ms)`` of the fastest worker; ``gradients (MB)``; ``link (MB/s)``.
        Without a training on one worker of one thread a workload is left out.
    """
    groups = runs.dropna(subset="workers").groupby(_CASE, sort=False)
    table = groups[[*_MEASURED, "link_bytes_per_second"]].median().astype(float)
    table.insert(0, "runs", groups.size())
    table = table.reset_index()
    alone = table[(table.workers == 1) & (table.threads == 1)]
    rows = [
        row
        for _, base in alone.iterrows()
        for _, each in table[table.workload == base.workload].iterrows()
        if (row := _compared(base, each))
    ]
    columns = ["workload", "scaling", "workers", "threads", "batch size"]
    frame = pd.DataFrame(rows)
    return selection.in_order(frame.sort_values(columns)) if rows else frame


def _compared(base: pd.Series, each: pd.Series) -> dict[str, object] | None:
    """Returns the row of a case beside that of one worker; None if they are not comparable."""
    workers, units = int(each.workers), int(each.workers * each.threads)
    if units == 1 or (workers > 1 and each.threads > 1):
        return None
    if each.batch_size == base.batch_size:
        kind = "threads" if workers == 1 else "strong"
    elif each.batch_size == base.batch_size * workers:
        kind = "weak"
    else:
        return None
    return {
        "workload": base.workload,
        "scaling": kind,
        "workers": workers,
        "threads": int(each.threads),
        "batch size": int(each.batch_size),
        "runs": int(each.runs),
        "examples/s": each.examples_per_second,
        "efficiency": each.examples_per_second / (units * base.examples_per_second),
        "predicted": np.nan if kind == "threads" else predicted(base, each, kind),
        "share in sums": each.collective_share,
        "waiting (ms)": 1e3 * each.waiting_s,
        "gradients (MB)": each.gradient_bytes / 1e6,
        "link (MB/s)": each.link_bytes_per_second / 1e6,
    }


def predicted(base: pd.Series, each: pd.Series, kind: str) -> float:
    """Returns the efficiency that ``fathom scale`` would predict, with nothing hidden.

    From the measured step of one worker, and the gradients in a ring over the measured link.
    """
    alone = base.batch_size / base.examples_per_second
    compute = alone / each.workers if kind == "strong" else alone
    sent = ring_bytes(each.gradient_bytes, int(each.workers))
    return compute / step_seconds(compute, sent / each.link_bytes_per_second)


def summary(table: pd.DataFrame) -> str:
    """States efficiency and prediction on the most workers of each workload."""
    found = []
    for (workload, kind), each in table.groupby(["workload", "scaling"], sort=False):
        most = each.iloc[each["workers"].mul(each["threads"]).argmax()]
        if kind == "threads":
            found.append(f"{workload}, {most.threads} threads: {most.efficiency:.0%}")
            continue
        found.append(
            f"{workload}, {kind}, {most.workers} workers: {most.efficiency:.0%} (predicted "
            f"{most.predicted:.0%}), {most['share in sums']:.0%} of the step in sums"
        )
    return f"Rate per worker or thread over that of one: {'; '.join(found)}."


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws measured and predicted efficiency by the number of workers, for each workload."""
    names = list(table.workload.unique())
    with style.panels(names, columns=2, width=4, height=2.8) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            for kind, each in table[table.workload == name].groupby("scaling", sort=False):
                _draw_kind(panel, each, str(kind))
            panel.set_ylim(0, None)
            panel.grid(axis="y")
        figure.supxlabel("workers, or threads", fontsize=9)
        figure.supylabel("rate of each over that of one", fontsize=9)
        style.legend_above(figure, columns=2)
    return figure


def _draw_kind(panel: style.Panel, table: pd.DataFrame, kind: str) -> None:
    units = [1, *(table.workers * table.threads)]
    colour, marker, label = _LOOKS[kind]
    rates = [1, *table.efficiency]
    panel.plot(units, rates, color=colour, marker=marker, label=label, linewidth=1, markersize=4)
    panel.set_xticks(sorted({*panel.get_xticks(minor=False), *units} & set(range(1, 1025))))
    if kind != "threads":
        text = f"{label}, predicted"
        panel.plot(units, [1, *table.predicted], "--", label=text, linewidth=1, color=colour)


def _analyse(folder: Folder) -> Findings:
    wanted = selection.timing_runs(folder, "scaling")
    if wanted.empty:
        return Findings(gaps=["no distributed training: fathom characterize --workers makes some"])
    table = scaling(selection.timings(folder, "scaling"))
    there = table.workload.unique() if len(table) else ()
    gaps = selection.gaps(wanted, there, "no training on one worker, or none on several")
    if table.empty:
        return Findings(gaps=gaps)
    return Findings(summary(table), draw(table), table, gaps=gaps)


FIGURE = Figure(
    id="M-scale",
    order=34,
    title="Distributed training",
    meaning="Rate of each worker over that of one worker of one thread, medians of equal runs, "
    "input excluded: strong scaling, in which the workers share a batch; weak scaling, in which "
    "each of them has one; and threads of one worker. Predicted: the step of one worker, divided, "
    "and 2 (n - 1) / n of the bytes of the gradients over the measured bandwidth of the link, none "
    "of it hidden, as by fathom scale.",
    paper="Drumond et al., II-B and figure 3, argue from bytes of gradients; neither "
    "Fathom paper distributes training.",
    analyse=_analyse,
)
