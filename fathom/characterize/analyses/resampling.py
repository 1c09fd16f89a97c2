"""How far a result would move had other steps been measured: the bootstrap, in blocks of steps."""

import numpy as np

CONFIDENCE = 0.95
FEWEST_STEPS = 5  # from which an interval means something
_RESAMPLES = 2000


def resampled_steps(steps: int, generator: np.random.Generator) -> np.ndarray:
    """Returns step numbers drawn with replacement, int64 [resamples, steps].

    Steps that follow each other are alike: they are drawn in blocks of the square root of their
    number, which wrap around.
    """
    length = max(1, round(np.sqrt(steps)))
    starts = generator.integers(steps, size=(_RESAMPLES, -(-steps // length)))
    blocks = starts[:, :, np.newaxis] + np.arange(length)
    return blocks.reshape(_RESAMPLES, -1)[:, :steps] % steps


def interval(values: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of what came out of each resample."""
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
