"""Buckets: the lengths that pairs of similar length are padded to."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from fathom.errors import FathomError


class Bucket(NamedTuple):
    """The lengths that a batch is padded to, in words."""

    source: int  # largest length of a source sentence
    target: int  # largest length of a target sentence with its <eos>


def parse(text: str) -> tuple[Bucket, ...]:
    """Parses buckets from text such as ``5-10 10-15``, the smallest first.

    Raises:
        FathomError: the text cannot be parsed, or the buckets do not grow.
    """
    try:
        buckets = [Bucket(*map(int, part.split("-"))) for part in text.split()]
    except (ValueError, TypeError):
        buckets = []
    grows = all(
        a.source < b.source and a.target <= b.target for a, b in itertools.pairwise(buckets)
    )
    if not buckets or not grows or min(buckets[0]) < 1:
        raise FathomError(
            f"buckets must be SOURCE-TARGET lengths that grow, such as '5-10 10-15', not {text!r}"
        )
    return tuple(buckets)


def bucket_of_source(length: int, buckets: Sequence[Bucket]) -> Bucket:
    """Returns a source sentence's smallest bucket; the largest for longer ones."""
    return next((bucket for bucket in buckets if length <= bucket.source), buckets[-1])
