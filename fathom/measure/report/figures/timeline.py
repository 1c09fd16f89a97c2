"""A timeline of one step of each workload, op by op: an analysis of our own."""

import pandas as pd

from fathom.hardware.description.ops import op_class, paper_type
from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.profile import Profile

_START, _TIME = "start (ms)", "time (ms)"
_SHORTEST = 0.002  # of the step, of an op that is drawn by itself


def ops_of_step(profile: Profile) -> pd.DataFrame:
    """Returns one row per op of the profile's step of median time, in the order of their starts.

    Returns:
        ``workload``, ``step``, ``thread``, ``op type``, ``kernel``, ``layer``, ``phase``, and start
        and time in milliseconds.
    """
    line = profile.timeline
    assert line is not None
    ops = [profile.ops[i] for i in line.op]
    return pd.DataFrame(
        {
            "workload": profile.workload,
            "step": line.step,
            "thread": [line.threads[i] for i in line.thread],
            "op type": [paper_type(op.type) for op in ops],
            "kernel": [op.type for op in ops],
            "layer": [op.layer for op in ops],
            "phase": [op.phase for op in ops],
            _START: 1e3 * line.start_seconds,
            _TIME: 1e3 * line.seconds,
        }
    )


def merged(ops: pd.DataFrame, step_ms: float) -> pd.DataFrame:
    """Merges short ops that follow each other on a thread into one row, whose type says how many.

    Args:
        ops: of one workload, from ``ops_of_step``.
        step_ms: time of the step; ops shorter than 0.2 % of it are short.
    """
    ops = ops.sort_values(["thread", _START], kind="stable")
    short = ops[_TIME] < _SHORTEST * step_ms
    gap = ops[_START] - (ops[_START] + ops[_TIME]).shift() > _SHORTEST * step_ms
    first = ~short | ~short.shift(fill_value=False) | gap | (ops.thread != ops.thread.shift())
    groups = ops.assign(end=ops[_START] + ops[_TIME]).groupby(first.cumsum(), sort=False)
    rows = groups.agg(dict.fromkeys(ops, "first") | {"end": "max"})
    sizes = groups.size()
    rows["op type"] = rows["op type"].where(sizes == 1, sizes.astype(str) + " short ops")
    for name in ("kernel", "layer", "phase"):
        rows[name] = groups[name].agg(lambda values: " ".join(dict.fromkeys(values)))
    return rows.assign(**{_TIME: rows.end - rows[_START]}).drop(columns="end")


def summary(ops: pd.DataFrame, lengths: dict[str, float]) -> str:
    """Says in a sentence how many ops a step has and how long it takes."""
    counts = ops.groupby("workload", sort=False).size()
    listed = (f"{name} {n:,} ops in {lengths[str(name)]:.3g} ms" for name, n in counts.items())
    return f"The step of median time, with the profiler on: {', '.join(listed)}."


def draw(rows: pd.DataFrame, lengths: dict[str, float]) -> style.Plot:
    """Draws the rows of ``merged``, a line for each thread; blank where no op ran.

    Args:
        rows: of one or several workloads.
        lengths: time of each workload's step in milliseconds.
    """
    steps = rows.drop_duplicates("workload").set_index("workload").step
    titles = [f"{name}, step {step}" for name, step in steps.items()]
    with style.panels(titles, columns=1, width=style.WIDTH, height=1.25) as (figure, axes):
        for (name, mine), panel in zip(rows.groupby("workload", sort=False), axes, strict=True):
            _draw_step(panel, mine, lengths[str(name)])
        style.legend_of_classes(figure, map(op_class, rows["op type"]))
    return figure


def _draw_step(panel: style.Panel, rows: pd.DataFrame, step_ms: float) -> None:
    start = rows[_START].map(", from {:.3g} ms".format)
    label = rows["op type"] + " of " + rows.layer + ", " + rows.phase + start
    parts = pd.DataFrame(
        {
            "start": rows[_START],
            "length": rows[_TIME],
            "name": rows["op type"],
            "letter": rows["op type"].map(op_class),
            "label": label,
        }
    )
    threads = list(rows.thread.unique())
    for number, thread in enumerate(threads):
        style.slices(panel, number, parts[rows.thread == thread], step_ms)
    style.name_rows(panel, [f"thread {i + 1}" for i in range(len(threads))])
    panel.set_xlim(0, step_ms)
    panel.set_xlabel(_TIME)


def _analyse(folder: Folder) -> Findings:
    runs = selection.training_profiles(folder).drop_duplicates("workload")
    wanted = selection.profile_runs(folder)
    by_id = {run.id: run.profile for run in folder.runs}
    profiles = [p for p in map(by_id.get, runs.run) if p and p.timeline]
    there = [profile.workload for profile in profiles]
    gaps = selection.gaps(wanted, there, "profiled by an earlier version, without a timeline")
    if not profiles:
        return Findings(gaps=gaps)
    lengths = {p.workload: 1e3 * p.step_seconds[p.timeline.step] for p in profiles if p.timeline}
    ops = pd.concat([ops_of_step(profile) for profile in profiles], ignore_index=True)
    each = ops.groupby("workload", sort=False)
    rows = pd.concat([merged(mine, lengths[str(name)]) for name, mine in each], ignore_index=True)
    return Findings(summary(ops, lengths), draw(rows, lengths), rows, gaps=gaps)


FIGURE = Figure(
    id="timeline",
    order=4,
    title="A step, op by op",
    meaning="When each op of the profiled step of median time ran, on which thread, in the colours "
    "of the classes of op types; blank is time outside ops. Ops that take less than 0.2 % of the "
    "step and follow each other are one grey slice. profile --out writes all steps for Perfetto.",
    analyse=_analyse,
)
