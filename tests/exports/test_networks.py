"""Exported networks compute what ours do, in the tool that reads the format."""

import contextlib
import filecmp
import functools
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError, exports, workloads
from fathom.exports import ExportOptions, stablehlo
from fathom.exports.keras import load
from fathom.exports.traced import named
from fathom.model import calibration
from fathom.shared.translation.symbols import EOS, GO, PAD
from fathom.testing.descriptors import descriptor

WORKLOADS = workloads.names()
# These have much of the others' operations and compile long: their tests are slow ones.
SLOW = (
    *("diffusion", "gpt", "grpo", "llama", "mamba", "moe", "residual", "seq2seq", "speech"),
    "transformer",
)
QUICK = ("autoenc", "dlrm")  # of trainings by JAX
ALL = [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in WORKLOADS]
TRAINED = [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in WORKLOADS]
FRAMES = 10  # where any length is taken
STEPWISE = ("seq2seq", "transformer", "gpt")
WITHOUT_FATHOM = """
import sys, numpy, tensorflow
values = numpy.load(sys.argv[2])
run = tensorflow.saved_model.load(sys.argv[1]).signatures["serving_default"]
inputs = {name[3:]: tensorflow.constant(values[name]) for name in values if name[:3] == "in "}
outputs = run(**inputs)
for name, output in outputs.items():
    numpy.testing.assert_allclose(output, values["out " + name], rtol=1e-4, atol=1e-6)
assert "fathom" not in sys.modules
"""
EXPORTS = """
import pathlib, sys
from fathom import exports
from fathom.testing.descriptors import descriptor
for argument in sys.argv[2:]:
    name, workload, chosen = argument.split(":")
    to, folder = exports.find(name), pathlib.Path(sys.argv[1], argument)
    forward_only = chosen != "workers"
    model = descriptor(workload).model(forward_only, xla=to.xla)
    model.build()
    folder.mkdir(parents=True)
    workers = 1 if forward_only else 2
    options = exports.ExportOptions(workers=workers, stepwise=chosen == "stepwise")
    to.save(model, folder, options)
"""


class Network:
    """A small forward-only model with a batch and what it makes of it."""

    def __init__(self, name):
        self.model = build(name, forward_only=True)
        batch = random_batch(self.model.signatures()[-1])
        self.inputs = {spec.name: batch[spec.name] for spec in self.model.signatures()[-1]}
        nest = keras.tree.pack_sequence_as(self.model.inputs, [*map(tf.constant, batch.values())])
        outputs = named(self.model.network(nest, training=False))
        self.outputs = {output: value.numpy() for output, value in outputs.items()}

    def save(self, to, folder, **options):
        return exports.find(to).save(self.model, folder, ExportOptions(**options))

    def check(self, outputs):
        for name, expected in self.outputs.items():
            error = np.linalg.norm(outputs[name] - expected) / np.linalg.norm(expected)
            assert error < 1e-4, name


def build(name, forward_only, xla=False):
    model = descriptor(name).model(forward_only, xla=xla)
    model.build()
    return model


def random_batch(signature):
    """Returns an array for each tensor of a batch, by name."""
    rng = np.random.default_rng(0)
    batch = {}
    for spec in signature:
        shape = [FRAMES if size is None else size for size in spec.shape]
        if spec.name == "lengths":  # of utterances
            value = np.full(shape, FRAMES)
        elif spec.dtype.is_floating:
            value = rng.normal(size=shape)
        else:
            answers = (0, 2) if spec.name in ("clicked", "terminal") else (1, 5)
            value = rng.integers(*answers, shape)
        batch[spec.name] = value.astype(spec.dtype.as_numpy_dtype)
    return batch


@pytest.fixture(scope="module", params=ALL)
def network(request):
    return Network(request.param)


@pytest.fixture(scope="module")
def autoencoder():
    return Network("autoenc")


def test_keras_loads_the_network(network, tmp_path):
    network.save("keras", tmp_path / "out")
    loaded = load(tmp_path / "out" / "network.keras")
    nest = keras.tree.pack_sequence_as(network.model.inputs, list(network.inputs.values()))
    outputs = keras.tree.flatten(loaded(nest, training=False))
    network.check({k: v.numpy() for k, v in zip(network.outputs, outputs, strict=True)})
    assert loaded.count_params() == network.model.network.count_params()


def test_tensorflow_loads_the_network_of_any_batch_size(network, tmp_path):
    network.save("saved-model", tmp_path / "out")
    run = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    network.check({k: v.numpy() for k, v in run(**network.inputs).items()})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "onednn"), [("autoenc", "1"), ("alexnet", "0")])
def test_a_saved_model_needs_neither_fathom_nor_onednn(name, onednn, tmp_path):
    network = Network(name)
    network.save("saved-model", tmp_path / "out")
    values = {f"in {name}": value for name, value in network.inputs.items()}
    values |= {f"out {name}": value for name, value in network.outputs.items()}
    np.savez(tmp_path / "values.npz", **values)
    arguments = [tmp_path / "out", tmp_path / "values.npz"]
    command = [sys.executable, "-I", "-c", WITHOUT_FATHOM, *map(str, arguments)]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": onednn}
    subprocess.run(command, check=True, timeout=300, env=environment)


