"""A load test of a model in one of MLPerf's scenarios."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.errors import FathomError
from fathom.measure.serving import loadgen
from fathom.measure.serving.engine import Engine
from fathom.measure.serving.search import best, highest_rate
from fathom.results.serving import Scenario, ServingResult, Trial

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

_SAMPLES = 256  # different ones
_TIMED = 5  # batches of each size
_FIRST_RATE = 0.7  # of the rate of full batches: where a search begins
_HEADROOM = 1.5  # LoadGen prepares as many queries as it expects, and must not run out of them


def measure(
    model: "NeuralNetworkModel",
    scenario: Scenario,
    duration: float,
    rate: float | None,
    bound: float | None,
    logs: Path,
    report: Callable[[str], None],
) -> ServingResult:
    """Tests a model's inference under load.

    Args:
        model: forward-only, after ``setup``; its batch size is the limit of the dynamic batches.
        scenario: one of MLPerf's.
        duration: the shortest duration of a run, in seconds.
        rate: queries per second of ``server``; None: search for the highest valid one.
        bound: of the server's 99th percentile, in seconds; None in the other scenarios.
        logs: folder for LoadGen's logs.
        report: receives lines of progress.

    Raises:
        FathomError: LoadGen is not installed, the inference fails, or no rate meets the bound.
    """
    loadgen.find()
    engine = Engine(model, _SAMPLES, model.hyperparameters.batch_size)
    engine.warm_up()
    seconds = {size: _seconds(engine, size) for size in sorted({1, engine.limit})}
    most = engine.limit / seconds[engine.limit]
    report(f"without a load: one in {1e3 * seconds[1]:.3g} ms, full batches {most:,.4g} samples/s")
    if bound and bound <= seconds[1]:
        raise FathomError(
            f"a bound of {1e3 * bound:.3g} ms cannot be met: one sample alone takes "
            f"{1e3 * seconds[1]:.3g} ms"
        )

    def attempt(rate: float, latency: float) -> Trial:
        load = loadgen.Load(scenario, duration, rate, latency, model.execution.seed)
        trial = loadgen.run(engine, load, logs / f"trial-{len(list(logs.glob('trial-*'))):02}")
        verdict = "VALID" if trial.valid else "INVALID"
        asked = f"{rate:,.4g} queries/s: " if scenario == "server" else ""
        report(f"{asked}p99 {1e3 * trial.latency['p99']:.3g} ms, {verdict}")
        return trial

    trials: list[Trial] = []
    if bound is None:
        result = attempt(_HEADROOM * most, seconds[1] / _HEADROOM)
        if not result.valid:  # faster than expected: LoadGen ran out of queries
            expected = result.latency["p50"] / _HEADROOM
            result = attempt(_HEADROOM * result.samples_per_second, expected)
    elif rate is not None:
        result = attempt(rate, bound)
    else:
        trials = highest_rate(lambda each: attempt(each, bound), _FIRST_RATE * most)
        result = best(trials)
    return ServingResult(
        workload=model.name,
        scenario=scenario,
        largest_batch=engine.limit,
        different_samples=len(engine.samples),
        duration=duration,
        latency_bound=bound,
        seed=model.execution.seed,
        batch_seconds={str(size): time for size, time in seconds.items()},
        environment=model.machine(),
        trials=trials,
        result=result,
    )


def _seconds(engine: Engine, size: int) -> float:
    """Returns the shortest time of a batch of the first sample."""

    def once() -> float:
        started = time.perf_counter()
        engine.run([0] * size)
        return time.perf_counter() - started

    return min(once() for _ in range(_TIMED))
