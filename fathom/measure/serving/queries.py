"""The log of a load test's queries, from which its figures are computed.

A file has a line for each sample, with times in seconds from the first arrival, so that any
percentile can be computed again.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fathom.measure.serving.server import Query
from fathom.results.serving import Bounds
from fathom.system.files import atomic_write

NAME = "queries.csv"
PERCENTILES = (50, 90, 95, 97, 99, 99.9)
TARGET = 99  # percentile that a bound is on


def table(queries: Sequence[Query], scheduled: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """Returns one row per query.

    Args:
        queries: all answered.
        scheduled: when each should arrive, by ``time.perf_counter``.
    """
    start = min(scheduled)
    return pd.DataFrame(
        {
            "scheduled": np.array(scheduled) - start,
            "issued": np.array([query.issued for query in queries]) - start,
            "first_token": np.array([query.first or np.nan for query in queries]) - start,
            "answered": np.array([query.answered or np.nan for query in queries]) - start,
            "tokens": [query.tokens for query in queries],
            "failed": [query.error is not None for query in queries],
        }
    )


def write(queries: pd.DataFrame, path: Path) -> None:
    """Writes the log of a trial.

    Raises:
        FathomError: the file cannot be written.
    """
    with atomic_write(path) as temporary:
        queries.to_csv(temporary, index=False, float_format="%.9f")


def latency(queries: pd.DataFrame) -> pd.Series:
    """Returns the seconds from each query's scheduled arrival to its answer."""
    return queries.answered - queries.scheduled


def first_token(queries: pd.DataFrame) -> pd.Series:
    """Returns the seconds from each query's scheduled arrival to its first token."""
    return queries.first_token - queries.scheduled


def output_token(queries: pd.DataFrame) -> pd.Series:
    """Returns the seconds for each token after the first, of queries with several tokens."""
    several = queries[queries.tokens > 1]
    return (several.answered - several.first_token) / (several.tokens - 1)


_KINDS = {"latency": latency, "first_token": first_token, "output_token": output_token}


def summary(seconds: pd.Series) -> dict[str, float]:
    """Returns the mean and the percentiles of at least one value."""
    percentiles = {f"p{p:g}": float(np.percentile(seconds, p)) for p in PERCENTILES}
    return {"mean": float(seconds.mean()), **percentiles}


def met(queries: pd.DataFrame, bounds: Bounds) -> pd.Series:
    """Returns whether each query was answered within all bounds that there are."""
    within = ~queries.failed
    for name, limit in bounds.given().items():
        within &= _KINDS[name](queries).reindex(queries.index, fill_value=0.0) <= limit
    return within


def goodput(queries: pd.DataFrame, bounds: Bounds) -> float | None:
    """Returns the queries per second that met all bounds; None without bounds."""
    if not bounds.given():
        return None
    return float(met(queries, bounds).sum() / queries.answered.max())


def missed(queries: pd.DataFrame, bounds: Bounds) -> list[str]:
    """Returns a text for each bound that the 99th percentile misses, or whose is not known."""
    texts = []
    for name, limit in bounds.given().items():
        seconds = _KINDS[name](queries).dropna()
        found = float(np.percentile(seconds, TARGET)) if len(seconds) else np.inf
        if found > limit:
            text = f"{1e3 * found:.4g} ms" if len(seconds) else "not known"
            texts.append(f"the {TARGET}th percentile of {name} is {text}")
    return texts