def test_onnx_runtime_computes_the_same(network, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    left_out = network.save("onnx", tmp_path / "out")
    names_left_out = ["random", "batches"] if network.model.name == "autoenc" else []
    assert [word for word in ("random", "batches") if word in " ".join(left_out)] == names_left_out
    file = tmp_path / "out" / "network.onnx"
    onnx.checker.check_model(str(file), full_check=True)
    session = runtime.InferenceSession(str(file))
    network.check(run_session(session, network.inputs))
    graph = onnx.load(str(file)).graph
    weights = {weight.path for weight in network.model.network.trainable_weights}
    assert weights & {initializer.name for initializer in graph.initializer}
    names = {node.name.partition("/")[0] for node in graph.node}
    assert names & {layer.name for layer in network.model.network.layers if layer.weights}


@pytest.mark.slow
def test_a_sparse_product_in_float16_is_valid_onnx(tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = descriptor("gcn").model(True, precision="float16")
    model.build()
    exports.find("onnx").save(model, tmp_path, exports.ExportOptions())
    onnx.checker.check_model(str(tmp_path / "network.onnx"), full_check=True)


def test_an_onnx_export_leaves_the_loops_that_it_converted_to_their_owners(tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    failed = []
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    model = build("transformer", forward_only=True)
    exports.find("onnx").save(model, tmp_path, ExportOptions())
    gc.collect()
    assert [str(each.exc_value) for each in failed] == []


@pytest.mark.parametrize(
    "name",
    ["seq2seq", *(pytest.param(n, marks=pytest.mark.slow) for n in STEPWISE if n != "seq2seq")],
)
def test_decoding_by_onnx_runtime_says_the_words_of_our_search(name, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    greedy = {} if name == "gpt" else {"beam_size": 1}
    model = descriptor(name).model(forward_only=True, seed=0, **greedy)
    model.build()
    rng = np.random.default_rng(0)
    for variable in model.network.trainable_variables:
        if len(variable.shape) > 1:  # so that words differ from step to step
            variable.assign(variable + rng.normal(size=variable.shape))
    inputs = random_batch(model.signatures()[-1])
    expected = model.network(*inputs.values(), training=False).numpy()
    assert len(np.unique(expected)) > 6
    (left_out,) = exports.find("onnx").save(model, tmp_path, ExportOptions(stepwise=True))
    assert "loop" in left_out
    first, step = (
        functools.partial(run_session, runtime.InferenceSession(str(tmp_path / f"{part}.onnx")))
        for part in model.parts(None)
    )
    decode = continue_prompts if name == "gpt" else translate
    np.testing.assert_array_equal(decode(first(inputs), step, expected.shape[1]), expected)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_phase_of_a_step_is_exported_alone(phase, tmp_path):
    model = descriptor("llama").model(forward_only=True, phase=phase)
    model.build()
    inputs = calibration.first_batch(model)
    assert list(inputs) == [spec.name for spec in model.signatures()[-1]]
    exports.find("saved-model").save(model, tmp_path, ExportOptions())
    run = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found = run(**inputs)
    for name, expected in named(model.infer(*inputs.values())).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


def translate(state, step, length):
    """Returns the most probable words, int32 [batch, length], from the encoder's outputs."""
    words, translated = np.full(len(next(iter(state.values()))), GO, np.int32), []
    for _ in range(length):
        outputs = step({**state, "words": words})
        state |= passed_on(outputs)
        ended = (words == EOS) | (words == PAD)
        words = np.where(ended, PAD, outputs["logits"].argmax(1)).astype(np.int32)
        translated.append(words)
    return np.stack(translated, 1)


def continue_prompts(outputs, step, length):
    """Returns the most probable tokens, int32 [batch, length], from the prefill's outputs."""
    tokens = [outputs.pop("logits").argmax(1).astype(np.int32)]
    state = outputs
    while len(tokens) < length:
        outputs = step({**state, "tokens": tokens[-1]})
        state = passed_on(outputs)
        tokens.append(outputs["logits"].argmax(1).astype(np.int32))
    return np.stack(tokens, 1)


def passed_on(outputs):
    """Returns what a step passes to the next by the names that the next knows."""
    return {k.removeprefix("new_"): v for k, v in outputs.items() if k.startswith("new_")}


def test_a_network_without_steps_is_not_exported_by_them(autoencoder, tmp_path):
    with pytest.raises(FathomError, match="has no steps"):
        autoencoder.save("onnx", tmp_path / "out", stepwise=True)


def test_a_folder_that_cannot_be_written_is_an_error_in_one_line(autoencoder, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(FathomError, match=r"^cannot write .*out: .*exists"):
        autoencoder.save("keras", tmp_path / "out")


def run_session(session, inputs):
    """Returns the outputs of an ONNX graph by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("name", TRAINED)
def test_jax_trains_the_same(name, tmp_path):
    """Executes the text with the XLA of JAX."""
    pytest.importorskip("jax", reason="jax is not installed")
    few = descriptor(name).few_layers
    with contextlib.ExitStack() as stack:
        for constant, value in few.items():
            module = descriptor(name).model_class().__module__
            stack.enter_context(mock.patch(f"{module}.{constant}", value))
        model = build(name, forward_only=False, xla=True)
    signature = model.signature_of_length(None)
    batch = random_batch(signature)
    if "lengths" in batch:
        batch["lengths"][:] = signature[0].shape[1]
        batch["phone_counts"][:] = 2
    exports.find("stablehlo").save(model, tmp_path, ExportOptions())
    listing = json.loads((tmp_path / "step.json").read_text())
    step = tf.function(model.train_step, autograph=False, jit_compile=True)
    traced = step.get_concrete_function(*signature)
    captured = iter(traced.captured_inputs)
    read = {}  # functions that return an argument's value
    for argument in listing["arguments"]:
        name, kind = argument["name"], argument["kind"]
        tensor = tf.constant(batch[name]) if kind == "batch" else next(captured)
        read[name] = functools.partial(value_of, tensor, argument["dtype"])
        if kind == "constant":
            np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), read[name]())
    results = execute((tmp_path / "step.mlir").read_text(), [value() for value in read.values()])
    found = dict(zip(listing["results"], results, strict=True))
    assert_close(found.pop("loss"), traced(*map(tf.constant, batch.values())).numpy(), "loss")
    assert found.keys() >= {f"new {v.path}" for v in model.network.trainable_variables}
    for name, value in found.items():
        assert_close(value, read[name.removeprefix("new ")](), name)


def test_a_training_step_has_operations_of_stablehlo_alone(tmp_path):
    exports.find("stablehlo").save(build("memnet", False, xla=True), tmp_path, ExportOptions())
    text = (tmp_path / "step.mlir").read_text()
    dialects = set(re.findall(r'^ *%\S+ = "?(\w+)\.', text, re.MULTILINE))
    assert dialects <= {"stablehlo", "chlo"}


@pytest.mark.parametrize("digits", ["0D", "01000101"])  # a bit each, or a byte
def test_masks_are_written_so_that_any_version_of_mlir_reads_them(digits):
    text = f'%0 = stablehlo.constant dense<"0x{digits}"> : tensor<2x2xi1>'
    assert stablehlo._TRUTHS.sub(stablehlo._spelled_out, text) == (
        "%0 = stablehlo.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>"
    )


def value_of(tensor, dtype):
    """Returns the value of a tensor, or the current value of the variable that it refers to."""
    if tensor.dtype == tf.resource:
        tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=dtype)
    return tensor.numpy()


def assert_close(found, expected, name):
    error = np.linalg.norm((found - expected).ravel().astype(float))
    largest = 1e-4 if name.startswith("new optimizer") else 1e-5  # gradients, near zero, or weights
    assert error <= largest * np.linalg.norm(expected.ravel().astype(float)), name


def execute(text, arguments):
    """Compiles and runs StableHLO on the CPU with the XLA of JAX; returns the results."""
    import jax
    from jax import experimental
    from jax.extend import backend
    from jaxlib import xla_client

    client = backend.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    options = xla_client.CompileOptions()
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0  # faster
    compiled = client.compile_and_load(text, devices, options)
    enable_x64 = (jax if hasattr(jax, "enable_x64") else experimental).enable_x64  # new in 0.8
    with enable_x64(True):
        placed = [jax.device_put(np.array(argument)) for argument in arguments]
        results = compiled.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [np.asarray(result[0]) for result in results]


@pytest.mark.parametrize("to", ["saved-model", "stablehlo", "onnx"])
def test_an_export_does_not_depend_on_what_the_process_traced_before(to, tmp_path):
    if to == "onnx":
        pytest.importorskip("tf2onnx")
    written = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        form = exports.find(to)
        model = descriptor("memnet").model(True, xla=form.xla)
        model.build()
        form.save(model, folder, ExportOptions())
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        written.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert written[0] == written[1]


@pytest.mark.slow
def test_exports_of_two_processes_are_equal(tmp_path):
    exported = [f"{to}:memnet:" for to in ("chakra", "keras", "saved-model", "stablehlo")]
    exported.append("chakra:memnet:workers")
    if importlib.util.find_spec("tf2onnx"):
        stepwise = [f"onnx:{name}:stepwise" for name in STEPWISE if name in WORKLOADS]
        exported += ["onnx:memnet:", *stepwise]
    command = [sys.executable, "-c", EXPORTS]
    processes = [
        subprocess.Popen([*command, str(tmp_path / out), *exported]) for out in ("first", "second")
    ]
    try:
        assert [process.wait(300) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    first = tmp_path / "first"
    files = [path.relative_to(first) for path in first.rglob("*.*") if path.is_file()]
    assert {path.parts[0] for path in files} == {*exported}
    _, differ, missing = filecmp.cmpfiles(first, tmp_path / "second", files, shallow=False)
    assert not differ + missing
