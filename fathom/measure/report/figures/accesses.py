"""Memory accesses and instructions of a step, of the traces that lie in the folder."""

import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from fathom.errors import FathomError
from fathom.hardware.traces import topdown
from fathom.measure.report import style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.system.files import read_file

_MOST = 8  # lines
_CACHES = {"32 KiB": 32 << 10, "1 MiB": 1 << 20}  # that working sets are compared with
_MIX = {
    "vector arithmetic": style.BLUE,
    "scalar floating-point arithmetic": style.SKY,
    "other work on vector registers": style.GREEN,
    "moves": style.ORANGE,
    "integer arithmetic and logic": style.GREY,
    "branches and calls": style.RED,
}
"""Kinds of instructions, of ``fathom.hardware.traces.instructions``, and their colours."""
_SLOTS = dict(
    zip(topdown.KINDS.values(), (style.BLUE, style.RED, style.SKY, style.ORANGE), strict=True)
)


def misses(distances: pd.DataFrame) -> pd.DataFrame:
    """Returns the share of accesses that miss, over the size of a cache.

    Args:
        distances: ``trace``, ``layer``, ``bytes`` (of the least cache that the accesses hit in,
            none for first touches) and ``accesses``.

    Returns:
        ``trace``, ``layer``, ``accesses`` of the whole layer, ``cache (KiB)``, ``misses per
        access``, for each power of two.
    """
    rows = []
    for (trace, layer), found in distances.groupby(["trace", "layer"], sort=False):
        hits = found.dropna().sort_values("bytes")
        total = found.accesses.sum()
        shown = {
            "trace": trace,
            "layer": layer,
            "accesses": total,
            "cache (KiB)": hits.bytes / 1024,
            "misses per access": 1 - hits.accesses.cumsum() / total,
        }
        rows.append(pd.DataFrame(shown))
    return pd.concat(rows, ignore_index=True)


def working_sets(summaries: pd.DataFrame) -> pd.DataFrame:
    """Returns how much memory each layer touches, and how often that is the size of a cache.

    Args:
        summaries: ``trace``, ``layer``, ``loads``, ``stores`` and ``bytes``, of distinct lines.
    """
    table = summaries[["trace", "layer", "loads", "stores"]].copy()
    table["working set (KiB)"] = summaries.bytes / 1024
    for name, size in _CACHES.items():
        table[f"of {name}"] = summaries.bytes / size
    return table


def summary(table: pd.DataFrame) -> str:
    """Says how many accesses of each step miss in a cache of 32 KiB and of 1 MiB."""
    steps = table[table.layer == "step"]
    phrases = [
        f"{trace} {_at(rows, 32):.1%} and {_at(rows, 1024):.1%}"
        for trace, rows in steps.groupby("trace", sort=False)
    ]
    return f"Accesses that miss in caches of 32 KiB and of 1 MiB: {', '.join(phrases)}."


def _at(rows: pd.DataFrame, cache: float) -> float:
    """Returns the misses per access in a cache of so many KiB."""
    found = rows[rows["cache (KiB)"] <= cache]["misses per access"]
    return float(found.iloc[-1]) if len(found) else 1.0


def draw(table: pd.DataFrame, mixes: pd.DataFrame, slots: pd.DataFrame) -> style.Plot:
    """Draws the misses of steps (of one trace: of its layers too), instructions and slots."""
    traces = table.trace.unique()
    column = "trace" if len(traces) > 1 else "layer"
    shown = table[table.layer == "step"] if len(traces) > 1 else table
    largest = shown.groupby(column).accesses.first().nlargest(_MOST).index
    bars = {"instructions": (mixes, _MIX), "issue slots": (slots, _SLOTS)}
    bars = {title: bar for title, bar in bars.items() if len(bar[0])}
    titles = ["misses over the size of a cache", *bars]
    with style.panels(titles, columns=2, width=4.6, height=3.4) as (figure, (first, *others)):
        for number, name in enumerate(largest):
            rows = shown[shown[column] == name]
            first.plot(
                rows["cache (KiB)"],
                rows["misses per access"],
                marker=style.MARKERS[number % len(style.MARKERS)],
                color=style.PALETTE[number % len(style.PALETTE)],
                label=style.shortened(str(name), 24),
            )
        style.scale_by_logarithm(first, "x", 2)
        first.set(xlabel="cache (KiB)", ylabel="misses per access", ylim=0)
        first.legend(fontsize=7)
        for panel, (shares, colours) in zip(others, bars.values(), strict=True):
            _draw_shares(panel, shares, colours)
    return figure


def _draw_shares(panel: style.Panel, table: pd.DataFrame, colours: Mapping[str, str]) -> None:
    shares = table.pivot_table("share", "trace", "kind", sort=False, fill_value=0)
    series = {
        kind: (shares[kind].to_numpy(), colour)
        for kind, colour in colours.items()
        if kind in shares
    }
    style.bars(panel, list(shares.index), series, stacked=True)
    panel.set_xlabel("share")
    panel.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def _beside(paths: list[Path], name: str) -> list[Path]:
    """Returns the tables of this name that lie beside files."""
    return [each for path in paths if (each := path.with_name(f"{name}.csv")).exists()]


def _table(paths: list[Path], name: str, numbers: list[str]) -> pd.DataFrame:
    """Returns the rows of several traces' files of one name, with the traces' names.

    Each has a column of names and some of numbers.
    """
    tables = []
    for path in paths:
        try:
            table = pd.read_csv(io.BytesIO(read_file(path)))
            rows = len(table.set_index(name)[numbers].astype(float))
        except (ValueError, KeyError) as error:
            raise FathomError(f"{path} is no table of fathom trace-memory") from error
        if not rows:
            raise FathomError(f"{path} is no table of fathom trace-memory: it has no rows")
        tables.append(table.assign(trace=path.parent.name))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _analyse(folder: Folder) -> Findings:
    paths = sorted(folder.path.glob("traces/*/distances.csv"))
    if not paths:
        return Findings(gaps=["no traces: fathom trace-memory W --out DIR/traces/W"])
    table = misses(_table(paths, "layer", ["bytes", "accesses"]))
    sets = _table(_beside(paths, "summary"), "layer", ["loads", "stores", "bytes"])
    mixes = _table(_beside(paths, "instructions"), "kind", ["share"])
    counted = _beside(paths, "topdown")
    slots = [topdown.read(path).assign(trace=path.parent.name) for path in counted]
    others = {"instructions": mixes, "slots": pd.concat(slots) if slots else pd.DataFrame()}
    tables = {name: rows for name, rows in others.items() if len(rows)}
    tables |= {"working sets": working_sets(sets)} if len(sets) else {}
    return Findings(summary(table), draw(table, *others.values()), table, tables)


FIGURE = Figure(
    id="accesses",
    order=23,
    title="Memory accesses and instructions",
    meaning="Of the traces in traces/ of the folder: the share of the loads and stores of a step "
    "that miss in a cache of each size, fully associative, which drops the least recently used "
    "line of 64 bytes and begins empty; of bare programs also the instructions by kind, and where "
    "perf counted them, the issue slots. The end of a curve is the share of first touches. The "
    "working set of a layer is the memory that it touches in a step.",
    analyse=_analyse,
)
