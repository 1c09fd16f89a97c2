"""Reuse distances: how many other cache lines are touched before one is touched again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fathom.errors import FathomError
from fathom.hardware.accelerators.figures import save_svg
from fathom.hardware.traces.block import LINE, LOAD, Block

CACHES = (8 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20)  # bytes
COLD = -1
_MOST = 1 << 22  # accesses whose distances are computed


def distances(lines: np.ndarray) -> np.ndarray:
    """Returns the distance of each access, int [n]; COLD for the first to a line.

    A fully associative cache of S lines that drops the least recently used misses where the
    distance is S or more (Mattson et al., 1970). Between two accesses to a line lie as many others
    as there are accesses, less those to a line that is touched again before the second.
    """
    count = len(lines)
    order = np.argsort(lines, kind="stable")
    same = np.flatnonzero(lines[order][1:] == lines[order][:-1])
    before = np.full(count, -1)
    before[order[same + 1]] = order[same]
    found = np.arange(count) - before - 1 - _larger_before(before)
    return np.where(before < 0, COLD, found)


def _larger_before(values: np.ndarray) -> np.ndarray:
    """Returns how many earlier values are larger, of each: by merging ever longer sorted runs."""
    count = len(values)
    size = 1 << max(1, (count - 1).bit_length())
    whole = np.concatenate([values, np.full(size - count, size)])
    found = np.zeros(size, int)
    width = 1
    while width < size:
        runs = whole.reshape(-1, 2, width)
        shift = 2 * size * np.arange(len(runs))[:, None]
        left = (np.sort(runs[:, 0], axis=1) + shift).ravel()
        at = np.searchsorted(left, (runs[:, 1] + shift).ravel(), side="right").reshape(-1, width)
        larger = (np.arange(1, len(runs) + 1) * width)[:, None] - at
        found.reshape(-1, 2, width)[:, 1] += larger
        width *= 2
    return found[:count]


def measure(
    blocks: Callable[[], Iterable[Block]], layers: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], float]:
    """Returns the accesses with their distances, and the share of the lines that they are of.

    Of long traces, distances are those of a share of the lines (SHARDS: Waldspurger et al., 2015).

    Args:
        blocks: returns the trace, each time it is called.
        layers: their names by number.

    Returns:
        for ``step`` and each layer a table of ``line``, ``kind`` and ``distance`` (in lines,
        negative for the first touch), and the share.

    Raises:
        FathomError: there are no accesses.
    """
    total = sum(len(block.kind) for block in blocks())
    if not total:
        raise FathomError("the step marks no access: build the program with LAYER=all")
    share = min(1.0, _MOST / max(1, total))
    lines, kinds, numbers = [], [], []
    for block in blocks():
        line = block.address // np.uint64(LINE)
        mixed = (line * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        taken = mixed < share * 2**24
        lines.append(line[taken])
        kinds.append(block.kind[taken])
        numbers.append(block.layer[taken])
    line, kind = np.concatenate(lines), np.concatenate(kinds)
    frame = pd.DataFrame({"line": line, "kind": kind, "layer": np.concatenate(numbers)})
    frame["distance"] = distances(line) / share
    parts = {layers[number]: rows for number, rows in frame.groupby("layer", sort=False)}
    return {"step": frame, **parts}, share


def summary(parts: Mapping[str, pd.DataFrame], share: float) -> pd.DataFrame:
    """Returns the accesses of each layer, and the share that misses in caches of several sizes.

    Returns:
        for each layer, and ``step``: loads, stores, ``sampled`` (the share of lines), ``bytes``
        (distinct lines, of all accesses if all lines are sampled), and ``miss N`` for caches of N
        bytes, fully associative, that begin empty.
    """
    return pd.DataFrame([_row(name, rows, share) for name, rows in parts.items()])


def histogram(parts: Mapping[str, pd.DataFrame], share: float) -> pd.DataFrame:
    """Returns how many accesses have a reuse distance in each power of two.

    Returns:
        ``layer``; ``bytes``: the least power of two of a cache, in lines, that the accesses hit
        in, and none for first touches; ``accesses``.
    """
    tables = []
    for name, rows in parts.items():
        cold = rows.distance < 0
        size = LINE * 2.0 ** np.frexp(rows.distance.where(~cold, 0))[1]  # rounded up
        counts = size.mask(cold).value_counts(dropna=False).sort_index()
        accesses = (counts / share).round().astype(int)
        tables.append(pd.DataFrame({"layer": name, "bytes": counts.index, "accesses": accesses}))
    return pd.concat(tables, ignore_index=True)


def _row(name: str, rows: pd.DataFrame, share: float) -> dict[str, object]:
    missed = {
        f"miss {size}": ((rows.distance < 0) | (rows.distance >= size // LINE)).mean()
        for size in CACHES
    }
    return {
        "layer": name,
        "loads": round((rows.kind != 1).sum() / share),
        "stores": round((rows.kind != LOAD).sum() / share),
        "sampled": share,
        "bytes": round(rows.line.nunique() / share) * LINE,
        **missed,
    }


def draw(table: pd.DataFrame, title: str, path: Path) -> None:
    """Writes the misses over the size of the cache as SVG, a line for the step and large layers."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    work = table.loads + table.stores
    for place in work.sort_values(ascending=False).index[:8]:
        row: Mapping[str, float] = table.loc[place]
        missed = [row[f"miss {size}"] for size in CACHES]
        axes.plot([size / 1024 for size in CACHES], missed, marker="o", label=table.layer[place])
    axes.set(xscale="log", xlabel="cache (KiB)", ylabel="misses per access", title=title, ylim=0)
    axes.legend(fontsize="small")
    save_svg(figure, path)
