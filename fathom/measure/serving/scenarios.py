"""A load test: runs by LoadGen or with arrivals of our own, and the search for a rate."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.errors import FathomError
from fathom.measure.serving import loadgen, replay
from fathom.measure.serving.arrivals import Arrivals, Trace, uniform
from fathom.measure.serving.decoding import DecodingEngine
from fathom.measure.serving.endpoint import Endpoint, find
from fathom.measure.serving.engine import Engine, draw
from fathom.measure.serving.generation import Generating
from fathom.measure.serving.replay import Service
from fathom.measure.serving.search import best, highest_rate
from fathom.measure.serving.server import Server
from fathom.results.serving import Batching, Bounds, Scenario, ServingResult, Trial

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

_SAMPLES = 256  # different ones
_TIMED = 5  # batches of each size
_LONGEST_BATCH = 300.0  # seconds
_FIRST_RATE = 0.7  # of the rate of full batches: where a search begins
_HEADROOM = 1.5  # LoadGen prepares as many queries as it expects, and must not run out of them


@dataclass(frozen=True)
class Plan:
    """A load test.

    Attributes:
        scenario: one of LoadGen's.
        duration: the shortest duration of a run, in seconds.
        rate: queries per second of ``server``; None: search for the highest valid one.
        bounds: of the server's 99th percentiles.
        arrivals: of ``server``; None: LoadGen's.
    """

    scenario: Scenario
    duration: float
    rate: float | None = None
    bounds: Bounds = dataclasses.field(default_factory=Bounds)
    arrivals: Arrivals | None = None

    @property
    def searches(self) -> bool:
        """Whether the rate is searched for; a trace without bounds has its own."""
        return self.scenario == "server" and self.rate is None and bool(self.bounds.given())


def services(
    model: "NeuralNetworkModel",
    batchings: list[Batching],
    cache_bytes: int | None,
    arrivals: Arrivals | None,
    url: str | None,
) -> Iterator[tuple[str, Service]]:
    """Yields what a model's load tests test, each with its name and ready to run.

    Args:
        model: forward-only, after ``setup``; its batch size is the limit of the batches.
        batchings: of a model that writes text.
        cache_bytes: bound of the cached keys and values; None: room for full batches.
        arrivals: a trace has the lengths of prompts and texts; otherwise they are uniform.
        url: of an endpoint; None: in this process.

    Raises:
        FathomError: the model's data have no sample, the bound is too low, or no endpoint answers.
    """
    limit, decoder = model.hyperparameters.batch_size, model.token_decoder()
    engine = None if decoder or url else Engine(model, _SAMPLES, limit)
    if decoder is None:
        samples: Sequence[Any] = engine.samples if engine else draw(model, _SAMPLES)
    else:
        texts = [sample[0] for sample in draw(model, _SAMPLES)]
        if isinstance(arrivals, Trace):
            samples = arrivals.prompts(texts, len(texts[0]), decoder.new_tokens)
        else:
            samples = uniform(texts, decoder.new_tokens, model.execution.seed)
    if url:
        endpoint = find(url, model.name, decoder)
        yield "unknown", Service(samples, partial(Endpoint, endpoint), bool(decoder), limit)
    elif engine:
        engine.warm_up()
        yield "dynamic", Service(samples, partial(Server, engine), False, limit)
    else:
        decoding = DecodingEngine(model, limit, cache_bytes)
        decoding.warm_up()
        cache = decoding.pool.blocks * decoding.block_bytes
        for batching in batchings:
            start = partial(Generating, decoding, batching)
            yield batching, Service(samples, start, True, limit, cache)


def measure(
    model: "NeuralNetworkModel",
    service: Service,
    plan: Plan,
    logs: Path,
    report: Callable[[str], None],
) -> ServingResult:
    """Tests a service under load.

    Args:
        model: whose samples are inferred.
        service: what is tested.
        plan: of the test.
        logs: folder for the logs of each run.
        report: receives lines of progress.

    Raises:
        FathomError: LoadGen is not installed, the inference fails, or no rate meets the bounds.
    """
    alone = [_together(service, 1) for _ in range(_TIMED)]
    full = min(_together(service, service.limit)[0] for _ in range(_TIMED))
    single, most = min(seconds for seconds, _ in alone), service.limit / full
    report(f"without a load: one in {1e3 * single:.3g} ms, full batches {most:,.4g} samples/s")
    _require_possible(plan.bounds, [bounds for _, bounds in alone])
    numbers = itertools.count()

    def attempt(rate: float | None, latency: float) -> Trial:
        folder = logs / f"trial-{next(numbers):02}"
        trial = _run(service, plan, rate, latency, model.execution.seed, folder, report)
        asked = f"{trial.rate:,.4g} queries/s: " if trial.rate else ""
        report(f"{asked}{_p99(trial)}, {'VALID' if trial.valid else 'INVALID'}")
        return trial

    trials: list[Trial] = []
    if plan.searches:
        trials = highest_rate(lambda rate: attempt(rate, single), _FIRST_RATE * most)
        result = best(trials)
    elif plan.scenario == "server":
        result = attempt(plan.rate, single)
    else:
        result = attempt(_HEADROOM * most, single / _HEADROOM)
        if not result.valid:  # faster than expected: LoadGen ran out of queries
            expected = result.latency["p50"] / _HEADROOM
            result = attempt(_HEADROOM * result.samples_per_second, expected)
    return ServingResult(
        workload=model.name,
        scenario=plan.scenario,
        largest_batch=service.limit,
        cache_bytes=service.cache_bytes,
        arrivals=plan.arrivals.name if plan.arrivals else "LoadGen",
        different_samples=len(service.samples),
        duration=plan.duration,
        latency_bound=plan.bounds.latency,
        bounds=plan.bounds,
        seed=model.execution.seed,
        batch_seconds={"1": single, str(service.limit): full},
        environment=model.machine(),
        trials=trials,
        result=result,
    )


def _run(
    service: Service,
    plan: Plan,
    rate: float | None,
    latency: float,
    seed: int,
    folder: Path,
    report: Callable[[str], None],
) -> Trial:
    if plan.arrivals:
        duration, bounds = plan.duration, plan.bounds
        return replay.run(service, plan.arrivals, rate, duration, bounds, seed, folder)
    assert rate is not None  # the trace's own rate alone is None
    load = loadgen.Load(plan.scenario, plan.duration, rate, latency, plan.bounds, seed)
    if (seconds := loadgen.shortest(load)) > plan.duration:
        fewest = loadgen.FEWEST_QUERIES[plan.scenario]
        report(f"{fewest} queries, the fewest for a verdict, take about {seconds:,.0f} s")
    return loadgen.run(service, load, folder)


def _together(service: Service, count: int) -> tuple[float, Bounds]:
    """Sends queries at once; returns the seconds until all are answered, and the first's times."""
    sent, _, _ = replay.send(service, np.zeros(count), _LONGEST_BATCH)
    replay.failures(sent)
    first, ends = sent[0], [query.answered or 0.0 for query in sent]
    times = {"latency": (first.answered or 0.0) - first.issued}
    if first.first and first.answered and first.tokens > 1:
        times["first_token"] = first.first - first.issued
        times["output_token"] = (first.answered - first.first) / (first.tokens - 1)
    return max(ends) - first.issued, Bounds(**times)


def _require_possible(bounds: Bounds, alone: list[Bounds]) -> None:
    """Raises FathomError for a bound that one sample alone does not meet."""
    for name, limit in bounds.given().items():
        fastest = min(times.given().get(name, 0.0) for times in alone)
        if limit <= fastest:
            raise FathomError(
                f"a bound of {1e3 * limit:.3g} ms on {name} cannot be met: one sample alone takes "
                f"{1e3 * fastest:.3g} ms"
            )


def _p99(trial: Trial) -> str:
    """Returns the 99th percentiles in milliseconds."""
    if not (trial.first_token and trial.output_token):
        return f"p99 {1e3 * trial.latency['p99']:.3g} ms"
    return (
        f"p99 of the first token {1e3 * trial.first_token['p99']:.3g} ms, of each next "
        f"{1e3 * trial.output_token['p99']:.3g} ms"
    )
