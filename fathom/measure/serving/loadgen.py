"""One run of MLPerf's LoadGen against a server in this process.

Reddi et al. 2020, "MLPerf Inference Benchmark", section III-C, defines the scenarios; LoadGen
decides whether a run is valid.
"""

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fathom.errors import FathomError, require
from fathom.measure.serving import queries, replay
from fathom.measure.serving.replay import GRACE, SLOWEST_FACTOR, Service
from fathom.measure.serving.server import Query
from fathom.results.serving import Bounds, Scenario, Trial
from fathom.system.files import open_file

_Values: TypeAlias = dict[str, Any]  # of JSON

STREAMS = 8  # samples per query of multi-stream, as in MLPerf
PERCENTILE = 0.99  # of the server's bound
FEWEST_QUERIES = {"single-stream": 64, "multi-stream": 662, "server": 662, "offline": 1}
"""Those that LoadGen needs for a verdict on the 90th percentile of single-stream, or the 99th."""
_THREAD = "loadgen"
_DETAIL = "mlperf_log_detail.txt"
_PREFIX = ":::MLLOG "
_TRACE = "mlperf_log_trace.json"
_SAMPLE = re.compile(
    rb'"Sample".*"ph":"b".*"ts":([\d.]+),.*"sample_seq":(\d+),.*"issue_start_ns":(\d+)'
)
_EARLY_STOPPING = ("early_stopping_ttft_result", "early_stopping_tpot_result")


@dataclass(frozen=True)
class Load:
    """What LoadGen sends."""

    scenario: Scenario  # one of MLPerf's
    duration: float  # the shortest duration, in seconds
    rate: float  # queries per second of ``server``; expected samples per second of ``offline``
    latency: float  # expected duration of a query of the two streams, in seconds
    bounds: Bounds  # of ``server``: of the latency, or of the first and each next token
    seed: int  # of the order of samples and the times of queries


def find() -> ModuleType:
    """Imports LoadGen.

    Raises:
        FathomError: it is not installed.
    """
    require("MLPerf's LoadGen", "loadgen", "mlperf_loadgen")
    import mlperf_loadgen

    return mlperf_loadgen


