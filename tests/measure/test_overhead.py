import pytest

from fathom import FathomError
from fathom.measure.profile import overhead, xplane
from fathom.results.records import Processor


def is_profiling():
    try:
        with xplane.profiling():
            return False
    except FathomError:
        return True


def test_blocks_with_and_without_the_profiler_alternate_on_the_same_batches(tmp_path):
    ran, processor = [], Processor()
    step = lambda number: ran.append((number, is_profiling()))  # noqa: E731
    traced, untraced = overhead.in_turn(step, step, 6, processor, folder=tmp_path)
    blocks = [
        (range(-1, 4), True),
        (range(-1, 4), False),
        (range(3, 6), False),
        (range(3, 6), True),
    ]
    assert ran == [(number, profiled) for numbers, profiled in blocks for number in numbers]
    assert len(traced) == len(untraced) == 6
    assert processor.wall_seconds == pytest.approx(traced.sum() + untraced.sum())
    steps = [len(xplane.read(path).steps) for path in sorted(tmp_path.iterdir())]
    assert steps == [4, 2]


@pytest.mark.parametrize(
    ("faults", "rounds"), [([0], 1), ([900, 0], 2), ([900, 30, 40], 3), ([9, 9], 2)]
)
def test_steps_warm_up_until_they_have_no_more_page_faults_than_before(monkeypatch, faults, rounds):
    left = iter([*faults, *[0] * 9])
    ran = []

    def in_turn(traced, untraced, steps, processor, session):
        ran.append(steps)
        processor.minor_faults = next(left)

    monkeypatch.setattr(overhead, "in_turn", in_turn)
    overhead.warm_up(None, None, None)
    assert len(ran) == rounds


def test_the_cost_of_an_op_is_the_added_time_over_the_ops_in_the_trace(monkeypatch):
    times = [1.002, 1.001, 1.02], [1.0, 1.01, 1.0]
    monkeypatch.setattr(overhead, "in_turn", lambda *_: tuple(map(overhead.np.array, times)))
    cost = overhead.seconds_per_op()  # of 100 trips with 10 ops each, and what steers the loop
    assert 0.001 / 1500 < cost <= 0.001 / 1000
    monkeypatch.setattr(overhead, "in_turn", lambda *_: tuple(map(overhead.np.array, times[::-1])))
    assert overhead.seconds_per_op() == pytest.approx(0)
