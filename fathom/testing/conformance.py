"""The same checks for every workload: what the standard interface promises.

``python -m fathom.testing NAME`` runs them on one workload. A file of tests runs them with

    from fathom.testing.conformance import *

    WORKLOADS = ("perceptron",)
"""

import dataclasses
import functools
import gc
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom.cli.run import run_workload
from fathom.core.training import optimizers
from fathom.errors import FathomError
from fathom.model import calibration
from fathom.model.descriptor import DOMAINS, STYLES, TASKS
from fathom.nn import NeuralNetworkModel
from fathom.options import QUANTIZED
from fathom.results.records import RunResult
from fathom.testing import computations
from fathom.testing.descriptors import descriptor

STEPS = """
import sys
from fathom.testing.descriptors import descriptor
for forward_only in (False, True):
    descriptor(sys.argv[1]).ready(forward_only).run(n_steps=1)
"""
RESULT_KEYS = [field.alias or name for name, field in RunResult.model_fields.items()]

VIEWS = ("ExpandDims", "Identity", "Reshape", "Squeeze")

BFLOAT16 = {"precision": "bfloat16"}
FIXED_POINT = {"precision": "fixed:24.12"}  # its formats need no calibration
OTHER_COMPUTATIONS = (BFLOAT16, {"precision": "float16"}, {"xla": True})
OTHER_NAMES = "bfloat16", "float16", "xla"


def pytest_generate_tests(metafunc):
    """Runs each test on the ``WORKLOADS`` of its module, ``full_size`` for one after another."""
    for fixture in {"workload", "full_size"} & set(metafunc.fixturenames):
        names = metafunc.module.WORKLOADS
        metafunc.parametrize(fixture, names, indirect=True, scope="module")


@pytest.fixture(scope="session", autouse=True)
def own_data(tmp_path_factory):
    """Makes synthetic data the default, in a cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FATHOM_DATA_DIR", raising=False)
        patch.setenv("FATHOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def workload(request):
    """Gives a workload's descriptor."""
    return descriptor(request.param)


def run_command(*arguments, **options):
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def run_here(workload, *arguments):
    """Runs the workload's command line in this process: TensorFlow is imported only once."""
    with pytest.raises(SystemExit) as end:
        run_workload(workload.name, [*map(str, arguments), "--device=cpu"])
    assert end.value.code == 0


def declared(tensors):
    return {t.name: (tuple(t.shape[1:]), t.dtype) for t in keras.tree.flatten(tensors)}


def losses(model, n_steps):
    return model.run(n_steps=n_steps).steps.loss


class Trained(NamedTuple):
    """A quick model after its first steps, and their losses."""

    model: NeuralNetworkModel
    losses: list


@pytest.fixture(scope="module")
def plain(workload):
    """Gives a model after six steps, which tests may train further but not change otherwise."""
    model = workload.ready()
    yield Trained(model, losses(model, 6))
    model.teardown()


@pytest.fixture(scope="module")
def kept(workload, tmp_path_factory):
    """Gives a model as its checkpoint has it, after three steps, and the checkpoint's folder."""
    folder = tmp_path_factory.mktemp("kept")
    model = workload.ready(setup={"checkpoint_dir": str(folder)})
    yield Trained(model, losses(model, 3)), folder
    model.teardown()


@pytest.fixture
def checkpoints(kept, tmp_path):
    """Gives a copy of that folder."""
    return str(shutil.copytree(kept[1], tmp_path / "checkpoints"))


def test_the_model_is_constructed_without_arguments(workload):
    for forward_only in False, True:
        model = workload.model_class(forward_only)()
        assert model.name == workload.name
        with pytest.raises(FathomError, match=r"not compiled: call setup\(\) first"):
            model.evaluate()


@pytest.fixture(scope="module")
def full_size(request):
    """Gives each workload and its model of the paper's size, set up, one at a time."""
    workload = descriptor(request.param)
    model = workload.model_class()("cpu", {"batch_size": 2, **workload.soon})
    model.setup()
    yield workload, model
    model.teardown()


def test_inputs_labels_outputs_and_counts_at_full_size_are_the_papers(full_size):
    workload, model = full_size
    assert declared(model.inputs) == workload.inputs
    assert declared(model.labels) == workload.labels
    outputs = keras.tree.flatten(model.outputs)
    assert tuple(tuple(t.shape[1:]) for t in outputs) == workload.outputs
    assert {t.dtype for t in outputs} <= {"float32", "int32"}
    assert model.cost().parameters == workload.parameters
    assert model.cost().forward_macs == workload.macs


