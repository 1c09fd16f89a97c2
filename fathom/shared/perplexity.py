"""The perplexity of what predicts words or tokens."""

import math


def perplexity(cross_entropy: float) -> float:
    """Returns e to the power of a cross-entropy in nats; infinite where that exceeds a float."""
    try:
        return math.exp(cross_entropy)
    except OverflowError:
        return math.inf
