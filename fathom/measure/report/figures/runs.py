"""Step time, throughput, input wait, memory and FLOP/s of every run: an analysis of our own."""

import numpy as np
import pandas as pd

from fathom.measure.frames import GENERATION
from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import of_median, ratio
from fathom.measure.runs.folder import Folder

_CASE = ["workload", "mode", "device", "workers", "cores", "threads", "batch size"]
_STEP = "step (ms)"
_MEASURED = [_STEP, "from", "to", "examples/s", "input wait (ms)", "peak memory (MiB)", "GFLOP/s"]
_ENERGY = ["J/step", "GFLOP/J"]


def every_run(runs: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run; the steps are of the same runs, from ``Folder.steps``.

    Returns:
        workload, mode, device, workers where there are several, cores, threads, repeat, batch size;
        the median step time without
        input, and the limits of its 95 % interval from the steps, missing with too few; examples
        per second at that time; mean wait of a step for its input; peak resident memory of the
        process; achieved GFLOP/s; joules a step and GFLOP a joule, where a run has measured them;
        whether other processes disturbed it; its program, where batches are divided or programs
        differ within a workload and mode on a device.
    """
    steps = steps[steps.counted.astype(bool)]
    calls = steps.groupby(["run", "call"], sort=False).seconds.sum()  # timed as a whole
    lengths = steps.groupby(["run", "call"], sort=False).size()
    limits = {run: of_median(each.to_numpy()) for run, each in (calls / lengths).groupby("run")}
    low, high = (runs.run.map({run: each[i] for run, each in limits.items()}) for i in (0, 1))
    table = pd.DataFrame(
        {
            "workload": runs.workload,
            "mode": runs["mode"],
            "device": runs.on,
            "workers": runs.workers,
            "cores": runs.cores,
            "threads": runs.threads,
            "repeat": runs.repeat,
            "batch size": runs.batch_size,
            _STEP: 1e3 * runs.median_s.astype(float),
            "from": 1e3 * low,
            "to": 1e3 * high,
            "examples/s": runs.examples_per_second.astype(float),
            "input wait (ms)": 1e3 * runs.run.map(steps.groupby("run").input_wait.mean()),
            "peak memory (MiB)": runs.peak_resident_bytes.astype(float) / 2**20,
            "GFLOP/s": runs.flops_per_second.astype(float) / 1e9,
            "J/step": runs.joules_per_step.astype(float),
            "GFLOP/J": runs.flops_per_joule.astype(float) / 1e9,
            "disturbed": runs.disturbed.eq(True),
            programs.PROGRAM: programs.of(runs),
        }
    ).reset_index(drop=True)
    table = programs.drop_if_uniform(table, ["workload", "mode", "device"])
    table = table if table.workers.notna().any() else table.drop(columns="workers")
    return table if table[_ENERGY].notna().any(axis=None) else table.drop(columns=_ENERGY)


def cases(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the means of equal runs.

    That of the step time is geometric, with its 95 % interval between runs (Student's, of the
    logarithms).

    Returns:
        one row per workload, mode, device, workers, cores, threads, batch size and program; no
        interval with one run.
    """
    case = [name for name in (*_CASE, programs.PROGRAM) if name in table]
    groups = table.groupby(case, sort=False, dropna=False)
    measured = [name for name in (*_MEASURED, *_ENERGY) if name in table]
    means, runs = groups[measured].mean(), groups.size()
    steps = [ratio(each.to_numpy(), np.ones(len(each))) for _, each in groups[_STEP]]
    means[[_STEP, "from", "to"]] = [[each.value, each.low, each.high] for each in steps]
    means.insert(0, "runs", runs)
    return means.reset_index()


def generations(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the phases of inference that generates token by token.

    Returns:
        one row per workload, device, threads and batch size with such runs, means of equal ones:
        tokens per second of prefill and of decode, milliseconds to the first token and for each
        after it, MiB of the cache.
    """
    there = runs.dropna(subset="cache_bytes")
    by = [there.workload, there.on.rename("device"), there.threads, there.batch_size]
    means = there[list(GENERATION)].astype(float).groupby(by, sort=False, dropna=False).mean()
    return pd.DataFrame(
        {
            "prefill (tokens/s)": means.prefill_tokens_per_second,
            "first token (ms)": 1e3 * means.seconds_to_first_token,
            "decode (tokens/s)": means.decode_tokens_per_second,
            "per output token (ms)": 1e3 * means.seconds_per_output_token,
            "cache (MiB)": means.cache_bytes / 2**20,
        }
    ).reset_index()


def summary(table: pd.DataFrame) -> str:
    """Summarizes the step times in a sentence."""
    ends = (table.iloc[table[_STEP].argmin()], table.iloc[table[_STEP].argmax()])
    least, most = (
        f"{row[_STEP]:{',.0f' if row[_STEP] >= 100 else '.3g'}} ms ({row.workload}, {row['mode']})"
        for row in ends
    )
    return f"{len(table)} timing runs: the median steps take from {least} to {most}."


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the step time of each run with its interval."""
    rows = table.workload + np.where(table.device == "gpu", ", GPU", "")
    names = list(rows.unique())
    with style.single(1.3 + 0.35 * len(names)) as (figure, axes):
        for j, (mode, color) in enumerate((("train", style.BLUE), ("infer", style.ORANGE))):
            mine = table[table["mode"] == mode]
            equal = mine.groupby(["workload", "device"])
            spread = 0.3 * equal.cumcount() / equal.workload.transform("size")
            below = np.minimum(mine[_STEP] - mine["from"], 0.99 * mine[_STEP])  # no zero is drawn
            axes.errorbar(
                mine[_STEP],
                rows[mine.index].map(names.index) + 0.4 * j - 0.35 + spread,
                xerr=np.stack([below, mine["to"] - mine[_STEP]]),
                linestyle="none",
                marker=style.MARKERS[j],
                markersize=4,
                linewidth=0.8,
                color=color,
                label="training" if mode == "train" else "inference",
            )
        style.scale_by_logarithm(axes, "x")
        style.name_rows(axes, names)
        axes.set_xlabel(_STEP)
        axes.grid(axis="x")
        style.legend_above(figure, columns=2)
    return figure


def _analyse(folder: Folder) -> Findings:
    runs = folder.runs_frame()
    done = selection.in_order(runs[(runs.kind == "timing") & (runs.status == "done")])
    table = every_run(done.dropna(subset="median_s"), folder.steps())
    wanted = runs[runs.kind == "timing"]
    gaps = selection.gaps(wanted, table.workload.unique(), selection.UNCOUNTED)
    if table.empty:
        return Findings(gaps=gaps)
    on_all_cores = table[table.cores == table.cores.max()]
    counted = table[table.repeat >= 0]  # not the warm-up runs
    tables = {"cases": cases(counted)} if len(counted) else {}
    phases = generations(done)
    if len(phases):
        tables["generation"] = phases
    return Findings(summary(table), draw(on_all_cores), table, tables, gaps)


FIGURE = Figure(
    id="runs",
    order=50,
    title="Step time, throughput and memory of every run",
    meaning="The median step time of each run, without input, and the 95 % interval that other "
    "steps of the same process might have given; drawn for runs on all cores. Equal runs are "
    "averaged in the table of cases; its interval is between runs. Input wait is the mean wait of "
    "a step for its batch, peak memory the resident memory of the whole process, GFLOP/s the "
    "counted work at the median rate. Energy, where the machine reports it, is that of the whole "
    "machine. Where inference generates token by token, a table has its two phases: prefill, until "
    "the first token, and decode, from one token to the next.",
    analyse=_analyse,
)
