"""Time to quality by batch size, of the results that lie in the folder."""

import itertools

import numpy as np
import pandas as pd

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.quality import Quality
from fathom.system.words import counted

_QUANTITIES = ("examples", "seconds")


def trainings(found: list[Quality]) -> pd.DataFrame:
    """Returns one row per training: what it took to reach the target, or to end without it.

    ``workload`` has the settings, or else the threads, in which files of one workload differ.
    """
    names = selection.names_apart([(q.workload,) for q in found], [q.settings for q in found])
    threads = [{"threads": q.environment.threads} for q in found]
    names = selection.names_apart([(name,) for name in names], threads)
    rows = [
        {
            "workload": name,
            "target": f"{quality.metric} {quality.target:g}",
            "batch size": training.batch_size,
            "replicas": training.replicas,
            "learning rate": training.learning_rate,
            "seed": quality.seed if training.seed is None else training.seed,
            "epochs": crossing.epochs,
            "steps": crossing.steps,
            "examples": crossing.steps * training.batch_size,
            "seconds": crossing.seconds,
            "value": training.curve[-1].value,
            "reached": training.reached,
        }
        for name, quality in zip(names, found, strict=True)
        for training in quality.trainings
        for crossing in [training.crossing(quality.target)]
    ]
    return selection.in_order(pd.DataFrame(rows)).reset_index(drop=True)


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Returns what the median seed took, of the batch sizes with which it reached the target.

    A seed that did not reach it would have taken infinitely long.
    """
    numbers = table[[*_QUANTITIES]].where(table.reached, np.inf)
    keys = ["workload", "target", "batch size", "replicas"]
    found = table[keys].join(numbers).groupby(keys, sort=False).median().reset_index()
    return found[np.isfinite(found.examples)].reset_index(drop=True)


def summary(table: pd.DataFrame) -> str:
    """States the batch sizes whose median seed needs the fewest examples and the least time."""
    texts = []
    for case, each in _cases(medians(table)).items():
        numbers = sorted(set(each.replicas))
        for replicas in numbers:
            took = each[each.replicas == replicas].set_index("batch size")
            least, fastest = (took[name].idxmin() for name in _QUANTITIES)
            text = f": fewest examples with batches of {least}, least time with {fastest}"
            which = f", {counted(replicas, 'replica')}" if len(numbers) > 1 else ""
            texts.append(f"{case}{which}{text}")
    return f"{'; '.join(texts)}." if texts else "No median seed reached its target."


def _cases(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns the rows by workload and target, in words."""
    groups = table.groupby(["workload", "target"], sort=False)
    return {f"{workload} ({target})": each for (workload, target), each in groups}


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws ``medians`` by batch size, for each workload and target."""
    cases = _cases(table)
    titles = [f"{case}: {quantity}" for case in cases for quantity in _QUANTITIES]
    with style.panels(titles, columns=len(_QUANTITIES), width=3.2, height=2.2) as (figure, axes):
        pairs = itertools.product(cases.values(), _QUANTITIES)
        for panel, (mine, quantity) in zip(axes, pairs, strict=True):
            _draw_quantity(panel, mine, quantity)
        figure.supxlabel("batch size", fontsize=9)
        style.legend_above(figure, columns=3)
    return figure


def _draw_quantity(panel: style.Panel, table: pd.DataFrame, quantity: str) -> None:
    sizes = sorted(table["batch size"].unique())
    for look, replicas in zip(style.PALETTE[1:], sorted(set(table.replicas)), strict=False):
        each = table[table.replicas == replicas].sort_values("batch size")
        label = counted(replicas, "replica")
        panel.plot(each["batch size"], each[quantity], "o-", color=look, markersize=4, label=label)
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size}" for size in sizes])
    panel.minorticks_off()
    panel.set_ylim(0, None)
    panel.grid(axis="y")


def _analyse(folder: Folder) -> Findings:
    found = [Quality.read(path) for path in sorted(folder.path.glob("quality/*.json"))]
    if not found:
        remedy = "mkdir DIR/quality; fathom quality ... --json DIR/quality/NAME.json"
        return Findings(gaps=[f"no time to quality: {remedy}"])
    table = trainings(found)
    tables, drawn = {"trainings": table}, medians(table)
    if drawn.empty:
        return Findings(summary(table), tables=tables)
    return Findings(summary(table), draw(drawn), drawn, tables)


FIGURE = Figure(
    id="M-quality",
    order=52,
    title="Time to quality",
    meaning="Trainings until a metric of the test data reaches a target, by batch size, of the "
    "results that lie in quality/ of the folder: examples that were needed, and the time of the "
    "steps with their input.",
    paper='Fathom, "Datasets", names "batchsize-convergence tradeoffs" among the features that '
    "depend on the data, and measures none.",
    analyse=_analyse,
)