def runs() -> bool:
    """Returns whether a test still runs, as after an interruption: LoadGen cannot be stopped."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


def run(service: Service, load: Load, folder: Path) -> Trial:
    """Runs LoadGen once, and keeps a log of the queries beside its own.

    Raises:
        FathomError: LoadGen is not installed, the inference fails, or the run does not end.
    """
    loadgen = find()
    folder.mkdir(parents=True)
    sent: list[Query] = []

    def answer(answered: Sequence[Query]) -> None:
        replies = [loadgen.QuerySampleResponse(each.id, 0, 0, each.tokens) for each in answered]
        done = answered[0].answered is not None
        if done:
            for each in answered:
                each.outputs = []  # of many queries, they would fill the memory
        (loadgen.QuerySamplesComplete if done else loadgen.FirstTokenComplete)(replies)

    target = service.start(answer)

    def issue(samples: Sequence[Any]) -> None:
        new = [Query(service.samples[sample.index], sample.id) for sample in samples]
        sent.extend(new)
        target.issue(new)

    count = len(service.samples)
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(count, count, lambda _: None, lambda _: None)
    settings = _settings(loadgen, load, service.writes_text)
    # A trace of LoadGen's has the scheduled times, but is large where queries are many.
    log = _log_settings(loadgen, folder, trace=service.writes_text)
    # In a thread of its own, so that the user can interrupt it.
    test = threading.Thread(
        target=loadgen.StartTestWithLogSettings,
        args=(system, library, settings, log, ""),
        name=_THREAD,
        daemon=True,
    )
    test.start()
    _wait(test, SLOWEST_FACTOR * shortest(load) + GRACE)
    target.stop()
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    issued = np.array([query.issued for query in sent])
    scheduled = _scheduled(folder / _TRACE, issued) if service.writes_text else issued
    kept = queries.table(sent, scheduled)
    queries.write(kept, folder / queries.NAME)
    trial = _trial(load, _results(folder / _DETAIL), kept, replay.batches(target))
    failed = replay.failures(sent)
    return trial.model_copy(update={"valid": False, "reason": failed[0]}) if failed else trial


def shortest(load: Load) -> float:
    """Returns the expected duration of a run in seconds: it also has the fewest queries."""
    seconds = 1 / load.rate if load.scenario in ("server", "offline") else load.latency
    return max(load.duration, FEWEST_QUERIES[load.scenario] * seconds)


def _wait(thread: threading.Thread, limit: float) -> None:
    thread.join(limit)  # which a signal interrupts
    if thread.is_alive():
        raise FathomError(f"LoadGen did not end within {limit:.0f} s")


def _settings(loadgen: ModuleType, load: Load, writes_text: bool) -> object:
    name = load.scenario.title().replace("-", "")  # such as SingleStream
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, name)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = round(1000 * load.duration)
    settings.min_query_count = FEWEST_QUERIES[load.scenario]
    nanoseconds = max(1, round(1e9 * load.latency))
    settings.single_stream_expected_latency_ns = nanoseconds
    settings.multi_stream_expected_latency_ns = nanoseconds
    settings.multi_stream_samples_per_query = STREAMS
    if load.bounds.latency:
        settings.server_target_latency_ns = round(1e9 * load.bounds.latency)
    settings.use_token_latencies = writes_text
    if load.bounds.first_token and load.bounds.output_token:
        settings.ttft_latency = round(1e9 * load.bounds.first_token)
        settings.tpot_latency = round(1e9 * load.bounds.output_token)
    settings.server_target_latency_percentile = PERCENTILE
    settings.server_target_qps = load.rate
    settings.offline_expected_qps = load.rate
    for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(settings, name, load.seed + 1)
    return settings


def _log_settings(loadgen: ModuleType, folder: Path, trace: bool) -> object:
    output = loadgen.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(folder), False
    settings = loadgen.LogSettings()
    settings.log_output, settings.enable_trace = output, trace
    return settings


def _results(log: Path) -> _Values:
    """Returns the results that LoadGen logged, by key; each is logged once."""
    try:
        lines = [line for line in log.read_text().splitlines() if line.startswith(_PREFIX)]
        found = [json.loads(line.removeprefix(_PREFIX)) for line in lines]
    except (OSError, ValueError) as error:
        raise FathomError(f"cannot read LoadGen's log {log}: {error}") from error
    return {each["key"]: each["value"] for each in found}


def _scheduled(trace: Path, issued: np.ndarray) -> np.ndarray:
    """Returns when LoadGen meant to send each query, from its trace, which is removed.

    The trace has a clock of its own. ``issued``, when the queries came in their order, and the
    result are of ``time.perf_counter``.
    """
    starts, delays = np.full(len(issued), np.nan), np.full(len(issued), np.nan)
    with open_file(trace) as lines:
        for line in lines:
            if found := _SAMPLE.search(line):
                number = int(found[2])
                starts[number], delays[number] = float(found[1]) / 1e6, float(found[3]) / 1e9
    trace.unlink()
    if np.isnan(starts).any():
        raise FathomError("LoadGen's trace lacks some queries")
    # The clocks differ by a constant; a query comes at once, or later if Python was busy.
    return starts + np.min(issued - starts - delays)


def _trial(load: Load, results: _Values, log: pd.DataFrame, batches: dict[str, int]) -> Trial:
    latency = _percentiles(results, "result_{}_percentile_latency_ns", "result_mean_latency_ns")
    if len(latency) < 2:
        raise FathomError("LoadGen's log has no latencies")
    valid = results["result_validity"] == "VALID"
    rate, count = _rate(load.scenario, results), results["result_query_count"]
    goodput = queries.goodput(log, load.bounds)
    if goodput and load.bounds.latency and load.scenario == "server":
        # The log has when queries were sent, LoadGen when they were due.
        late = results["result_overlatency_query_count"]
        goodput = min(goodput, rate * (1 - late / count))
    trial = Trial(
        rate=load.rate if load.scenario == "server" else None,
        valid=valid,
        reason="" if valid else _reason(results),
        queries=count,
        samples_per_second=rate,
        latency=latency,
        batches=batches,
        goodput=goodput,
    )
    if not log.tokens.any():
        return trial
    first = "result_first_token_{}_percentile_latency_ns", "result_first_token_mean_latency_ns"
    each = "result_time_per_output_token_{}_percentile_ns", "result_time_to_output_token_mean"
    tokens = {"first_token": first, "output_token": each}
    theirs = {name: _percentiles(results, *keys) for name, keys in tokens.items()}
    measured = {name: seconds for name, seconds in theirs.items() if len(seconds) > 1}
    return trial.model_copy(update=replay.tokens(log) | measured)  # none of offline


def _percentiles(results: _Values, form: str, mean: str) -> dict[str, float]:
    """Returns the mean and the percentiles that LoadGen logged, in seconds."""
    keys = {"mean": mean, **{f"p{p:g}": form.format(f"{p:.2f}") for p in queries.PERCENTILES}}
    return {name: results[key] / 1e9 for name, key in keys.items() if key in results}


def _rate(scenario: Scenario, results: _Values) -> float:
    if scenario == "offline":
        return results["result_samples_per_second"]
    if scenario == "server":
        return results["result_completed_samples_per_sec"]
    samples = STREAMS if scenario == "multi-stream" else 1
    return samples / (results["result_mean_latency_ns"] / 1e9)


def _reason(results: _Values) -> str:
    keys = ("result_invalid_reason", "early_stopping_result", *_EARLY_STOPPING)
    texts = (results.get(key) for key in keys)
    return " ".join(" ".join(text.replace("*", " ").split()) for text in texts if text)