def test_one_step_runs_at_full_size(full_size):
    _, model = full_size
    assert model.loss.shape == ()
    assert math.isfinite(losses(model, 1)[0])


@pytest.mark.parametrize("forward_only", [False, True], ids=["train", "infer"])
def test_the_description_of_a_step_has_the_counted_work(workload, forward_only):
    model = workload.model(forward_only)
    model.build()
    description, cost = model.describe(), model.cost()
    expected = cost.forward_macs if forward_only else cost.training_macs
    expected *= model.hyperparameters.batch_size * workload.work
    assert description.macs == pytest.approx(expected, rel=workload.macs_tolerance)
    assert {row.layer for row in description.operations if row.macs} == {
        layer.name for layer in cost.layers if layer.macs
    } | ({"loss"} if workload.products_of_loss and not forward_only else set())
    assert "unknown" not in {row.layer for row in description.operations}
    variables = 4 * description.parameters
    updates = [row for row in description.operations if row.phase == "update"]
    sparse = any(row.kind == "look-up" for row in updates)  # writes only the rows that were read
    assert forward_only or sparse or sum(row.output_bytes for row in updates) >= variables


@pytest.mark.parametrize("forward_only", [False, True], ids=["train", "infer"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(1, 10))]
)
def test_a_network_that_is_not_built_is_described_as_if_it_were(workload, forward_only, seed):
    rng = np.random.default_rng([seed, *map(ord, workload.name)])
    size = workload.small[workload.size] + int(rng.integers(3))
    options = {"batch_size": int(rng.integers(1, 7)), workload.size: size}
    if blocks := workload.model_class(forward_only).blocks:
        options[blocks] = int(rng.integers(1, 17))
    if workload.model_class(forward_only).indivisible:
        options.pop("batch_size")
    model = workload.model(forward_only, **options)
    described = model.describe()
    model.build()
    assert described == model.describe()


def products_of(model):
    """Returns how often each layer has products of each kind, by phase, in a built model's step.

    Gradients in a loop are one phase here: a shape alone tells those of weights, and at some batch
    size those of inputs have it too.
    """
    rows = [row for row in model.describe().operations if row.macs]
    in_loop = [row.kind == "recurrent product" and row.phase != "forward" for row in rows]
    phases = ["gradient" if each else row.phase for row, each in zip(rows, in_loop, strict=True)]
    return Counter((row.layer, phase, row.kind) for row, phase in zip(rows, phases, strict=True))


@pytest.mark.parametrize("forward_only", [False, True], ids=["train", "infer"])
def test_the_description_has_the_networks_layers_at_every_batch(workload, forward_only):
    listed = []
    for options in ({"batch_size": 1}, {"batch_size": 2}, {}):
        model = workload.model(forward_only, **options)
        model.build()
        listed.append(products_of(model))
    assert listed[0] == listed[1] == listed[2]


def test_the_description_at_full_size_has_one_convolution_a_convolution(full_size):
    workload, _ = full_size
    model = workload.model_class(forward_only=True)("cpu", {"batch_size": 1, **workload.soon})
    model.load_data()
    model.build()
    described, layers = products_of(model), model.cost().layers
    convolutions = {layer.name for layer in layers if layer.kind.endswith(("Conv2D", "ution2D"))}
    dense = {layer.name for layer in layers if layer.kind == "Dense"}
    assert {row[0] for row in described if row[2] == "convolution"} == convolutions
    for name in convolutions:
        assert described[name, "forward", "convolution"] == 1
    for name in dense:
        assert described[name, "forward", "matrix product"] == 1


def test_a_step_runs_without_onednn(workload):
    """Where a processor lacks what oneDNN is fast with, TensorFlow leaves it off by default."""
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-c", STEPS, workload.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_descriptor_names_what_there_is(workload):
    datasets, criteria = workload.dataset_classes(), workload.criteria
    assert [each.name for each in datasets] == list(workload.datasets)
    assert workload.size in workload.small
    assert workload.has_option(workload.size)
    if criteria:
        assert isinstance(criteria.styles, tuple)
        assert {*criteria.styles, criteria.task, criteria.domain} <= {*STYLES, *TASKS, *DOMAINS}


