"""Networks of others among the archetypes, of the results that lie in the folder."""

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from fathom.measure import nearest
from fathom.measure.report import style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.report.figures import f4
from fathom.measure.runs.folder import Folder
from fathom.results.nearest import Nearest

_LONGEST = 24  # characters of a name


def distances(found: Sequence[Nearest]) -> pd.DataFrame:
    """Returns one row per network and archetype, with the cosine distance of their work."""
    rows = [
        {
            "network": each.network,
            "mode": each.mode,
            "batch size": each.batch_size,
            "archetype": archetype.workload,
            "archetype's batch size": archetype.batch_size,
            "cosine distance": archetype.distance,
        }
        for each in found
        for archetype in each.archetypes
    ]
    return pd.DataFrame(rows)


def work(found: Sequence[Nearest]) -> pd.DataFrame:
    """Returns the shares of work, one row per archetype and network, one column per class."""
    modes = {each.mode for each in found}
    rows: dict[str, dict[str, float]] = {}
    for each in found:
        mode = f", {each.mode}" if len(modes) > 1 else ""
        rows |= {f"{archetype.workload}{mode}": archetype.work for archetype in each.archetypes}
    return nearest.table(
        rows | dict(zip(_labels(found), (each.work for each in found), strict=True))
    )


def _labels(found: Sequence[Nearest]) -> list[str]:
    """Returns the names of networks, with what tells them from others of the name."""
    names = [style.shortened(each.network, _LONGEST) for each in found]
    words = [(each.mode, f"batch {each.batch_size}", n) for n, each in enumerate(found, 1)]
    for more in zip(*words, strict=True):
        same, pairs = Counter(names), zip(names, more, strict=True)
        names = [f"{name}, {word}" if same[name] > 1 else name for name, word in pairs]
    return [f"{name} (yours)" for name in names]


def draw(found: Sequence[Nearest]) -> style.Plot:
    """Draws the hierarchy of archetypes and networks, and each network's distances."""
    shares = work(found)
    titles = "centroid linkage", "distance of each archetype"
    height = 1.2 + 0.32 * len(shares)
    with style.panels(titles, columns=2, width=4.6, height=height) as (figure, (tree, line)):
        f4.dendrogram(tree, shares)
        for text in tree.get_yticklabels():
            if text.get_text().endswith("(yours)"):
                text.set(color=style.RED, fontweight="bold")
        names = [*dict.fromkeys(each.workload for one in found for each in one.archetypes)]
        style.name_rows(line, names)
        for number, (each, label) in enumerate(zip(found, _labels(found), strict=True)):
            known = {archetype.workload: archetype.distance for archetype in each.archetypes}
            marker = style.MARKERS[number % len(style.MARKERS)]
            places = [known.get(name, math.nan) for name in names]
            colour = style.PALETTE[(-2 - number) % len(style.PALETTE)]  # red first
            line.plot(places, range(len(names)), marker, color=colour, label=label)
        line.set_xlim(-0.02, 1.02)
        line.set_xlabel("cosine distance")
        line.grid(axis="both")
        if len(found) > 1:
            figure.legend(handles=line.lines, loc="outside upper center", ncols=3)
    return figure


def _analyse(folder: Folder) -> Findings:
    found = [Nearest.read(path) for path in sorted(folder.path.glob("nearest/*.json"))]
    if not found:
        remedy = "mkdir DIR/nearest; fathom nearest FILE --json DIR/nearest/x.json"
        return Findings(gaps=[f"no network of yours: {remedy}"])
    summary = " ".join(next(nearest.sentences(each)) for each in found)
    shares = work(found)
    others = {"work": shares.rename_axis("network").reset_index(), "merges": f4.merges(shares)}
    return Findings(summary, draw(found), distances(found), others)


FIGURE = Figure(
    id="nearest",
    order=42,
    title="Your networks among the workloads",
    meaning="Of the results in nearest/ of the folder: the work of a network, described and not "
    "run, as shares of kinds, classes of shape and FLOPs per byte, beside that of each workload at "
    "its default size; distance and linkage are those of F4.",
    paper="Fathom, Figure 4, has times by op type in place of work.",
    analyse=_analyse,
)
