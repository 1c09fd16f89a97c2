"""The lengths that sentences are padded to: batches of as many tokens each."""

import itertools

from fathom.errors import FathomError
from fathom.shared.translation.batches import Shape


def parse(text: str) -> tuple[int, ...]:
    """Parses lengths such as ``12 16 24``.

    Raises:
        FathomError: the text cannot be parsed, or the lengths do not grow.
    """
    try:
        lengths = tuple(int(part) for part in text.split())
    except ValueError:
        lengths = ()
    if not lengths or lengths[0] < 2 or any(a >= b for a, b in itertools.pairwise(lengths)):
        raise FathomError(f"lengths must be numbers that grow, such as '12 16 24', not {text!r}")
    return lengths


def shapes(lengths: tuple[int, ...], pairs: int) -> tuple[Shape, ...]:
    """Returns a shape for each length, all of about as many tokens as ``pairs`` of the last."""
    return tuple(Shape(pairs * lengths[-1] // length, length, length) for length in lengths)