@pytest.mark.parametrize("forward_only", [False, True], ids=["train", "infer"])
def test_the_papers_batch_can_be_drawn_from_the_synthetic_data(workload, forward_only):
    model = workload.model_class(forward_only)("cpu", workload.soon)
    model.load_data()
    batch = next(model.inference_batches() if forward_only else model.training_batches(0))
    stacked = (model.steps_per_call,) if model.steps_per_call > 1 else ()
    expected = (*stacked, model.hyperparameters.batch_size)
    assert {tuple(tensor.shape[: len(expected)]) for tensor in batch} == {expected}


def test_gradients_reach_every_variable_and_a_step_changes_each(plain):
    variables = plain.model.network.trainable_variables
    unchanged = {variable.path for variable in variables}
    for _ in range(2):  # a schedule may begin with a rate of 0
        before = [variable.numpy().copy() for variable in variables]
        plain.model.run(n_steps=1)
        for variable, old in zip(variables, before, strict=True):
            if np.any(variable.numpy() != old):
                unchanged.discard(variable.path)
    assert unchanged == set()


def test_each_optimizer_makes_two_steps(workload, monkeypatch):
    """Only the updates are traced for each of them, which saves the time of whole steps."""
    if not workload.has_option("optimizer"):
        pytest.skip("its optimizer cannot be chosen")
    model = workload.model()
    model.load_data()
    with computations.few_layers(workload):
        model.build()
    variables = model.network.trainable_variables
    initial = [variable.numpy() for variable in variables]
    gradients = tf.function(lambda *batch: computations.gradients_of(model, batch), autograph=False)
    batch = next(iter(calibration.batches(model)))
    for name in optimizers.BY_NAME:
        hyperparameters = dataclasses.replace(model.hyperparameters, optimizer=name)
        monkeypatch.setattr(model, "hyperparameters", hyperparameters)
        optimizer = model.build_train()
        optimizer.build(variables)
        optimizer.learning_rate.assign(1e-4)  # not 0, with which some schedules begin
        apply = tf.function(lambda g, optimizer=optimizer: optimizer.apply(g, variables))
        for _ in range(2):
            before = [variable.numpy() for variable in variables]
            apply(gradients(*batch))
            after = [variable.numpy() for variable in variables]
            assert all(np.isfinite(value).all() for value in after), name
            assert not all(map(np.array_equal, before, after)), name
        for variable, value in zip(variables, initial, strict=True):
            variable.assign(value)


def check_overfitting(workload, **computation):
    model = workload.ready(**workload.overfit, **computation)
    batch = next(model.training_batches(0))
    result = model.run(runstep=lambda step, _: step(*batch), n_steps=30)
    assert result.steps.loss[-1] < 0.5 * result.steps.loss[0]


def test_thirty_steps_overfit_one_batch(workload):
    check_overfitting(workload)


@pytest.mark.parametrize("computation", OTHER_COMPUTATIONS, ids=OTHER_NAMES)
def test_thirty_steps_of_another_computation_overfit_one_batch(workload, computation):
    if computation.get("xla") and workload.model_class().default_xla == "step":
        pytest.skip("the test of the default compiles with XLA")
    check_overfitting(workload, **computation)


def test_the_same_seed_gives_the_same_losses(plain, kept):
    assert kept[0].losses == plain.losses[:3]


def test_training_resumed_from_a_checkpoint_repeats_the_uninterrupted_losses(
    workload, plain, kept, checkpoints
):
    resumed = workload.ready(setup={"checkpoint_dir": checkpoints, "resume": True})
    assert resumed.steps_done == 3
    assert kept[0].losses + losses(resumed, 3) == plain.losses


def test_a_resumed_training_takes_up_another_learning_rate(workload, kept, checkpoints):
    model = kept[0].model
    before = model.hyperparameters.learning_rate
    changed = {"learning_rate": before / 4, "seed": model.execution.seed + 1}
    resumed = workload.ready(setup={"checkpoint_dir": checkpoints, "resume": True}, **changed)
    uninterrupted = workload.ready(**changed)
    losses(uninterrupted, resumed.steps_done)
    rates = [float(each.optimizer.learning_rate) for each in (resumed, uninterrupted)]
    assert rates[0] == pytest.approx(rates[1])
    assert f"changed since then: learning_rate {before} -> {before / 4}" in resumed.notes
    assert any(note.startswith("changed since then: seed") for note in resumed.notes)


