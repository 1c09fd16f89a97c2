"""Intervals of a trace that stand for the rest, with weights (SimPoint: Sherwood et al., 2002)."""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from scipy.cluster.vq import kmeans2

from fathom.hardware.traces.block import LOAD, Block

LENGTH = 100_000  # accesses of an interval
_BUCKETS = 64
_PAGE = 12  # bits of an address within a page


def pieces(blocks: Iterable[Block], length: int = LENGTH) -> Iterator[tuple[int, Block]]:
    """Yields the blocks of each interval, with its number; blocks are cut where intervals end."""
    done = 0
    for block in blocks:
        start, size = 0, len(block.address)
        while start < size:
            end = min(size, start + length - done % length)
            yield done // length, Block(*(each[start:end] for each in block))
            done, start = done + end - start, end


def choose(blocks: Iterable[Block], count: int, length: int = LENGTH) -> pd.DataFrame:
    """Returns the intervals to simulate, and the share of the trace that each stands for.

    Intervals are clustered (k-means) by which pages they touch, in 64 groups of pages, and by their
    share of stores. Of each cluster, the interval nearest to its centre is taken.

    Args:
        blocks: of the trace.
        count: clusters, at most.
        length: accesses of an interval; the last may have fewer.

    Returns:
        columns interval, from 0; first, its first access; accesses; weight: they sum to 1.
    """
    profiles: list[np.ndarray] = []
    sizes: list[int] = []
    for number, block in pieces(blocks, length):
        if number == len(profiles):
            profiles.append(np.zeros(_BUCKETS + 1))
            sizes.append(0)
        page = (block.address >> np.uint64(_PAGE)) * np.uint64(0x9E3779B97F4A7C15)
        group = (page >> np.uint64(58)).astype(int)
        profiles[number][:_BUCKETS] += np.bincount(group, minlength=_BUCKETS)
        profiles[number][_BUCKETS] += (block.kind != LOAD).sum()
        sizes[number] += len(block.kind)
    weights = np.array(sizes, float)
    points = np.array(profiles) / weights[:, None]
    distinct = len(np.unique(points, axis=0))
    centres, labels = kmeans2(points, min(count, distinct), minit="++", seed=0)
    rows = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        nearest = members[np.argmin(((points[members] - centres[label]) ** 2).sum(axis=1))]
        weight = weights[members].sum() / weights.sum()
        rows.append((int(nearest), int(nearest) * length, sizes[nearest], weight))
    return pd.DataFrame(sorted(rows), columns=["interval", "first", "accesses", "weight"])
