"""The first screen of the report: the machine in two lines, and one row for each workload."""

from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd

from fathom.hardware.description.ops import CLASSES, op_class
from fathom.measure.profile import tables
from fathom.measure.report import selection
from fathom.measure.report.figures import cost, f3
from fathom.measure.report.intervals import Interval, mean, ratio
from fathom.measure.report.page import shown
from fathom.measure.report.style import class_colour
from fathom.measure.runs.folder import Folder
from fathom.results.characterization import Machine
from fathom.system.words import counted

STEP, TYPES, OUTSIDE = "step (ms)", "heaviest op types (%)", "outside ops (%)"
RATE, DISTANCE, DISTURBED = "rate over peak", "distance to paper", "disturbed"
_COLUMNS = (STEP, TYPES, OUTSIDE, RATE, DISTANCE, DISTURBED)
_NUMBERS = (STEP, OUTSIDE, RATE, DISTANCE)
_MISSING = Interval(float("nan"))
_LEAST = 0.01  # share from which an op type has its part of the bar
_NAMED = 3  # op types in words below the bar

Shares = Mapping[str, Mapping[str, float]]  # by workload and op type, in decreasing order


def machine(about: Machine) -> list[str]:
    """Returns the machine in two lines: what it has, and how fast it is."""
    has = about.environment
    cores = counted(has.cores_available, "core")
    threads = sorted(about.gemm_flops_per_second, key=int)
    speeds = [
        f"{name} {', '.join(shown(rates[n] / 1e9) for n in threads if n in rates)} {unit}"
        for name, rates, unit in (
            ("large matrix product:", about.gemm_flops_per_second, "GFLOP/s"),
            ("memory:", about.triad_bytes_per_second, "GB/s"),
        )
        if rates
    ]
    marks = [
        f" Those on {n} are no limits: other processes left {share:.0%} of the processor to their "
        "probes."
        for n in threads
        if (share := about.disturbed(n)) is not None
    ]
    return [
        f"{has.cpu_model}, {cores}, {has.memory_bytes / 2**30:.1f} GiB of memory; TensorFlow "
        f"{has.tensorflow}, Python {has.python}.",
        f"On {', '.join(threads)} thread{'s' if threads != ['1'] else ''}: {'; '.join(speeds)}."
        f"{''.join(marks)}",
    ]


def heaviest(folder: Folder) -> Shares:
    """Returns the shares, from 0 to 1, of the op types above 1 % in the training profiles."""
    ops = selection.ops_of(folder, selection.training_profiles(folder))
    table = tables.op_types(ops)
    return {
        str(name): dict(zip(each.type, each.share, strict=True))
        for name, each in table[table.share >= _LEAST].groupby("workload")
    }


def overview(folder: Folder, types: Shares) -> pd.DataFrame:
    """Returns one row for each workload: its training on the CPU, or what was measured instead.

    Returns:
        ``workload``; ``what`` was timed; the geometric mean of equal runs' median steps; the
        heaviest op types; percent of a step outside ops; rate over that of a large matrix product;
        cosine distance to the paper's shares; how many of these runs and profiles were disturbed.
        ``from`` and ``to`` are the limits of a number's 95 % interval between processes. What was
        not measured is missing.
    """
    timed = selection.processes(folder).dropna(subset="median_s")
    for column, first in (("mode", "max"), ("on", "min")):  # training, and the CPU, if measured
        timed = timed[timed[column] == timed.groupby("workload")[column].transform(first)]
    profiles = selection.training_profiles(folder)
    rows = []
    for name in selection.in_order(pd.concat([timed, profiles])).workload.unique():
        runs, profiled = timed[timed.workload == name], profiles[profiles.workload == name]
        disturbed = pd.concat([runs.disturbed, profiled.disturbed]).eq(True)
        heavy = types.get(name, {}).items()
        row = {"workload": name, "what": _what(runs), **_of_runs(runs, folder.machine)}
        row[TYPES] = ", ".join(f"{kind} {100 * share:.0f}" for kind, share in heavy)
        row |= _of_profiles(profiled, folder)
        rows.append(row | {DISTURBED: f"{disturbed.sum()} of {len(disturbed)}"})
    return pd.DataFrame(rows)


def _what(runs: pd.DataFrame) -> str:
    """Returns what was timed in words."""
    if runs.empty:
        return "not timed"
    first = runs.iloc[0]
    mode = "training" if first["mode"] == "train" else "inference"
    where = counted(first.threads, "thread") if first.on == "cpu" else "a GPU"
    return f"{mode}, batch {first.batch_size}, {where}"


