import numpy as np
import pytest

from fathom.measure.profile.profiling import add_up, of_median_step
from fathom.measure.profile.xplane import OpEvent, Trace


def event(op_type, start_s, duration_s, line="/host:CPU/a"):
    return OpEvent(f"fc/{op_type}", op_type, start_s, duration_s, duration_s, line)


def place(name, op_type):
    return name.partition("/")[0], "forward"


def test_a_timeline_is_of_the_step_of_median_time_from_its_start():
    ops = (
        event("Slow", 0.0, 9.0),
        event("MatMul", 21.0, 3.0),
        event("While", 20.0, 5.0, "/host:CPU/b"),
        event("Fast", 30.0, 1.0),
    )
    trace = Trace(ops=ops, steps=((0.0, 10.0), (20.0, 26.0), (30.0, 31.5)))
    summed = add_up(trace.ops_by_step(), place)
    found = of_median_step(trace.steps, trace.ops_by_step(), summed, place)
    assert found.step == 1
    assert [summed[i].type for i in found.op] == ["While", "MatMul"]
    assert [found.threads[i] for i in found.thread] == ["/host:CPU/b", "/host:CPU/a"]
    assert found.start_seconds == pytest.approx([0.0, 1.0])
    assert found.seconds == pytest.approx([5.0, 3.0])
    assert np.all(found.start_seconds >= 0)
