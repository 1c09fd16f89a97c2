import os

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from fathom.characterize.xplane import profile, read_events, record, summarize
from fathom.errors import FathomError

MICROSECOND = 1_000_000  # in picoseconds
EPOCH_NS = 1_700_000_000_000_000_000


class TraceBuilder:
    def __init__(self):
        self.space = xplane_pb2.XSpace()

    def plane(self, name):
        self._plane = self.space.planes.add(name=name)
        return self

    def line(self, name, timestamp_ns=EPOCH_NS):
        self._line = self._plane.lines.add(name=name, timestamp_ns=timestamp_ns)
        return self

    def event(self, name, start_us, duration_us, tf_op=None):
        key = len(self._plane.event_metadata) + 1
        self._plane.event_metadata[key].name = name
        event = self._line.events.add(
            metadata_id=key,
            offset_ps=int(start_us * MICROSECOND),
            duration_ps=int(duration_us * MICROSECOND),
        )
        if tf_op:
            self._plane.stat_metadata[1].name = "tf_op"
            event.stats.add(metadata_id=1, str_value=tf_op)
        return self

    def write(self, directory):
        path = directory / "built.xplane.pb"
        path.write_bytes(self.space.SerializeToString())
        return path


@pytest.fixture
def trace():
    return TraceBuilder().plane("/host:CPU")


def test_an_op_event_has_its_name_type_time_and_thread(trace, tmp_path):
    trace.line("worker").event("first:Const", 1, 2).event("tower/conv1/Conv2D:Conv2D", 5, 3)
    first, second = read_events(trace.write(tmp_path))
    assert (first.name, first.op_type, first.start_s) == ("first", "Const", 0)
    assert (second.name, second.op_type) == ("tower/conv1/Conv2D", "Conv2D")
    assert second.start_s == pytest.approx(4e-6)
    assert second.duration_s == second.self_s == pytest.approx(3e-6)
    assert second.line == "/host:CPU/worker"


def test_lines_that_began_at_different_times_share_one_clock(trace, tmp_path):
    trace.line("one").event("a:Add", 7, 1).line("two", EPOCH_NS + 5000).event("b:Mul", 3, 1)
    a, b = read_events(trace.write(tmp_path))
    assert b.start_s - a.start_s == pytest.approx(1e-6)


@pytest.mark.parametrize(
    "name",
    ["ExecutorState::Process", "EagerLocalExecute: __inference_step_7", "FunctionRun", "a:3", ":"],
)
def test_an_event_of_the_runtime_is_no_op(trace, tmp_path, name):
    trace.line("worker").event(name, 0, 9)
    assert read_events(trace.write(tmp_path)) == []


def test_events_of_other_planes_are_no_ops(trace, tmp_path):
    trace.plane("Task Environment").line("worker").event("a:Add", 0, 9)
    assert read_events(trace.write(tmp_path)) == []


def test_an_op_that_contains_others_counts_only_its_own_time(trace, tmp_path):
    trace.line("worker")
    trace.event("loop/MatMul:MatMul", 2, 3)  # out of order, as threads may write them
    trace.event("loop:While", 0, 10)
    trace.event("loop/call:PartitionedCall", 6, 3).event("loop/call/Tanh:Tanh", 7, 1)
    result = summarize(read_events(trace.write(tmp_path)), wall_s=20e-6, steps=1)
    expected = {"While": 4e-6, "MatMul": 3e-6, "PartitionedCall": 2e-6, "Tanh": 1e-6}
    assert result.seconds_by_op_type == pytest.approx(expected)
    assert list(result.seconds_by_op_type) == list(expected)
    assert result.op_seconds == pytest.approx(10e-6)
    assert result.time_outside_ops == pytest.approx(0.5)


def test_an_op_on_another_thread_is_not_contained(trace, tmp_path):
    trace.line("one").event("a:Conv2D", 0, 10).line("two").event("b:MatMul", 2, 3)
    result = summarize(read_events(trace.write(tmp_path)), wall_s=10e-6, steps=1)
    assert result.seconds_by_op_type == pytest.approx({"Conv2D": 10e-6, "MatMul": 3e-6})


