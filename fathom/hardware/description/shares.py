"""What a step's work is made of: its shares by kind, class of shape and arithmetic intensity."""

import math
from collections import defaultdict

from fathom.results.description import Description, Operation

_INTENSITIES = (  # the powers of 10
    *("at 1 FLOP/byte or less", "at about 10 FLOPs/byte"),
    *("at about 100 FLOPs/byte", "at 1000 FLOPs/byte or more"),
)
_PRODUCTS = {"matrix product": "matrix", "recurrent product": "recurrent matrix"}
_OTHERS = {"elementwise": "elementwise operations", "data movement": "data movement"}


def of_work(description: Description) -> dict[str, float]:
    """Returns the share of a step's work by class of operation; the shares add up to 1.

    An operation's share is the mean of its share of the step's floating-point operations and of its
    share of the bytes. Its class is its kind, for convolutions and products with the class of their
    shape, and its intensity, FLOPs per byte without any reuse, as 1, 10, 100 or 1000: the share of
    an operation in between is divided by the logarithm of its intensity, so that a small change of
    a network is a small change of its shares.

    Returns:
        shares by names such as ``1x1 convolutions at about 100 FLOPs/byte``, the largest first.
    """
    whole = description.total_flops, description.traffic_bytes
    shares: defaultdict[str, float] = defaultdict(float)
    for row in description.operations:
        own = row.total_flops, row.traffic_bytes
        parts = [mine / all_of for mine, all_of in zip(own, whole, strict=True) if all_of]
        power = math.log10(max(1.0, row.total_flops / max(1, row.traffic_bytes)))
        power = min(power, len(_INTENSITIES) - 1)
        for number, intensity in enumerate(_INTENSITIES):
            share = sum(parts) / len(parts) * max(0.0, 1 - abs(power - number))
            if share > 0:
                shares[f"{_shape(row)} {intensity}"] += share
    largest = sorted(shares.items(), key=lambda item: -item[1])
    return {name: min(1.0, share) for name, share in largest}  # sums of parts round


def _shape(row: Operation) -> str:
    """Returns an operation's kind, with the class of its shape."""
    bounds = row.bounds
    if row.kind == "convolution":
        if bounds["groups"] > 1:
            return f"{'depthwise' if bounds['groups'] == bounds['C'] else 'grouped'} convolutions"
        return f"{'1x1 ' if bounds['R'] == bounds['S'] == 1 else ''}convolutions"
    if row.kind in _PRODUCTS:
        if min(bounds["M"], bounds["N"]) == 1:
            return f"{_PRODUCTS[row.kind]}-vector products"
        return f"{'batched ' if bounds['batch'] > 1 else ''}{_PRODUCTS[row.kind]} products"
    return _OTHERS.get(row.kind, f"{row.kind}s")
