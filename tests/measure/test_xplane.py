import os

import pytest
import tensorflow as tf
from traces import EPOCH_NS, TraceBuilder, own_times

from fathom.errors import FathomError
from fathom.measure.profile.xplane import join, parse, read, record, trace


@pytest.fixture
def built():
    return TraceBuilder().plane("/host:CPU")


def test_an_op_event_has_its_name_type_time_and_thread(built, tmp_path):
    built.line("worker").event("first:Const", 1, 2).event("tower/conv1/Conv2D:Conv2D", 5, 3)
    first, second = read(built.write(tmp_path)).ops
    assert (first.name, first.op_type, first.start_s) == ("first", "Const", 0)
    assert (second.name, second.op_type) == ("tower/conv1/Conv2D", "Conv2D")
    assert second.start_s == pytest.approx(4e-6)
    assert second.end_s == pytest.approx(7e-6)
    assert second.duration_s == second.self_s == pytest.approx(3e-6)
    assert second.line == "/host:CPU/worker"


def test_lines_that_began_at_different_times_share_one_clock(built, tmp_path):
    built.line("one").event("a:Add", 7, 1).line("two", EPOCH_NS + 5000).event("b:Mul", 3, 1)
    a, b = read(built.write(tmp_path)).ops
    assert b.start_s - a.start_s == pytest.approx(1e-6)


@pytest.mark.parametrize(
    "name",
    ["ExecutorState::Process", "EagerLocalExecute: __inference_step_7", "FunctionRun", "a:3", ":"],
)
def test_an_event_of_the_runtime_is_no_op(built, tmp_path, name):
    built.line("worker").event(name, 0, 9)
    assert read(built.write(tmp_path)).ops == ()


def test_events_of_other_planes_are_no_ops(built, tmp_path):
    built.plane("Task Environment").line("worker").event("a:Add", 0, 9)
    assert read(built.write(tmp_path)).ops == ()


def test_an_op_that_contains_others_counts_only_its_own_time(built, tmp_path):
    built.line("worker")
    built.event("loop/MatMul:MatMul", 2, 3)  # out of order, as threads may write them
    built.event("loop:While", 0, 10)
    built.event("loop/call:PartitionedCall", 6, 3).event("loop/call/Tanh:Tanh", 7, 1)
    ops = read(built.write(tmp_path)).ops
    expected = {"While": 4e-6, "MatMul": 3e-6, "PartitionedCall": 2e-6, "Tanh": 1e-6}
    assert own_times(ops) == pytest.approx(expected)
    assert sum(op.self_s for op in ops) == pytest.approx(10e-6)


def test_an_op_on_another_thread_is_not_contained(built, tmp_path):
    built.line("one").event("a:Conv2D", 0, 10).line("two").event("b:MatMul", 2, 3)
    ops = read(built.write(tmp_path)).ops
    assert own_times(ops) == pytest.approx({"Conv2D": 10e-6, "MatMul": 3e-6})


def test_an_asynchronous_op_is_named_by_its_statistics(built, tmp_path):
    built.line("worker")
    built.event("ExecutorState::ProcessAsync::Start", 1, 5, name="net/call", kernel_type="While")
    (op,) = read(built.write(tmp_path)).ops
    assert (op.name, op.op_type, op.duration_s) == ("net/call", "While", pytest.approx(5e-6))


def test_a_compiled_function_has_its_own_name_as_type(built, tmp_path):
    built.line("worker")
    for start, function in ((0, "LRN"), (10, "LRNGrad")):
        name = f"net/{function}"
        built.event(
            *("ExecutorState::ProcessAsync::Start", start, 5),
            name=name,
            kernel_type="PartitionedCall",
        )
        module = f"a_inference_{function}_42__XlaMustCompile_true"
        built.event("fusion", start + 1, 3, hlo_module=module)
    assert [op.op_type for op in read(built.write(tmp_path)).ops] == ["LRN", "LRNGrad"]


def test_ops_belong_to_the_step_in_which_they_began(built, tmp_path):
    built.line("python").step(0, 10).step(20, 10)
    built.line("worker").event("a:Add", 1, 2).event("between:Sub", 12, 2).event("b:Mul", 25, 2)
    seen = read(built.write(tmp_path))
    assert [[op.name for op in ops] for ops in seen.ops_by_step()] == [["a"], ["b"]]


def test_time_outside_ops_counts_overlapping_threads_once(built, tmp_path):
    built.line("python").step(0, 16).step(20, 4)
    built.line("one").event("a:Add", 0, 4).event("b:Add", 10, 2).event("late:Add", 23, 2)
    built.line("two").event("c:Mul", 2, 4).event("d:Mul", 10.5, 1)
    seen = read(built.write(tmp_path))
    assert seen.outside_seconds() == pytest.approx([8e-6, 3e-6])


