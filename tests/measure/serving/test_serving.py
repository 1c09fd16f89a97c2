"""Load tests: batches, the search for a rate, and LoadGen's own verdict on a small network."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from commands import SMALL, fathom, refusal
from synthetic_folder import ENVIRONMENT

from fathom import FathomError
from fathom.autoenc import AutoencFwd
from fathom.cli import serving
from fathom.measure.serving.engine import Engine
from fathom.measure.serving.replay import Service
from fathom.measure.serving.search import MOST_TRIALS, best, highest_rate
from fathom.measure.serving.server import Query, Server
from fathom.results.serving import Bounds, ServingResult, Trial
from fathom.testing.descriptors import descriptor

SIZES = {"hidden_units": 8, "latents": 2, "batch_size": 10}


@pytest.fixture(scope="module")
def engine():
    model = AutoencFwd("/cpu:0", SIZES)
    model.setup()
    yield Engine(model, samples=25, limit=6)
    model.teardown()


def test_batches_are_padded_to_the_next_compiled_size(engine, monkeypatch):
    assert len(engine.samples) == 25
    steps = {key[0]: step for key, step in engine._steps.items()}
    assert list(steps) == [1, 2, 4, 6]
    seen = []
    for key, step in engine._steps.items():

        def note(*batch, step=step):
            seen.append(batch[0].numpy())
            return step(*batch)

        monkeypatch.setitem(engine._steps, key, note)
    for number in range(1, 7):
        outputs = engine.run(engine.samples[:number])
        assert len(outputs[0]) >= number
    assert [len(batch) for batch in seen] == [1, 2, 4, 4, 6, 6]
    expected = np.stack([engine.samples[n][0] for n in (0, 1, 2, 2)])
    np.testing.assert_array_equal(seen[2], expected)


def test_deepq_is_served_in_batches_of_any_size():
    model = descriptor("deepq").model(forward_only=True, batch_size=2)
    model.setup()
    engine = Engine(model, samples=2, limit=2)
    assert [len(engine.run(engine.samples[:size])[0]) for size in (1, 2)] == [1, 2]
    model.teardown()


class SlowEngine:
    """An engine that waits for the test before its first batch; shapes differ by parity."""

    limit = 3

    def __init__(self, failure=None):
        self.begin, self.ran, self.failure, self.fails = threading.Event(), [], failure, 0

    def run(self, samples):
        assert self.begin.wait(10)
        numbers = [int(sample[0][0]) for sample in samples]
        if self.failure and self.fails in numbers:
            raise self.failure
        self.ran.append(numbers)
        return [np.array(numbers)]


def sample(number):
    return (np.full(1 + number % 2, number),)


def serve(engine):
    """Sends nine queries while the first is in a batch; returns the server and its answers."""
    answered = []
    server = Server(engine, lambda queries: answered.extend(query.id for query in queries))
    server.issue([Query(sample(0), 100)])
    while server._waiting:  # until the first batch has begun
        pass
    server.issue([Query(sample(number), 100 + number) for number in range(1, 9)])
    engine.begin.set()
    server.stop()
    return server, answered


def test_a_batch_takes_what_waits_of_one_shape_the_oldest_first():
    engine = SlowEngine()
    server, answered = serve(engine)
    assert engine.ran == [[0], [1, 3, 5], [2, 4, 6], [7], [8]]
    assert sorted(answered) == list(range(100, 109))
    assert server.batches == {1: 3, 3: 2}


def test_a_sample_that_fails_spoils_no_other_and_leaves_no_query_unanswered():
    answered = []
    engine = SlowEngine(ValueError("no memory"))
    engine.begin.set()
    server = Server(engine, answered.extend)
    server.issue([Query(sample(0), 7), Query(sample(2), 8)])
    with pytest.raises(FathomError, match="the inference failed: no memory"):
        server.stop()
    assert [query.id for query in answered] == [7, 8]
    assert [str(query.error) for query in answered] == ["no memory", "None"]
    assert answered[1].outputs == [2]


def trial(rate, valid):
    latency = {"mean": 0.5, "p99": 1.5}
    return Trial(
        rate=rate,
        valid=valid,
        reason="" if valid else "late",
        queries=9,
        samples_per_second=rate,
        latency=latency,
        batches={},
    )


@pytest.mark.parametrize(("start", "limit"), [(100, 512), (100, 97), (100, 7), (10, 10.2)])
def test_the_search_ends_within_five_percent_of_the_highest_rate(start, limit):
    trials = highest_rate(lambda rate: trial(rate, rate <= limit), start)
    assert limit / 1.06 < best(trials).rate <= limit
    assert len(trials) <= MOST_TRIALS


def test_a_bound_that_no_rate_meets_is_refused_with_what_was_seen():
    with pytest.raises(FathomError, match=r"at 1.56 queries/s.* was 1.5e\+03 ms \(late\)"):
        highest_rate(lambda rate: trial(rate, False), 100)


def test_of_text_a_refusal_names_no_latency_which_has_no_bound():
    def attempt(rate):
        times = {"first_token": {"p99": 0.2}, "output_token": {"p99": 0.1}}
        return trial(rate, False).model_copy(update=times)

    with pytest.raises(FathomError) as error:
        highest_rate(attempt, 100)
    assert str(error.value) == (
        "no rate meets the bound: at 1.56 queries/s, the lowest tried (late)"
    )


def test_mistakes_are_named_in_one_line(tmp_path, capsys):
    (tmp_path / "full").mkdir()
    for arguments, message in (
        (("--latency-bound=0",), "at least 1e-06"),
        (("--latency-bound=1e200",), "at most 1000000.0"),
        (("--latency-bound=9", "--rate=0"), "at least 1e-06"),
        (("--latency-bound=9", "--rate=1e200"), "at most 1000000.0"),
        (("--burst=1e-200", "--rate=9"), "at least 1e-06"),
        (("--burst=1", "--rate=1e6", "--duration=600"), "are more than 10,000,000 queries"),
        (("--latency-bound=9", "--rate=9", "--duration=1e200"), "at most 86400"),
        (("--scenario=offline", "--rate=9"), "--rate is of the scenario server"),
        (("--latency-bound=9", "--ttft-bound=9"), "give --latency-bound, or"),
        (("--ttft-bound=9",), "together"),
        (("--latency-bound=9", "--url=me"), "does not begin with http"),
        (("--latency-bound=9", "--url=http://x", "--cache=1"), "not of --url"),
        (("--trace=a", "--burst=2"), "not allowed with"),
        (("--latency-bound=9", "--trace=a.txt"), "is no trace"),
        (("--scenario=batch",), "invalid choice"),
        (("--scenario=offline", f"--out={tmp_path / 'full'}"), "exists"),
    ):
        assert message in refusal(capsys, fathom("serve-test", "autoenc", *arguments))


def test_without_loadgen_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(__import__("sys").modules, "mlperf_loadgen", None)
    out = f"--out={tmp_path / 'out'}"
    assert fathom("serve-test", "autoenc", "--scenario=offline", *SMALL, out) == 2
    assert "pip install 'fathom-workloads[loadgen]'" in capsys.readouterr().err


@pytest.mark.parametrize("scenario", ["single-stream", "multi-stream", "server", "offline"])
def test_loadgen_measures_each_scenario(engine, scenario, tmp_path):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    from fathom.measure.serving import loadgen

    service = Service(engine.samples, lambda answer: Server(engine, answer), False, 6)
    load = loadgen.Load(scenario, 0.2, 200.0, 0.01, Bounds(latency=0.01), seed=3)
    found = loadgen.run(service, load, tmp_path / "logs")
    assert found.queries >= {"offline": 1, "single-stream": 64}.get(scenario, 50)
    samples = sum(int(size) * number for size, number in found.batches.items())
    per_query = {"multi-stream": 8, "offline": samples}.get(scenario, 1)
    assert samples == per_query * found.queries
    assert found.valid == (not found.reason)
    assert 0 < found.latency["p50"] <= found.latency["p99"] <= found.latency["p99.9"]
    assert "VALID" in (tmp_path / "logs" / "mlperf_log_summary.txt").read_text()


def test_queries_that_were_sent_late_are_no_goodput():
    from fathom.measure.serving import loadgen

    results = {
        "result_validity": "VALID",
        "result_query_count": 4,
        "result_overlatency_query_count": 1,
        "result_completed_samples_per_sec": 2.0,
        "result_mean_latency_ns": 1,
        "result_99.00_percentile_latency_ns": 1,
    }
    log = pd.DataFrame({"scheduled": [0, 0.5, 1, 1.5], "tokens": 0, "failed": False})
    log["answered"] = log.scheduled + 0.5
    load = loadgen.Load("server", 1.0, 2.0, 0.01, Bounds(latency=1.0), seed=3)
    assert loadgen._trial(load, results, log, {}).goodput == 2.0 * 3 / 4


def test_the_command_writes_the_result_beside_the_logs(tmp_path, capsys):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    out = tmp_path / "out"
    arguments = ("--rate=200", "--latency-bound=10000", "--duration=1", f"--out={out}", *SMALL)
    code = fathom("serve-test", "autoenc", *arguments)
    printed, errors = capsys.readouterr()
    result = ServingResult.read(out / "serving.json")
    assert result.result.rate == 200
    assert result.largest_batch == 10
    assert result.trials == []
    assert result.latency_bound == 10
    assert (out / "trial-00" / "mlperf_log_detail.txt").exists()
    assert printed.startswith("autoenc: setting up and warming up\n")
    assert "662 queries, the fewest for a verdict, take about 3 s" in printed
    assert "p99.9" in printed
    assert f"LoadGen: {'VALID' if result.result.valid else 'INVALID'}" in printed
    assert (code, errors.count("\n")) == ((0, 0) if result.result.valid else (2, 1))


@pytest.mark.slow
def test_figures_that_do_not_count_end_with_an_error(tmp_path, capsys):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    out = tmp_path / "out"
    arguments = ("--rate=50000", "--latency-bound=20", "--duration=1", f"--out={out}", *SMALL)
    error = refusal(capsys, fathom("serve-test", "autoenc", *arguments))
    assert "LoadGen's verdict is INVALID" in error
    assert not ServingResult.read(out / "serving.json").result.valid


@pytest.mark.slow
def test_an_interrupted_test_ends_in_one_line_and_leaves_nothing(tmp_path):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    out = tmp_path / "out"
    arguments = ("autoenc", "--scenario=single-stream", "--duration=60", f"--out={out}", *SMALL)
    test = subprocess.Popen(
        [sys.executable, "-m", "fathom", "serve-test", *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (out / "trial-00" / "mlperf_log_detail.txt").exists() and test.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    test.send_signal(signal.SIGINT)
    _, errors = test.communicate(timeout=60)
    assert (test.returncode, errors) == (130, "fathom: interrupted\n")
    assert not out.exists()


class Writer:
    """A model that writes text, as far as the command asks before the tests."""

    setup = teardown = staticmethod(lambda *_: None)
    token_decoder = staticmethod(lambda: "a decoder")


def test_an_interrupted_second_test_leaves_the_first_ones_result(tmp_path, monkeypatch, capsys):
    from fathom.measure.serving import scenarios

    out = tmp_path / "out"
    service = Service([], None, True, 4)
    fields = {"workload": "gpt", "scenario": "server", "largest_batch": 4, "different_samples": 1}
    fields |= {"duration": 1, "latency_bound": None, "seed": 0, "batch_seconds": {"1": 0.1}}
    first = ServingResult(**fields, environment=ENVIRONMENT, trials=[], result=trial(9, True))
    results = iter([first])

    def measure(model, service, plan, logs, report):
        (logs / "trial-00").mkdir(parents=True)
        for result in results:
            return result
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "build_model", lambda *_, **__: Writer())
    both = [("continuous", service), ("static", service)]
    monkeypatch.setattr(scenarios, "services", lambda *_: iter(both))
    monkeypatch.setattr(scenarios, "measure", measure)
    options = ("--burst=1", "--rate=9", "--ttft-bound=9", "--tpot-bound=9", "--batching=both")
    assert fathom("serve-test", "gpt", *options, f"--out={out}") == 130
    assert ServingResult.read(out / "serving.json").batching == "continuous"
    assert not (out / "static").exists()


def test_a_bound_below_one_sample_is_refused_at_once(engine, tmp_path):
    from fathom.measure.serving import scenarios

    service = Service(engine.samples, lambda answer: Server(engine, answer), False, 6)
    plan = scenarios.Plan("server", 1.0, bounds=Bounds(latency=1e-9))
    with pytest.raises(FathomError, match="cannot be met: one sample alone takes"):
        scenarios.measure(None, service, plan, tmp_path, lambda _: None)


def test_a_test_without_bounds_is_refused_with_those_of_its_kind(tmp_path, capsys):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    small = descriptor("gpt").small
    sizes = [f"--set={name}={value}" for name, value in small.items() if name != "batch_size"]
    for workload, options, message in (
        ("autoenc", SMALL, "needs --latency-bound"),
        ("autoenc", (*SMALL, "--ttft-bound=9", "--tpot-bound=9"), "is of workloads that write"),
        ("gpt", sizes, "needs --ttft-bound MS and --tpot-bound MS"),
        ("gpt", (*sizes, "--latency-bound=9"), "give --ttft-bound"),
    ):
        out = f"--out={tmp_path / 'out'}"
        assert fathom("serve-test", workload, *options, "--device=cpu", "--no-xla", out) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
