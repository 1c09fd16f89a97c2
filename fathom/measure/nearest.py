"""Which archetypes a network's work is near to, and what differs; see docs/coverage.md."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from fathom.hardware.description.shares import of_work
from fathom.measure.report.clustering import cosine_distance
from fathom.results.description import Description
from fathom.results.nearest import Archetype, Nearest

_NAMED = 3  # classes of work in a sentence
_LITTLE = 0.05  # of what is alike or different, which is not named
_SMALL = 0.02  # of the work, a difference that is not named


def find(description: Description, archetypes: Mapping[str, Description]) -> Nearest:
    """Returns the distance of a network's work to that of each archetype, the nearest first."""
    work = of_work(description)
    found = []
    for name, each in archetypes.items():
        theirs = of_work(each)
        distance = cosine_distance(*table({"": work, name: theirs}).to_numpy())
        found.append(
            Archetype(
                workload=name, batch_size=each.batch_size, distance=min(distance, 1.0), work=theirs
            )
        )
    return Nearest(
        network=description.workload,
        mode=description.mode,
        batch_size=description.batch_size,
        work=work,
        archetypes=tuple(sorted(found, key=lambda each: each.distance)),
    )


def table(works: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Returns shares of work, one row per network and one column per class."""
    return pd.DataFrame(list(works.values()), index=list(works)).fillna(0.0)


def spacing(archetypes: Mapping[str, Mapping[str, float]]) -> pd.Series:
    """Returns the distance of each archetype to the nearest other one, by its name."""
    rows = table(archetypes)
    return pd.Series(
        {
            a: min(cosine_distance(rows.loc[a], rows.loc[b]) for b in rows.index if b != a)
            for a in rows.index
        }
    )


def sentences(found: Nearest) -> Iterator[str]:
    """Yields what is to be said: the two nearest, whether that is near, and what differs."""
    nearest = found.archetypes[:2]
    names = [f"{each.workload} (distance {each.distance:.2f})" for each in nearest]
    yield f"{found.network} is nearest to {' and '.join(names)}."
    if len(found.archetypes) > 1:
        apart = spacing({each.workload: each.work for each in found.archetypes}).median()
        verdict = "That is near" if nearest[0].distance <= apart else "That is not near"
        yield f"{verdict}: half of the archetypes have another one within {apart:.2f}."
    for each in nearest:
        yield _compared(found, each)


def _compared(found: Nearest, other: Archetype) -> str:
    """Returns what a network and an archetype have in common, and what differs.

    With both rows scaled to length 1, their product is the similarity and half the squared length
    of their difference is the distance; both are sums over the classes.
    """
    rows = table({"ours": found.work, "theirs": other.work}).T
    scaled = rows / np.linalg.norm(rows, axis=0)
    alike, apart = scaled.ours * scaled.theirs, (scaled.ours - scaled.theirs) ** 2

    def named(parts: pd.Series) -> str:
        most = parts[parts >= _LITTLE * parts.sum()].nlargest(_NAMED).index
        whose = [f"% of its work, |% of {other.workload}'s".split("|"), *[["%, ", "%"]] * _NAMED]
        texts = [
            f"{name} ({100 * rows.ours[name]:.0f}{of[0]}{100 * rows.theirs[name]:.0f}{of[1]})"
            for name, of in zip(most, whose, strict=False)
        ]
        return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))

    common = named(alike[alike > 0])
    different = named(apart[(rows.ours - rows.theirs).abs() >= _SMALL])
    text = f"Like {other.workload}, it does {common}."
    text = text if common else f"It has nothing in common with {other.workload}."
    return f"{text} It differs in {different}." if different else text
