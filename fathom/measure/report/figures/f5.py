"""Figure 5 of the Fathom paper: training and inference, on the CPU and on the GPU."""

import numpy as np
import pandas as pd

from fathom.measure.report import programs, selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.intervals import listed, ratio
from fathom.measure.runs.folder import Folder

_COLUMNS = [
    *("workload", "mode", "device", "batch size", "runs", "median step (s)"),
    *("over CPU training", "from", "to", programs.PROGRAM),
]
_CASES = (("train", "cpu"), ("infer", "cpu"), ("train", "gpu"), ("infer", "gpu"))


def step_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Groups the step times of timing runs into the four cases.

    Returns:
        four rows per workload: ``workload``, ``mode``, ``device`` (``cpu`` or ``gpu``), ``batch
        size``; ``runs``, their number; ``median step (s)``, of a batch of the stated cost if
        batches vary in length, the geometric mean of equal runs; ``over CPU training``, relative to
        training on the CPU, and ``from`` and ``to``, the limits of its 95 % interval between runs.
        Missing if not measured, the limits also with one run on either side. ``program``, where
        batches are divided or programs differ between the cases.
    """
    timed = runs.dropna(subset="median_s")
    timed = timed.assign(step_s=selection.step_seconds(timed))
    cases = dict(list(timed.groupby(["workload", "mode", "on"], sort=False)))
    rows = [
        _row(cases.get((name, mode, device)), cases.get((name, "train", "cpu")))
        | {"workload": name, "mode": mode, "device": device}
        for name in timed.workload.unique()
        for mode, device in _CASES
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS).astype({"batch size": "Int64"})
    return programs.drop_if_uniform(table, ["workload"])


def _row(runs: pd.DataFrame | None, on_cpu: pd.DataFrame | None) -> dict[str, object]:
    """Returns the columns of one case, given equal runs of it and of training on the CPU."""
    if runs is None:
        return {}
    seconds = runs.step_s.to_numpy()
    row: dict[str, object] = {"batch size": runs.batch_size.iloc[0], "runs": selection.count(runs)}
    row[programs.PROGRAM] = programs.joined(programs.of(runs))
    row["median step (s)"] = float(np.exp(np.log(seconds).mean()))
    if on_cpu is None:
        return row
    if on_cpu is runs:
        return row | {"over CPU training": 1.0}
    return row | ratio(seconds, on_cpu.step_s.to_numpy()).columns("over CPU training")


def summary(times: pd.DataFrame) -> str:
    """Summarizes the step times in a sentence."""
    known = _shorter(times, "infer", "cpu") or "not measured"
    found = f"On the CPU a training step takes this many times an inference step: {known}."
    if on_gpu := _shorter(times, "train", "gpu"):
        found += f" On the CPU a training step takes this many times one on the GPU: {on_gpu}."
    return found


def _shorter(times: pd.DataFrame, mode: str, device: str) -> str:
    """Lists how many times a step of a case a training step on the CPU takes."""
    case = times[(times["mode"] == mode) & (times.device == device)]
    ratios = case.set_index("workload")[["over CPU training", "to", "from"]]
    return listed(1 / ratios, ".1f")


def draw(times: pd.DataFrame) -> style.Plot:
    """Draws the four cases of each workload as points, normalised to training on the CPU."""
    names = _with_batch_sizes(times)
    rows = np.arange(len(names))
    with style.single(1.4 + 0.3 * len(rows)) as (figure, axes):
        for j, (mode, device) in enumerate(_CASES):
            case = times[(times["mode"] == mode) & (times.device == device)]
            if case["median step (s)"].isna().all():
                continue
            axes.plot(
                case["over CPU training"],
                rows,
                linestyle="none",
                marker=style.MARKERS[j],
                markersize=7,
                color=(style.BLUE, style.ORANGE)[mode == "infer"],
                markerfacecolor="white" if device == "gpu" else None,
                label=f"{'training' if mode == 'train' else 'inference'}, {device.upper()}",
            )
        places = times.workload.map({name: i for i, name in enumerate(times.workload.unique())})
        others = programs.differ(times, ["workload"])
        programs.mark(axes, times["over CPU training"], places, others)
        style.scale_by_logarithm(axes, "x")
        drawn = times["over CPU training"].dropna()
        axes.set_xlim(0.8 * min([0.125, *drawn]), 1.2 * max([1.25, *drawn]))
        style.name_rows(axes, names)
        axes.set_xlabel("step time over that of training on the CPU")
        axes.grid(axis="both")
        style.legend_above(figure, columns=2)
    return figure


def _with_batch_sizes(times: pd.DataFrame) -> list[str]:
    """Returns each workload's name with the batch size of training / inference if they differ."""
    sizes = times.dropna(subset="batch size").groupby("workload", sort=False)["batch size"]
    return [f"{name} ({' / '.join(map(str, each.unique()))})" for name, each in sizes]


def _analyse(folder: Folder) -> Findings:
    timed, wanted = selection.processes(folder), selection.timing_runs(folder, "modes")
    times = step_times(timed)
    gaps = selection.gaps(wanted, times.workload.unique(), selection.UNCOUNTED)
    failed = wanted[(wanted.status == "failed") & (wanted.on == "cpu")]
    failed = set(failed.groupby(["workload", "mode"]).groups)
    unmeasured = times[times["median step (s)"].isna()]
    gaps += [
        f"{row.workload} {row.mode} on the CPU: not measured"
        for row in unmeasured.itertuples()
        if row.device == "cpu" and (row.workload, row.mode) not in failed
    ]
    if times["median step (s)"][times.device == "gpu"].isna().all():
        gaps.append("GPU: no runs on one in this folder")
    if times.empty:
        return Findings(gaps=gaps)
    cases = times.assign(mode=times["mode"] + " " + times.device.str.upper())
    found = f"{summary(times)}{selection.caveats(timed, 'mode', 'on')}"
    found += programs.note(cases, ["workload"], "mode")
    return Findings(found, draw(times), times, gaps=gaps)


FIGURE = Figure(
    id="F5",
    order=30,
    title="Training and inference, CPU and GPU",
    meaning="Median step time, excluding input, relative to training on the CPU; default thread "
    "pools. Intervals are between runs. A step is one batch; its size is in brackets, of training "
    "/ inference if they differ. seq2seq's inference reads the reference words, as its training "
    "does, but computes the softmax over all words, of which training samples a few: so it may "
    "take as long as training. A cross is a case in which another program ran than in training on "
    "the CPU: compiled by XLA or not, or in microbatches.",
    paper="Fathom, Figure 5, a picture without numbers: inference is variably faster than "
    "training; convolutional networks pay a slightly higher cost for training.",
    analyse=_analyse,
)
