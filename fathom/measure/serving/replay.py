"""One run of a load test with arrivals of our own: the next query is sent when it is due."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fathom.errors import FathomError
from fathom.measure.serving import queries
from fathom.measure.serving.arrivals import Arrivals
from fathom.measure.serving.server import Answer, Query, Target
from fathom.results.serving import Bounds, Trial

SLOWEST_FACTOR = 20
"""A run that takes this many times its expected duration has hung."""
GRACE = 60.0
"""Seconds that it may take besides."""
_LEAD = 0.05  # seconds before the first query


@dataclass(frozen=True)
class Service:
    """What is tested.

    Attributes:
        samples: what queries draw from.
        start: returns a new target, which calls the function given.
        writes_text: queries generate tokens.
        limit: the most queries in a batch; of an endpoint, as many as are sent at once to begin.
        cache_bytes: of the cached keys and values; None: there are none, or they are not known.
    """

    samples: Sequence[Any]
    start: Callable[[Answer], Target]
    writes_text: bool
    limit: int
    cache_bytes: int | None = None


def run(
    service: Service,
    arrivals: Arrivals,
    rate: float | None,
    duration: float,
    bounds: Bounds,
    seed: int,
    folder: Path,
) -> Trial:
    """Sends queries as they are scheduled, whatever becomes of those before.

    Args:
        service: what is tested.
        arrivals: their times.
        rate: queries per second; None: as recorded.
        duration: of the arrivals, in seconds.
        bounds: of the 99th percentiles.
        seed: of the arrivals.
        folder: for the log.

    Raises:
        FathomError: all queries fail, or the run does not end.
    """
    times = arrivals.schedule(rate, duration, seed)
    sent, start, target = send(service, times, SLOWEST_FACTOR * float(times[-1]) + GRACE)
    log = queries.table(sent, times + start)
    folder.mkdir(parents=True)
    queries.write(log, folder / queries.NAME)
    reasons = [*failures(sent), *queries.missed(log, bounds)]
    return Trial(
        rate=rate or (len(times) - 1) / float(times[-1]),
        valid=not reasons,
        reason="; ".join(reasons),
        queries=len(sent),
        samples_per_second=len(sent) / float(log.answered.max()),
        latency=queries.summary(queries.latency(log)),
        batches=batches(target),
        goodput=queries.goodput(log, bounds),
        **(tokens(log) if service.writes_text else {}),
    )


def send(
    service: Service, times: Sequence[float] | np.ndarray, limit: float
) -> tuple[list[Query], float, Target]:
    """Sends a query at each time, and waits for the answers.

    Args:
        service: what is tested.
        times: in order, in seconds from the start; queries of one time are sent together.
        limit: seconds to wait for the answers.

    Returns:
        the queries, the time of the start by ``time.perf_counter``, and the target, stopped.
    """
    answered = threading.Semaphore(0)

    def note(answers: Sequence[Query]) -> None:
        for query in answers:
            if query.answered is not None:
                query.outputs = []  # of many queries, they would fill the memory
                answered.release()

    target, sent = service.start(note), []
    start = time.perf_counter() + _LEAD
    for due, numbers in itertools.groupby(range(len(times)), times.__getitem__):
        time.sleep(max(0.0, start + due - time.perf_counter()))
        new = [Query(service.samples[number % len(service.samples)], number) for number in numbers]
        sent.extend(new)
        target.issue(new)  # at once, as one batch if they fit
    end = time.perf_counter() + limit
    for _ in sent:
        if not answered.acquire(timeout=max(0.0, end - time.perf_counter())):
            raise FathomError(f"the queries were not answered within {limit:.0f} s")
    target.stop()
    return sent, start, target


def failures(sent: Sequence[Query]) -> list[str]:
    """Returns a text if some queries failed.

    Raises:
        FathomError: all of them did.
    """
    errors = [query.error for query in sent if query.error]
    if errors and len(errors) == len(sent):
        raise FathomError(f"all queries failed: {errors[0]}")
    return [f"{len(errors)} of {len(sent)} queries failed: {errors[0]}"] if errors else []


def tokens(log: pd.DataFrame) -> dict[str, Any]:
    """Returns the fields of a trial that are about tokens."""
    between = queries.output_token(log).dropna()  # none if each text came in one piece
    return {
        "first_token": queries.summary(queries.first_token(log).dropna()),
        "output_token": queries.summary(between) if len(between) else None,
        "tokens_per_second": float(log.tokens.sum() / log.answered.max()),
    }


def batches(target: Target) -> dict[str, int]:
    """Returns the number of a target's batches by size."""
    return {str(size): number for size, number in sorted(target.batches.items())}
