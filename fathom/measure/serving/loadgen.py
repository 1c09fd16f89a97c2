"""One run of MLPerf's LoadGen against a server in this process.

Reddi et al. 2020, "MLPerf Inference Benchmark", section III-C, defines the scenarios; LoadGen
decides whether a run is valid.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from fathom.errors import FathomError
from fathom.measure.serving.engine import Engine
from fathom.measure.serving.server import Query, Server
from fathom.results.serving import Scenario, Trial

_Values: TypeAlias = dict[str, Any]  # of JSON

STREAMS = 8  # samples per query of multi-stream, as in MLPerf
PERCENTILE = 0.99  # of the server's bound
FEWEST_QUERIES = {"single-stream": 64, "multi-stream": 662, "server": 662, "offline": 1}
"""Those that LoadGen needs for a verdict on the 90th percentile of single-stream, or the 99th."""
_SLOWEST_FACTOR = 20  # a run that takes this many times its expected duration has hung
_GRACE = 60.0  # seconds
_THREAD = "loadgen"
_DETAIL = "mlperf_log_detail.txt"
_PREFIX = ":::MLLOG "
_PERCENTILE_KEY = re.compile(r"result_(\d+\.\d+)_percentile_latency_ns")


@dataclass(frozen=True)
class Load:
    """What LoadGen sends.

    Attributes:
        scenario: one of MLPerf's.
        duration: the shortest duration, in seconds.
        rate: queries per second of ``server``; expected samples per second of ``offline``.
        latency: bound of ``server``; expected duration of a query of the two streams, in seconds.
        seed: of the order of samples and the times of queries.
    """

    scenario: Scenario
    duration: float
    rate: float
    latency: float
    seed: int


def find() -> ModuleType:
    """Imports LoadGen.

    Raises:
        FathomError: it is not installed.
    """
    try:
        import mlperf_loadgen
    except ImportError as error:
        raise FathomError(
            "MLPerf's LoadGen is not installed: pip install 'fathom-workloads[loadgen]'"
        ) from error
    return mlperf_loadgen


def runs() -> bool:
    """Returns whether a test still runs, as after an interruption: LoadGen cannot be stopped."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


def run(engine: Engine, load: Load, logs: Path) -> Trial:
    """Runs LoadGen once.

    Raises:
        FathomError: LoadGen is not installed, the inference fails, or the run does not end.
    """
    loadgen = find()
    logs.mkdir(parents=True)

    def answer(ids: Sequence[int]) -> None:
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(each, 0, 0) for each in ids])

    server = Server(engine, answer)

    def issue(samples: Sequence[Any]) -> None:
        server.issue([Query(sample.index, sample.id) for sample in samples])

    count = len(engine.samples)
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(count, count, lambda _: None, lambda _: None)
    settings, log = _settings(loadgen, load), _log_settings(loadgen, logs)
    # In a thread of its own, so that the user can interrupt it.
    test = threading.Thread(
        target=loadgen.StartTestWithLogSettings,
        args=(system, library, settings, log, ""),
        name=_THREAD,
        daemon=True,
    )
    test.start()
    _wait(test, _SLOWEST_FACTOR * shortest(load) + _GRACE)
    server.stop()
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    trial = _trial(load, _results(logs / _DETAIL), server)
    if not engine.tokens_after_first:
        return trial
    each = np.array(server.decodes) / engine.tokens_after_first
    tokens = {"first_token": _summary(server.first_tokens), "output_token": _summary(each)}
    return trial.model_copy(update=tokens)


def _summary(seconds: Sequence[float] | np.ndarray) -> dict[str, float]:
    percentiles = {f"p{p}": float(np.percentile(seconds, p)) for p in (50, 90, 99)}
    return {"mean": float(np.mean(seconds)), **percentiles}


def shortest(load: Load) -> float:
    """Returns the expected duration of a run in seconds: it also has the fewest queries."""
    seconds = 1 / load.rate if load.scenario in ("server", "offline") else load.latency
    return max(load.duration, FEWEST_QUERIES[load.scenario] * seconds)


def _wait(thread: threading.Thread, limit: float) -> None:
    end = time.monotonic() + limit
    while thread.is_alive():
        thread.join(0.2)
        if time.monotonic() > end:
            raise FathomError(f"LoadGen did not end within {limit:.0f} s")


def _settings(loadgen: ModuleType, load: Load) -> object:
    names = {
        "single-stream": "SingleStream",
        "multi-stream": "MultiStream",
        "server": "Server",
        "offline": "Offline",
    }
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, names[load.scenario])
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = round(1000 * load.duration)
    settings.min_query_count = FEWEST_QUERIES[load.scenario]
    nanoseconds = max(1, round(1e9 * load.latency))
    settings.single_stream_expected_latency_ns = nanoseconds
    settings.multi_stream_expected_latency_ns = nanoseconds
    settings.multi_stream_samples_per_query = STREAMS
    settings.server_target_latency_ns = nanoseconds
    settings.server_target_latency_percentile = PERCENTILE
    settings.server_target_qps = load.rate
    settings.offline_expected_qps = load.rate
    for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(settings, name, load.seed + 1)
    return settings


def _log_settings(loadgen: ModuleType, folder: Path) -> object:
    output = loadgen.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(folder), False
    settings = loadgen.LogSettings()
    settings.log_output, settings.enable_trace = output, False
    return settings


def _results(log: Path) -> _Values:
    """Returns the results that LoadGen logged, by key; each is logged once."""
    return {line["key"]: line["value"] for line in _lines(log)}


def _lines(log: Path) -> Iterator[_Values]:
    try:
        for line in log.read_text().splitlines():
            if line.startswith(_PREFIX):
                yield json.loads(line.removeprefix(_PREFIX))
    except (OSError, ValueError) as error:
        raise FathomError(f"cannot read LoadGen's log {log}: {error}") from error


def _trial(load: Load, results: _Values, server: Server) -> Trial:
    latency = {
        f"p{float(match[1]):g}": nanoseconds / 1e9
        for key, nanoseconds in results.items()
        if (match := _PERCENTILE_KEY.fullmatch(key))
    }
    if not latency:
        raise FathomError("LoadGen's log has no latencies")
    latency["mean"] = results["result_mean_latency_ns"] / 1e9
    valid = results["result_validity"] == "VALID"
    return Trial(
        rate=load.rate if load.scenario == "server" else None,
        valid=valid,
        reason="" if valid else _reason(results),
        queries=results["result_query_count"],
        samples_per_second=_rate(load.scenario, results),
        latency=latency,
        batches={str(size): number for size, number in sorted(server.batches.items())},
    )


def _rate(scenario: Scenario, results: _Values) -> float:
    if scenario == "offline":
        return results["result_samples_per_second"]
    if scenario == "server":
        return results["result_completed_samples_per_sec"]
    samples = STREAMS if scenario == "multi-stream" else 1
    return samples / (results["result_mean_latency_ns"] / 1e9)


def _reason(results: _Values) -> str:
    texts = (results.get("result_invalid_reason"), results.get("early_stopping_result"))
    return " ".join(" ".join(text.replace("*", " ").split()) for text in texts if text)
