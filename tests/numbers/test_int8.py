import keras
import numpy as np
import pytest

from fathom import FathomError
from fathom.system.processor import Processor

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from fathom.numbers import int8  # noqa: E402

KERNEL = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)


def save_network(kernel, path):
    """Writes an ONNX file of one product and a hyperbolic tangent."""
    make = onnx.helper
    nodes = [make.make_node("MatMul", ["x", "w"], ["y"]), make.make_node("Tanh", ["y"], ["z"])]
    number = onnx.TensorProto.FLOAT
    graph = make.make_graph(
        nodes,
        "network",
        [make.make_tensor_value_info("x", number, ["n", 16])],
        [make.make_tensor_value_info("z", number, ["n", 4])],
        [onnx.numpy_helper.from_array(kernel, "w")],
    )
    versions = {"opset_imports": [make.make_opsetid("", 17)], "ir_version": 8}
    onnx.save(make.make_model(graph, **versions), path)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "network.onnx"
    save_network(KERNEL, path)
    return path


def batches():
    generator = np.random.default_rng(1)
    return ([generator.normal(size=(8, 16)).astype(np.float32)] for _ in range(4))


@pytest.fixture(params=["this processor", "one without VNNI"])
def processor(request, monkeypatch):
    """Chooses a session's kernels, all of which this processor has."""
    if request.param == "one without VNNI":
        monkeypatch.setattr(int8, "processor", lambda: Processor("", "x86_64", flags=("avx2",)))


@pytest.mark.usefixtures("processor")
def test_an_int8_network_is_near_the_float32_one_and_names_what_stays(network, tmp_path):
    left = int8.quantize(network, batches(), tmp_path / "int8.onnx")
    assert left == {"Tanh": 1}
    types = {t.data_type for t in onnx.load(tmp_path / "int8.onnx").graph.initializer}
    assert onnx.TensorProto.INT8 in types
    (x,) = next(batches())
    inputs = keras.Input((16,))
    plain = keras.Model(inputs, keras.layers.Dense(4)(inputs), name="plain")
    served = int8.network_of(int8.session(tmp_path / "int8.onnx", 1), plain)
    expected = np.tanh(x @ KERNEL)
    assert 0 < np.abs(served(x) - expected).max() < 0.1


@pytest.mark.usefixtures("processor")
def test_pairs_of_the_largest_products_do_not_saturate(tmp_path):
    """In 16 bits the two products by 127 would become half, and those by -42 remain."""
    kernel = np.tile(np.array([127, 127, *[-42] * 6], np.float32)[:, None] / 127, (2, 4))
    save_network(kernel, tmp_path / "network.onnx")
    int8.quantize(tmp_path / "network.onnx", batches(), tmp_path / "int8.onnx")
    largest = np.full((1, 16), max(x.max() for (x,) in batches()))
    (output,) = int8.session(tmp_path / "int8.onnx", 1).run(None, {"x": largest})
    np.testing.assert_allclose(output, np.tanh(largest @ kernel), atol=0.02)


@pytest.mark.parametrize(
    ("flags", "as_uint8"),
    [
        (["avx2", "avx512f", "avx512_vnni"], False),
        (["avx2", "avx_vnni"], False),
        (["avx2", "fma", "avx512f"], True),
        ([], True),
    ],
)
def test_weights_are_uint8_where_products_with_int8_saturate(network, monkeypatch, flags, as_uint8):
    assert int8.saturates(flags) == as_uint8
    monkeypatch.setattr(int8, "processor", lambda: Processor("", "x86_64", flags=tuple(flags)))
    options = int8.session(network, 1).get_session_options()
    chosen = options.get_session_config_entry("session.x64quantprecision")
    assert chosen == ("1" if as_uint8 else "0")


def test_calibration_needs_data_and_a_session_a_file(network, tmp_path):
    with pytest.raises(FathomError, match="no data to calibrate on"):
        int8.quantize(network, iter(()), tmp_path / "int8.onnx")
    two = iter([[np.zeros((8, 16), np.float32)] * 2])
    with pytest.raises(FathomError, match="takes 1 inputs, not the 2 of the workload"):
        int8.quantize(network, two, tmp_path / "int8.onnx")
    wrong = iter([[np.zeros((8, 16, 1), np.float32)]])
    with pytest.raises(FathomError, match="cannot quantize"):
        int8.quantize(network, wrong, tmp_path / "int8.onnx")
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(FathomError, match="cannot read"):
        int8.session(tmp_path / "text.onnx", 1)
    with pytest.raises(FathomError, match="cannot read"):
        int8.quantize(tmp_path / "text.onnx", batches(), tmp_path / "int8.onnx")