def _of_runs(runs: pd.DataFrame, about: Machine) -> dict[str, object]:
    """Returns the numbers of one workload's equal timing runs."""
    if runs.empty:
        return _row(STEP, _MISSING) | _row(RATE, _MISSING)
    seconds = runs.median_s.to_numpy(float)
    used = cost.utilization(runs, about)
    rate = used[["achieved/peak", "from", "to"]].to_numpy(float)
    return _row(STEP, ratio(1e3 * seconds, seconds**0)) | _row(RATE, Interval(*rate[0]))


def _of_profiles(profiles: pd.DataFrame, folder: Folder) -> dict[str, object]:
    """Returns the numbers of one workload's equal profiles."""
    if profiles.empty:
        return _row(OUTSIDE, _MISSING) | _row(DISTANCE, _MISSING)
    outside = mean(100 * profiles.outside_share.to_numpy(float)).clipped(0, 100)
    distance = f3.distances(selection.ops_of(folder, profiles)).to_numpy(float)
    return _row(OUTSIDE, outside) | _row(DISTANCE, Interval(*distance[0]))


def _row(name: str, found: Interval) -> dict[str, object]:
    return {name: found.value, f"{name} from": found.low, f"{name} to": found.high}


def html(table: pd.DataFrame, types: Shares) -> str:
    """Returns the rows of ``overview`` as a table whose op types are bars.

    On a narrow screen each row becomes a block, and its cells repeat the names of their columns;
    roles keep it a table for those who hear it.
    """
    head = "".join(
        f'<th scope="col" role="columnheader"{_kind(name)}><button>{name}</button></th>'
        for name in ("workload", *_COLUMNS)
    )
    rows = "\n".join(_html_row(row, types) for row in table.to_dict("records"))
    used = {op_class(kind) for each in types.values() for kind in each}
    classes = (
        f'<i style="background: {class_colour(letter)}"></i> {CLASSES[letter]}'
        for letter in sorted(used & set(CLASSES))
    )
    return (
        '<table class="overview" role="table"><caption>One row for each workload, with 95 % '
        "intervals between processes. The bar has the op types above 1 % of the time in ops, in "
        f'the colours of their classes: {", ".join(classes)}.</caption>\n<thead role="rowgroup">'
        f'<tr role="row">{head}</tr></thead>\n<tbody role="rowgroup">{rows}</tbody></table>'
    )


def _html_row(row: Mapping[Any, Any], types: Shares) -> str:
    name = str(row["workload"])
    cells = [
        f'<th scope="row" role="rowheader">{escape(name)}'
        f"<small>{escape(str(row['what']))}</small></th>"
    ]
    for column in _COLUMNS:
        text = _types(types.get(name, {})) if column == TYPES else _text(row, column)
        cells.append(f'<td role="cell" data-name="{column}"{_kind(column)}>{text}</td>')
    return f'<tr role="row">{"".join(cells)}</tr>'


def _kind(column: str) -> str:
    return ' class="number"' if column in _NUMBERS else ""


def _text(row: Mapping[Any, Any], column: str) -> str:
    """Returns a cell: a number with its interval below it, or words."""
    text = shown(row[column])
    if column == DISTURBED:
        return text if text.startswith("0") else f"<strong>{text}</strong>"
    limits = [shown(row[f"{column} {end}"]) for end in ("from", "to")]
    known = not pd.isna(row[f"{column} from"])
    return f"{text} <small>{' to '.join(limits)}</small>" if known else text


def _types(shares: Mapping[str, float]) -> str:
    """Returns the op types as a bar, and the heaviest in words below it."""
    words = ", ".join(f"{escape(kind)} {share:.0%}" for kind, share in [*shares.items()][:_NAMED])
    return f"{bar(shares)}{words or 'not profiled'}"


def bar(shares: Mapping[str, float]) -> str:
    """Returns shares of op types, from 0 to 1, as a bar in the colours of their classes."""
    parts = "".join(
        f'<i style="width: {100 * share:.1f}%; background: {class_colour(op_class(kind))}" '
        f'title="{escape(kind)} {share:.0%}"></i>'
        for kind, share in shares.items()
    )
    return f'<span class="bar" aria-hidden="true">{parts}</span>'