def test_a_run_killed_at_any_moment_resumes_with_the_same_losses(workload, tmp_path):
    checkpoints, result = tmp_path / "checkpoints", tmp_path / "result.json"
    arguments = [*workload.arguments(), "--device=cpu"]
    uninterrupted = workload.model()
    arguments += [f"--inter-op-threads={uninterrupted.operations_at_once}"]
    arguments += [f"--checkpoint-dir={checkpoints}", "--checkpoint-every=4"]
    command = [sys.executable, "-m", "fathom", "run", workload.name, *arguments]
    killed = subprocess.Popen([*command, "--steps=1000000", "--quiet"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not (checkpoints / "ckpt-8.index").exists():
            assert killed.poll() is None, "the run ended by itself"
            assert time.monotonic() < deadline, "no checkpoint was written"
            time.sleep(0.01)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()

    newest = max(int(path.stem[5:]) for path in checkpoints.glob("ckpt-*.index"))
    run_here(workload, *arguments, "--resume", f"--steps={newest + 3}", f"--json={result}")
    steps = json.loads(result.read_text())["steps"]
    assert steps["first"] == newest

    uninterrupted.setup()
    assert steps["loss"] == losses(uninterrupted, newest + 3)[newest:]


def check_training_of_three_steps(printed, result):
    document = json.loads(result.read_text())
    assert document["data"]["kind"] in ("synthetic", "packaged")
    assert document["data"]["kind"] in printed
    assert list(document) == RESULT_KEYS
    assert document["mode"] == "train"
    assert len(document["steps"]["seconds"]) == 3
    metrics = {name: value for name, value in document["metrics"].items() if name != "history"}
    assert all(math.isfinite(value) for value in metrics.values())


def test_the_command_line_trains_evaluates_and_writes_a_result(
    workload, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    run_here(workload, *workload.arguments(), "--steps=3", "--evaluate", "--json=result.json")
    printed = capfd.readouterr()
    assert printed.err == ""
    check_training_of_three_steps(printed.out, tmp_path / "result.json")


def test_the_command_line_infers_in_bfloat16(workload, tmp_path):
    result = tmp_path / "result.json"
    options = ["--infer", "--steps=3", "--precision=bfloat16", f"--json={result}"]
    run_here(workload, *workload.arguments(), *options)
    document = json.loads(result.read_text())
    assert document["mode"] == "infer"
    assert document["steps"]["loss"] == [None] * 3


def test_runstep_sees_every_step_and_may_skip_some(workload, plain):
    seen = []

    def every_other(step, batch):
        seen.append(len(batch))
        return step(*batch) if len(seen) % 2 else None

    result = plain.model.run(runstep=every_other, n_steps=4)
    assert seen == [len(workload.inputs) + len(workload.labels)] * 4
    assert [loss is None for loss in result.steps.loss] == [False, True, False, True]


def test_the_traced_graph_can_be_inspected(plain):
    graph, loss = plain.model.model(), plain.model.loss
    assert isinstance(graph, tf.Graph)
    assert loss.graph is graph
    assert loss.shape == ()
    assert loss.dtype == tf.float32
    used = {id(tensor): placeholder.consumers() for tensor, placeholder in graph.captures}
    for variable in plain.model.network.trainable_variables:
        types = {operation.type for operation in used[id(variable.value.handle)]}
        assert types - {"ReadVariableOp", "ResourceGather"}, f"{variable.path} is not updated"


def readers(tensor):
    """Yields the operations that read a tensor, or a view of it."""
    for operation in tensor.consumers():
        yield from readers(operation.outputs[0]) if operation.type in VIEWS else [operation]


def test_no_sum_depends_on_when_its_terms_are_read(plain):
    """Of three and more terms, TensorFlow adds to the first that nobody is left to read."""
    for operation in plain.model.model().get_operations():
        if operation.type != "AddN" or len(operation.inputs) < 3:
            continue
        before, left = {operation.name}, [operation]
        while left:
            new = {t.op for t in left.pop().inputs if t.op.name not in before}
            before |= {each.name for each in new}
            left += new
        by_name = min(operation.inputs, key=lambda t: t.name)  # so TensorFlow may sort them
        for first in (operation.inputs[0], by_name):
            while first.op.type in VIEWS:
                first = first.op.inputs[0]
            assert {each.name for each in readers(first)} <= before, (operation.name, first.name)


def test_no_variable_is_int32(plain):
    """TensorFlow keeps those of a GPU's model on the CPU, out of reach of XLA's programs."""
    variables = [each for each in gc.get_objects() if isinstance(each, tf.Variable)]
    assert variables
    assert not [each.name for each in variables if each.dtype == tf.int32]


def test_microbatches_that_are_computed_at_once_learn_the_same_to_rounding(workload, plain):
    if plain.model.indivisible or plain.model.batch_statistics:
        with pytest.raises(FathomError, match="cannot compute 2 microbatches"):
            workload.model(microbatches=2)
        return
    if plain.model.hyperparameters.batch_size % 2:
        pytest.skip("its quick batch has no halves")
    model = workload.ready(microbatches=2)
    np.testing.assert_allclose(losses(model, 3), plain.losses[:3], rtol=1e-4)
    assert products(model) >= 1.5 * products(plain.model)


def test_batches_are_divided_by_default_where_that_is_faster(workload):
    for forward_only in (False, True):
        model = workload.model(forward_only)
        model.operations_at_once = 2
        divides = model.divides_inference if forward_only else model.divides_batches
        assert model.microbatches == 1 + divides


def products(model):
    return sum("MatMul" in operation.type for operation in model.model().get_operations())


def test_the_forward_only_twin_returns_outputs_and_has_no_optimizer(workload):
    model = workload.ready(forward_only=True)
    outputs = []
    model.run(runstep=lambda step, batch: outputs.append(step(*batch)), n_steps=2)
    shapes = [tuple(t.shape) for t in keras.tree.flatten(outputs[-1])]
    symbolic = [tuple(t.shape[1:]) for t in keras.tree.flatten(model.outputs)]
    for shape, declared_shape in zip(shapes, symbolic, strict=True):
        assert shape[0] == model.hyperparameters.batch_size
        assert tf.TensorShape(declared_shape).is_compatible_with(shape[1:])
    assert model.optimizer is None
    assert model.train is None
    assert model.loss is None
    types = {operation.type for operation in model.model().get_operations()}
    assert not any(name.startswith("ResourceApply") for name in types)


def test_the_forward_only_twin_takes_the_trained_weights(workload, kept, checkpoints):
    model = workload.ready(forward_only=True, setup={"checkpoint_dir": checkpoints})
    trained = kept[0].model
    with trained.evaluated_weights():
        for ours, theirs in zip(model.network.variables, trained.network.variables, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("options", [*OTHER_COMPUTATIONS, {}], ids=[*OTHER_NAMES, "default"])
def test_another_computation_has_the_outputs_and_gradients_of_float32_without_xla(
    workload, options
):
    if not options and workload.model_class().default_xla != "layers":
        pytest.skip("by default XLA compiles all or nothing, as in other tests")
    values = computations.compute(workload, **options)
    expected = computations.default_values(workload)
    computations.compare(values, expected, options.get("precision", "float32"))


@pytest.mark.parametrize("forward_only", [False, True], ids=["train", "infer"])
def test_fixed_point_rounds_what_is_computed_in_the_network_as_it_is(workload, forward_only):
    model, plain = workload.model(forward_only, **FIXED_POINT), workload.model(forward_only)
    with computations.few_layers(workload):
        model.setup()
        plain.build()
    returned = []
    result = model.run(n_steps=2, runstep=lambda step, batch: note(returned, step(*batch)))
    assert all(np.isfinite(tensor).all() for tensor in keras.tree.flatten(returned))
    rows = result.fixed_point.tensors
    assert {row.kind for row in rows} == set(QUANTIZED[:2] if forward_only else QUANTIZED)
    assert [row for row in rows if row.kind == "activations" and not row.values] == []
    assert model.cost() == plain.cost()
    packed, expected = model.describe(), plain.describe()
    assert list(map(work_of, packed.operations)) == list(map(work_of, expected.operations))
    assert {row.dtype for row in packed.operations if row.macs} == {"fixed24"}


def note(values, value):
    values.append(value)
    return value


def work_of(operation):
    return operation.type, operation.layer, operation.phase, operation.bounds, operation.macs


FAULTS = {
    "dropped layer": lambda y: 0 * y,
    "scaled output": lambda y: 1.5 * y,
    "scaled gradient": lambda y: y + 0.5 * (y - tf.stop_gradient(y)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_sees_a_planted_fault(workload, fault):
    plant = functools.partial(computations.plant_fault, fault=FAULTS[fault])
    options = BFLOAT16 | {"xla": False}  # XLA would compile the same fault
    values = computations.compute(workload, plant, **options)
    expected = computations.default_values(workload)
    with pytest.raises(AssertionError, match=r"output|gradient"):
        computations.compare(values, expected, "bfloat16")  # the widest of the tolerances


def test_evaluation_disturbs_no_training_step(workload, plain):
    evaluated = workload.ready()
    begun = losses(evaluated, 2)
    evaluated.evaluate()
    assert begun + losses(evaluated, 2) == plain.losses[:4]


def test_models_of_several_seeds_live_in_one_process_and_can_be_torn_down(workload, plain):
    model = workload.ready(seed=3)
    assert losses(model, 3) != plain.losses[:3]
    network, graph = weakref.ref(model.network), weakref.ref(model.model())
    model.teardown()
    gc.collect()
    assert network() is None
    assert graph() is None
    with pytest.raises(FathomError, match="setup"):
        model.run(n_steps=1)
    assert len(losses(plain.model, 1)) == 1
    model.setup()
    assert len(losses(model, 1)) == 1


def test_a_checkpoint_of_another_shape_or_workload_is_refused(workload, checkpoints):
    resumed = {"checkpoint_dir": checkpoints, "resume": True}
    other = workload.model(**{workload.size: workload.small[workload.size] + 1})
    with pytest.raises(FathomError, match=r"shape|another network"):
        other.setup(resumed)
    description = Path(checkpoints) / "fathom.json"
    another = f"not_{workload.name}"
    description.write_text(description.read_text().replace(workload.name, another))
    with pytest.raises(FathomError, match=another):
        workload.model().setup(resumed)


def test_a_new_training_never_overwrites_an_older_ones_checkpoints(workload, checkpoints):
    with pytest.raises(FathomError, match="--resume"):
        workload.model().setup({"checkpoint_dir": checkpoints})


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_checkpoint(
    workload, tmp_path
):
    model = workload.ready(setup={"checkpoint_dir": str(tmp_path), "checkpoint_every": 1})
    model.run(n_steps=2)
    model.network.trainable_variables[0].assign(model.network.trainable_variables[0] * float("nan"))
    with pytest.raises(FathomError, match=r"diverged.*ckpt-2"):
        model.run(n_steps=1)
    assert tf.train.latest_checkpoint(tmp_path).endswith("ckpt-2")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"no_such_option": 1}, "no_such_option"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": "many"}, "batch_size must be a whole number"),
        ({"learning_rate": -1.0}, "learning_rate must not be negative"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"precision": "float8"}, "float8"),
        ({"seed": -1}, "seed"),
        ({"batch_size": 10**6}, "larger than the data|are free: use a smaller --batch-size"),
        ({"data_dir": "/no/such/folder"}, "/no/such/folder is not a folder"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_an_unusable_option_is_named_in_one_line(workload, option, message):
    with pytest.raises(FathomError, match=message) as error:
        workload.ready(**option).run(n_steps=1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("dropout", [1, 1.5])
def test_a_dropout_that_keeps_nothing_is_named_in_one_line(workload, dropout):
    if not workload.has_option("dropout"):
        pytest.skip("it has no dropout")
    with pytest.raises(FathomError, match=f"^dropout must be less than 1, not {float(dropout)}$"):
        workload.model(dropout=dropout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["--steps=-1"],
        ["--steps=some"],
        ["--set=no_such_option=1"],
        ["--batch-size=0"],
        ["--data-dir=no-such-folder"],
        ["--device=gpu:99"],
        ["--resume"],
    ],
    ids=" ".join,
)
def test_the_command_line_answers_a_mistake_with_one_line_and_exit_code_2(
    workload, arguments, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        run_workload(workload.name, arguments)
    assert end.value.code == 2
    stderr = capfd.readouterr().err
    assert len(stderr.splitlines()) == 1
    assert stderr.startswith(f"fathom.{workload.name}: error: ")
    assert os.listdir(tmp_path) == []
