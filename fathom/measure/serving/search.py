"""The search for the highest rate of queries whose latency meets a bound."""

from collections.abc import Callable

from fathom.errors import FathomError
from fathom.results.serving import Trial

MOST_TRIALS = 14
_PRECISION = 1.05  # ratio of the lowest rate that failed to the highest that did not
_LOWEST = 1 / 64  # of the first rate


def highest_rate(attempt: Callable[[float], Trial], start: float) -> list[Trial]:
    """Brackets the highest valid rate, then halves the bracket by its geometric mean.

    Args:
        attempt: runs the test at a rate.
        start: the first rate, in queries per second.

    Returns:
        all trials in order; at least one is valid.

    Raises:
        FathomError: no rate is valid.
    """
    trials: list[Trial] = []
    valid, invalid, rate = 0.0, float("inf"), start
    while len(trials) < MOST_TRIALS and invalid > _PRECISION * valid:
        trials.append(attempt(rate))
        if trials[-1].valid:
            valid = rate
            rate = (rate * invalid) ** 0.5 if invalid < float("inf") else 1.5 * rate
        else:
            invalid = rate
            rate = (rate * valid) ** 0.5 if valid else rate / 2
        if rate < _LOWEST * start:
            break
    if not valid:
        last = trials[-1]
        p99 = f", the 99th percentile was {1e3 * last.latency['p99']:.3g} ms"
        raise FathomError(
            f"no rate meets the bound: at {last.rate:.3g} queries/s, the lowest tried"
            f"{'' if last.first_token else p99} ({last.reason})"  # of text it has no bound
        )
    return trials


def best(trials: list[Trial]) -> Trial:
    """Returns the valid trial with the highest rate."""
    return max((trial for trial in trials if trial.valid), key=lambda trial: trial.rate or 0)