def test_ops_that_end_after_the_step_cover_all_of_it(built, tmp_path):
    built.line("python").step(0, 10)
    built.line("one").event("a:Add", 0, 11).line("two").event("b:Mul", 5, 7)
    assert read(built.write(tmp_path)).outside_seconds() == pytest.approx([0])


def test_ops_of_the_input_pipeline_are_in_no_step(built, tmp_path):
    built.line("python").step(0, 10)
    built.line("tf_Compute/1").event("a:Add", 1, 2)
    built.line("tf_data_private_threadpool/2").event("map/decode:DecodeImageV2", 0, 9)
    seen = read(built.write(tmp_path))
    assert [[op.name for op in ops] for ops in seen.ops_by_step()] == [["a"]]
    assert seen.outside_seconds() == pytest.approx([8e-6])


def test_a_cut_off_trace_is_named_in_the_error(built, tmp_path):
    built.line("worker").event("a:Add", 0, 1)
    path = built.write(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FathomError, match=r"built\.xplane\.pb is truncated"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"not a trace at all", b"\x00" * 64])
def test_a_file_that_is_no_trace_is_refused(tmp_path, content):
    path = tmp_path / "wrong.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(FathomError, match=r"wrong\.xplane\.pb.*not a profiler trace"):
        read(path)


def test_a_missing_trace_is_named_in_the_error(tmp_path):
    with pytest.raises(FathomError, match=r"absent\.pb"):
        read(tmp_path / "absent.pb")


def matmul_step():
    matrix = tf.random.stateless_uniform([300, 300], [1, 2])

    @tf.function
    def step():
        with tf.name_scope("layer"):
            product = tf.matmul(matrix, matrix, name="product")
            return tf.reduce_mean(tf.tanh(product) + tf.sqrt(product))

    step()
    return lambda: step().numpy()


def test_a_live_trace_shows_the_ops_that_ran():
    seen = trace(matmul_step(), n_steps=5)
    types = " ".join(op.op_type for op in seen.ops)  # oneDNN's kernels have names of their own
    for op_type in ("MatMul", "Tanh", "Sqrt", "Mean"):
        assert op_type in types
    assert any(op.name.startswith("layer/") for op in seen.ops)
    wall_s = sum(end - start for start, end in seen.steps)
    in_steps = [op for ops in seen.ops_by_step() for op in ops]
    assert 0 < sum(op.self_s for op in in_steps) <= wall_s * os.cpu_count()
    assert 0 <= sum(seen.outside_seconds()) < wall_s


def test_a_recorded_trace_holds_every_step(tmp_path):
    path = tmp_path / "trace.pb"
    record(matmul_step(), 4, path)
    assert list(tmp_path.iterdir()) == [path]
    steps = read(path).ops_by_step()
    assert [sum(op.name == "layer/Tanh" for op in ops) for ops in steps] == [1, 1, 1, 1]


def test_the_profiler_can_be_used_again_after_a_step_that_failed(tmp_path):
    def failing_step():
        raise ValueError("no such batch")

    with pytest.raises(ValueError, match="no such batch"):
        record(failing_step, 1, tmp_path / "failed.pb")
    record(matmul_step(), 1, tmp_path / "trace.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.pb"]


def test_a_second_trace_at_the_same_time_is_refused(tmp_path):
    with pytest.raises(FathomError, match="in use"):
        record(lambda: record(matmul_step(), 1, tmp_path / "b"), 1, tmp_path / "a")


def session(folder, name, start_us, label):
    """A session that began at a time, with a step of one op, and an event in its own order."""
    built = TraceBuilder().plane("/host:CPU").line("worker", timestamp_ns=7)
    built.step(1, 9).event(label, 2, 3, source="eager").event("shared:Add", 6, 2)
    environment = built.space.planes.add(name="Task Environment")
    environment.stat_metadata[1].name = "profile_start_time"
    environment.stats.add(metadata_id=1, uint64_value=EPOCH_NS + 1000 * start_us)
    path = built.write(folder)
    return path.rename(folder / name)


def test_the_traces_of_sessions_are_joined_as_if_of_one(tmp_path):
    paths = [session(tmp_path, "a", 0, "first:Mul"), session(tmp_path, "b", 100, "second:Sub")]
    join(paths, tmp_path / "joined")
    joined = read(tmp_path / "joined")
    assert [[op.name for op in ops] for ops in joined.ops_by_step()] == [
        ["first", "shared"],
        ["second", "shared"],
    ]
    assert joined.steps[1][0] - joined.steps[0][0] == pytest.approx(100e-6)
    assert joined.outside_seconds() == pytest.approx([4e-6, 4e-6])
    (plane,) = [each for each in parse(tmp_path / "joined").planes if each.name == "/host:CPU"]
    assert len(plane.lines) == 1
