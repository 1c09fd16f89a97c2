import itertools

import pytest

from fathom.system import rates


@pytest.mark.parametrize(
    ("shares", "threads", "runs", "best"),
    [
        ([0.99, 0.98, 0.97, 0.5], 1, 3, 0.99),  # undisturbed: as few as asked for
        ([0.3, 0.4, 0.5, 0.6, 0.95, 0.2], 1, 5, 0.95),
        ([0.3] * 40, 1, 10, 0.3),  # never: until the time is over
        ([1.0, 1.2, 1.4, 1.9, 2.0], 2, 4, 0.95),  # of two threads
        ([0.3] * 9, 0, 3, 0.3),  # does not wait
    ],
)
def test_a_ceiling_is_measured_until_it_had_the_processor(monkeypatch, shares, threads, runs, best):
    """A run takes a second of CPU time, and is the faster the more of the processor it has."""
    clock, used, ran, left = [0.0], [0.0], itertools.count(1), iter(shares)

    def run():
        share = next(left)
        clock[0] += 1 / share
        used[0] += 1
        return next(ran)

    monkeypatch.setattr(rates.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(rates.time, "process_time", lambda: used[0])
    monkeypatch.setattr(rates, "_LONGEST_S", 10 / 0.3 - 0.1)
    found = rates._fastest(run, 10, 3, threads)
    assert next(ran) == runs + 1
    assert found.cpu_share == pytest.approx(best)
    assert found.rate == pytest.approx(10 * best * max(threads, 1))