def test_time_outside_ops_counts_overlapping_threads_once(trace, tmp_path):
    trace.line("one").event("a:Add", 0, 4).event("b:Add", 10, 2)
    trace.line("two").event("c:Mul", 2, 4).event("d:Mul", 10.5, 1)
    result = summarize(read_events(trace.write(tmp_path)), wall_s=16e-6, steps=2)
    assert result.op_seconds == pytest.approx(11e-6)
    assert result.covered_s == pytest.approx(8e-6)
    assert result.time_outside_ops == pytest.approx(0.5)
    assert result.steps == 2


def test_seconds_are_ascribed_to_scopes(trace, tmp_path):
    trace.line("worker").event("net/conv1/Conv2D:Conv2D", 0, 4).event("net/conv1/Relu:Relu", 4, 1)
    trace.event("gradient_tape/net/conv1/Grad:ReluGrad", 5, 2).event("Mean:Mean", 7, 1)
    result = summarize(read_events(trace.write(tmp_path)), wall_s=8e-6, steps=1)
    assert result.seconds_by_scope == pytest.approx(
        {"net/conv1": 5e-6, "gradient_tape/net/conv1": 2e-6, "": 1e-6}
    )


def test_an_op_with_gpu_kernels_counts_by_its_kernels(trace, tmp_path):
    trace.line("worker").event("net/conv:Conv2D", 0, 1).event("net/size:Shape", 1, 1)
    trace.plane("/device:GPU:0").line("Stream #13")
    trace.event("implicit_gemm", 2, 5, tf_op="net/conv:Conv2D")
    trace.event("Memset", 8, 1)  # by no op
    result = summarize(read_events(trace.write(tmp_path)), wall_s=10e-6, steps=1)
    assert result.seconds_by_op_type == pytest.approx({"Conv2D": 5e-6, "Shape": 1e-6})


def test_a_cut_off_trace_is_named_in_the_error(trace, tmp_path):
    trace.line("worker").event("a:Add", 0, 1)
    path = trace.write(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FathomError, match=r"built\.xplane\.pb is cut off"):
        read_events(path)


@pytest.mark.parametrize("content", [b"", b"not a trace at all", b"\x00" * 64])
def test_a_file_that_is_no_trace_is_refused(tmp_path, content):
    path = tmp_path / "wrong.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(FathomError, match=r"wrong\.xplane\.pb.*no profiler trace"):
        read_events(path)


def test_a_missing_trace_is_named_in_the_error(tmp_path):
    with pytest.raises(FathomError, match=r"absent\.pb"):
        read_events(tmp_path / "absent.pb")


def matmul_step():
    matrix = tf.random.stateless_uniform([300, 300], [1, 2])

    @tf.function
    def step():
        with tf.name_scope("layer"):
            product = tf.matmul(matrix, matrix, name="product")
            return tf.reduce_mean(tf.tanh(product) + tf.sqrt(product))

    step()
    return lambda: step().numpy()


def test_a_live_profile_shows_the_ops_that_ran():
    result = profile(matmul_step(), n_steps=5)
    types = " ".join(result.seconds_by_op_type)  # oneDNN's kernels have names of their own
    for op_type in ("MatMul", "Tanh", "Sqrt", "Mean"):
        assert op_type in types
    assert "layer" in result.seconds_by_scope
    assert 0 < result.op_seconds <= result.wall_s * os.cpu_count()
    assert 0 < result.covered_s <= result.wall_s
    assert 0 <= result.time_outside_ops < 1


def test_a_recorded_trace_holds_every_step(tmp_path):
    path = record(matmul_step(), 4, tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    tanhs = [event for event in read_events(path) if event.name == "layer/Tanh"]
    assert len(tanhs) == 4


def test_the_profiler_can_be_used_again_after_a_step_that_failed(tmp_path):
    def failing_step():
        raise ValueError("no such batch")

    with pytest.raises(ValueError, match="no such batch"):
        record(failing_step, 1, tmp_path)
    assert record(matmul_step(), 1, tmp_path).exists()


def test_a_second_trace_at_the_same_time_is_refused(tmp_path):
    with pytest.raises(FathomError, match="in use"):
        record(lambda: record(matmul_step(), 1, tmp_path), 1, tmp_path)
