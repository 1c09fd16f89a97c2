"""A trace has every op that ran, however often the step ran before."""

import pytest
import tensorflow as tf
from recounting import recount
from tensorflow.python.eager import context  # the one way to the graphs that were executed
from traces import own_times

from fathom import FathomError, workloads
from fathom.measure.profile import xplane
from fathom.measure.profile.completeness import counts_of, require_equal_ops
from fathom.measure.profile.gpu import Sessions
from fathom.measure.profile.profiling import profile_model
from fathom.measure.profile.windows import Windows
from fathom.system.device import CPU

MANY = 120  # steps: without care the executor stops tracing cheap ops after some 90
# The executor traces neither what only steers a loop nor an op whose kernel says that it is free.
NEVER_TRACED = (
    *("_Arg", "_Retval", "Const", "NoOp", "Identity", "Reshape", "ExpandDims", "Squeeze", "Size"),
    *("Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond", "EmptyTensorList"),
)


def looping_step(trips):
    """Returns a step with a loop whose body has two cheap ops."""

    @tf.function
    def step():
        def body(i, x):
            return i + 1, tf.tanh(x, name="cheap") * 0.5

        _, x = tf.while_loop(lambda i, _: i < trips, body, (0, tf.ones([8])))
        return tf.reduce_sum(x, name="total")

    return lambda: step().numpy()


@pytest.mark.parametrize("trips", [1, 30])
def test_the_body_of_a_loop_is_there_as_often_as_it_ran(trips):
    step = looping_step(trips)
    with xplane.profiling():
        for _ in range(10):
            step()
    for ops in xplane.trace(step, MANY).ops_by_step():
        assert sum(op.op_type == "Tanh" for op in ops) == trips


def test_ops_that_ran_untraced_before_vanish_and_are_missed():
    step = looping_step(1)
    for _ in range(MANY):
        step()
    complete = [1] * 3
    ops = xplane.trace(step, 3).ops_by_step()
    assert [sum(op.op_type == "Tanh" for op in each) for each in ops] != complete


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["autoenc", pytest.param("memnet", marks=pytest.mark.slow)])
def test_every_step_of_a_long_profile_has_the_same_ops(workload, tmp_path):
    options = workloads.descriptor(workload).small | {"xla": False}
    few, many = (profiled(workload, options, n, tmp_path) for n in (4, MANY))
    assert {(op.type, op.layer, op.phase): op.count for op in few.ops} == {
        (op.type, op.layer, op.phase): op.count for op in many.ops
    }


def profiled(workload, options, steps, folder):
    model = workloads.load(workload)("/cpu:0", options)
    model.setup()
    return profile_model(model, steps, folder)[0]


@pytest.mark.slow
def test_constants_folded_for_a_further_shape_are_no_ops_of_its_graph(tmp_path):
    profile = profiled("seq2seq", workloads.descriptor("seq2seq").small, 4, tmp_path)
    assert len(set(profile.work)) > 1  # of batches of several shapes


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(
            name, marks=pytest.mark.slow if name in ("residual", "seq2seq", "speech") else ()
        )
        for name in workloads.EIGHT
    ],
)
def test_a_trace_has_every_op_of_the_graph_that_was_executed(workload, tmp_path):
    model = workloads.load(workload)(
        "/cpu:0", workloads.descriptor(workload).small | {"xla": False}
    )
    model.setup()
    turns = []

    def keep(step, batch):
        turns.append((step, batch))
        return step(*batch)

    context.enable_run_metadata()
    with xplane.profiling():
        model.run(runstep=keep, n_steps=3)
    graphs = context.export_run_metadata().function_graphs
    context.disable_run_metadata()
    step, batch = turns[-1]
    path = tmp_path / "trace.xplane.pb"
    xplane.record(lambda: step(*batch), 1, path)
    (ops,) = xplane.read(path).ops_by_step()
    traced = {op.name for op in ops}
    executed = max(
        (graph.partition_graphs[0] for graph in graphs if graph.partition_graphs),
        key=lambda graph: len(traced & {node.name for node in graph.node}),
    )
    expected = {node.name for node in executed.node if node.op not in NEVER_TRACED}
    assert traced <= {node.name for node in executed.node}
    assert len(expected - traced) <= 0.05 * len(expected)  # constants that the executor folds
    theirs, count = recount(path)
    assert own_times(ops) == pytest.approx(theirs, abs=1e-8)
    assert len(ops) == count


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "run_steps"), [("autoenc", MANY), ("seq2seq", 12)])
def test_windows_over_a_run_on_fresh_batches_have_the_same_ops(workload, run_steps):
    model = workloads.load(workload)(
        "/cpu:0", workloads.descriptor(workload).small | {"xla": False}
    )
    model.setup()
    windows = Windows(model, run_steps, Sessions(CPU))
    model.run(runstep=windows.step, n_steps=run_steps)
    life = windows.life()  # refuses steps that differ
    assert life.numbers[-1] == run_steps - 1
    assert {"MatMul", "AddV2"} <= {op.type.removeprefix("_Mkl") for op in life.ops}


def test_ops_that_ran_untraced_between_windows_are_missed():
    model = workloads.load("autoenc")(
        "/cpu:0", workloads.descriptor("autoenc").small | {"xla": False}
    )
    model.setup()
    windows = Windows(model, 4, Sessions(CPU))
    model.run(runstep=windows.step, n_steps=3)
    model.run(n_steps=MANY)
    model.run(runstep=windows.step, n_steps=1)
    with pytest.raises(FathomError, match="the trace is incomplete: step 2 has"):
        windows.life()


def test_a_step_that_lacks_ops_is_refused():
    def event(name):
        return xplane.OpEvent(name, "Mul", 0.0, 1e-6, 1e-6, "/host:CPU/1")

    whole, other = counts_of([event("a"), event("b")]), counts_of([event("c")])
    turns = [0, 1, 0, 1]
    require_equal_ops([whole, other, whole, other], turns)
    partly = counts_of([event("a")])
    with pytest.raises(FathomError, match=r"step 2 has 1 ops, and step 0, .*, 2; .* b \(Mul\)"):
        require_equal_ops([whole, other, partly, other], turns)
    require_equal_ops([partly], [0])  # nothing to compare it with
    with pytest.raises(FathomError, match=r"step 0 has 1 ops, and its graph 2; .* b \(Mul\)"):
        require_equal_ops([partly], [0], {0: whole})


def test_a_single_step_that_lacks_ops_is_refused(tmp_path):
    model = workloads.load("autoenc")(
        "/cpu:0", workloads.descriptor("autoenc").small | {"xla": False}
    )
    model.setup()
    step, batch = model.compiled.step.single, next(model.training_batches(0))
    for _ in range(MANY):  # without the profiler: the executor traces cheap ops no more
        step(*batch)
    with pytest.raises(FathomError, match=r"step 0 has .* ops, and its graph"):
        profile_model(model, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "size"),
    [
        ("transformer", {"batch_size": 4, "vocabulary": 300, "lengths": "24", "beam_size": 1}),
        ("seq2seq", {}),
    ],
)
def test_inference_that_a_run_computes_in_two_phases_is_profiled_as_one_step(
    workload, size, tmp_path
):
    options = workloads.descriptor(workload).small | size | {"xla": False}
    model = workloads.load(workload, forward_only=True)("/cpu:0", options)
    model.setup()
    assert model.phases
    profile, _ = profile_model(model, 2, tmp_path)
    assert profile.steps == 2
    assert {"MatMul"} <= {op.type.removeprefix("_Mkl") for op in profile.ops}
    assert "unknown" not in {op.layer for op in profile.ops}
