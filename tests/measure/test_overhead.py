import pytest

from fathom import FathomError
from fathom.measure.profile import overhead, xplane


def is_profiling():
    try:
        with xplane.profiling():
            return False
    except FathomError:
        return True


def test_steps_with_and_without_the_profiler_alternate_on_the_same_batches(monkeypatch):
    monkeypatch.setattr(overhead, "_ENOUGH_S", 0)
    ran = []
    step = lambda number: ran.append((number, is_profiling()))  # noqa: E731
    traced, untraced = overhead.in_turn(step, step, fewest=3)
    assert ran == [(0, True), (0, False), (1, False), (1, True), (2, True), (2, False)]
    assert len(traced) == len(untraced) == 3


def test_short_steps_have_more_pairs():
    traced, untraced = overhead.in_turn(lambda _: None, lambda _: None, fewest=1)
    assert 1 < len(traced) == len(untraced) <= 50


def test_the_cost_of_an_op_is_the_added_time_over_the_ops_in_the_trace(monkeypatch):
    times = [1.002, 1.001, 1.02], [1.0, 1.01, 1.0]
    monkeypatch.setattr(overhead, "in_turn", lambda *_: tuple(map(overhead.np.array, times)))
    cost = overhead.seconds_per_op()  # of 100 trips with 10 ops each, and what steers the loop
    assert 0.001 / 1500 < cost <= 0.001 / 1000
    monkeypatch.setattr(overhead, "in_turn", lambda *_: tuple(map(overhead.np.array, times[::-1])))
    assert overhead.seconds_per_op() == pytest.approx(0)
