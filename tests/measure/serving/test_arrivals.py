"""Arrivals that are drawn or replayed, and the log from which figures are computed again."""

import numpy as np
import pandas as pd
import pytest

from fathom import FathomError
from fathom.measure.serving import queries, replay
from fathom.measure.serving.arrivals import FEWEST, Gamma, Trace, read_trace, uniform
from fathom.measure.serving.replay import Service
from fathom.measure.serving.server import Server
from fathom.results.serving import Bounds

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:04.0319600,100,10
2023-11-16 18:17:03.9799600,4808,30
2024-05-10 00:00:00.009930+00:00,3180,8
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3052, "input_length": 7322, "output_length": 490, "hash_ids": [0]}
"""


def test_azures_traces_are_read_in_the_order_of_their_times(tmp_path):
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    trace = read_trace(path)
    assert trace.times[:2] == pytest.approx([0, 0.052])
    assert trace.prompt_tokens.tolist() == [4808, 100, 3180]
    assert trace.new_tokens.tolist() == [30, 10, 8]


def test_mooncakes_traces_are_read_and_scaled(tmp_path):
    path = tmp_path / "mooncake.jsonl"
    path.write_text(MOONCAKE)
    trace = read_trace(path)
    assert trace.times.tolist() == [0, 3.052]
    assert trace.schedule(10.0, 1.0, 0) == pytest.approx([0, 0.1])
    texts = [np.arange(5, dtype=np.int32), np.arange(5, 9, dtype=np.int32)]
    first, second = trace.prompts(texts, prompt_tokens=8, new_tokens=50)
    assert first.tokens.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert second.tokens.tolist() == [8, 0, 1, 2, 3, 4, 5, 6]
    assert (first.new_tokens, second.new_tokens) == (50, 49)


def test_a_part_of_a_trace_has_the_rate_although_the_whole_has_another():
    dense, sparse = np.arange(100) / 10, 10 + np.arange(100) * 10.0
    trace = Trace("a", np.concatenate([dense, sparse]), np.ones(200), np.ones(200))
    for rate in (0.5, 4.0, 10.0):
        times = trace.schedule(rate, 8.0, 0)
        assert len(times) == 8 * rate + 1
        assert (times[0], times[-1]) == pytest.approx((0, 8.0))
    assert trace.schedule(None, 8.0, 0).tolist() == dense[:81].tolist()


@pytest.mark.parametrize("arrivals_at_once", [1, 2])
def test_arrivals_at_one_time_have_no_rate(tmp_path, arrivals_at_once):
    path = tmp_path / "mooncake.jsonl"
    path.write_text(MOONCAKE * arrivals_at_once)
    with pytest.raises(FathomError, match="no two arrivals at different times in 1 s"):
        read_trace(path).schedule(None, 1.0, 0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,1\n", "without 'GeneratedTokens'"),
        ("a.csv", "", "no two arrivals"),
        ("a.csv", AZURE.replace("3180", "x"), "is no trace"),
        ("a.csv", AZURE.replace("2024-05", "2024-55"), "is no trace"),
        ("a.csv", AZURE.replace("3180", "nan"), "no two arrivals"),
        ("a.csv", AZURE.replace("3180", "-1"), "some below 0"),
        ("a.csv", "ContextTokens,GeneratedTokens,TIMESTAMP\n1,2\n", "is no trace"),
        ("a.csv", AZURE + "a" * 200_000, "is no trace"),
        ("a.jsonl", MOONCAKE.replace("6758", "9" * 400), "is no trace"),
        ("a.jsonl", MOONCAKE[:50], "is no trace"),
        ("a.jsonl", "[1]\n", "is no trace"),
        ("a.jsonl", "[" * 99999, "is no trace"),
        ("a.jsonl", MOONCAKE.splitlines()[0], "no two arrivals"),
        ("a.txt", "", "is no trace: name"),
        ("b.csv", None, "b.csv"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(FathomError, match=message):
        read_trace(tmp_path / name)


def test_intervals_have_their_rate_and_variation():
    for variation in (0.5, 1.0, 3.0):
        gaps = np.diff(Gamma(variation).schedule(50.0, 1000.0, seed=1))
        assert np.mean(gaps) == pytest.approx(1 / 50)  # of each draw
        assert np.std(gaps) / np.mean(gaps) == pytest.approx(variation, rel=0.05)
    assert len(Gamma(1.0).schedule(50.0, 1.0, 0)) == FEWEST
    assert np.array_equal(Gamma(1.0).schedule(5.0, 1.0, 2), Gamma(1.0).schedule(5.0, 1.0, 2))


def test_lengths_are_uniform():
    prompts = uniform([np.arange(10)] * 500, 7, seed=0)
    assert {len(prompt.tokens) for prompt in prompts} == set(range(1, 11))
    assert {prompt.new_tokens for prompt in prompts} == set(range(2, 8))
    with pytest.raises(FathomError, match="at least 2, not 1"):
        uniform([np.arange(10)], 1, seed=0)


class Steady:
    """Twenty queries, two at a time."""

    name = "pairs"

    @staticmethod
    def schedule(rate, duration, seed):
        return np.repeat(np.arange(10) / rate, 2)


class Doubling:
    """An engine of one sample at a time."""

    limit = 1

    def run(self, samples):
        return [2 * samples[0][0][None]]


def test_percentiles_can_be_computed_again_from_the_log(tmp_path):
    samples = [(np.array([number]),) for number in range(5)]
    service = Service(samples, lambda answer: Server(Doubling(), answer), False, 1)
    bounds = Bounds(latency=5.0)
    trial = replay.run(service, Steady, 100.0, 1.0, bounds, 0, tmp_path / "trial")
    log = pd.read_csv(tmp_path / "trial" / queries.NAME)
    assert len(log) == trial.queries == 20
    assert log.scheduled.tolist() == pytest.approx(Steady.schedule(100.0, 1.0, 0))
    assert (log.issued >= log.scheduled).all()
    waits = np.sort(log.answered - log.scheduled)
    assert trial.latency["p99"] == pytest.approx(np.percentile(waits, 99), abs=1e-8)
    assert trial.latency == pytest.approx(queries.summary(queries.latency(log)), abs=1e-8)
    assert trial.goodput == pytest.approx(20 / log.answered.max())
    assert trial.valid
    assert queries.missed(log, Bounds(latency=waits[-1] / 2)) != []


def test_a_query_that_failed_makes_the_run_invalid(tmp_path):
    class Failing(Doubling):
        def run(self, samples):
            if samples[0][0][0] == 3:
                raise ValueError("three")
            return super().run(samples)

    class Forgiving(Server):
        def stop(self):
            self.failure = None
            super().stop()

    samples = [(np.array([number]),) for number in range(5)]
    service = Service(samples, lambda answer: Forgiving(Failing(), answer), False, 1)
    trial = replay.run(service, Steady, 1000.0, 1.0, Bounds(latency=5.0), 0, tmp_path / "trial")
    assert (trial.valid, trial.reason) == (False, "4 of 20 queries failed: three")
    log = pd.read_csv(tmp_path / "trial" / queries.NAME)
    assert log.failed.sum() == 4
    assert trial.goodput == pytest.approx(16 / log.answered.max())
