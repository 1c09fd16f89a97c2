import keras
import numpy as np
import pytest

from fathom import FathomError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from fathom.numbers import int8  # noqa: E402

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(16, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Gives an ONNX file of one product and a hyperbolic tangent."""
    make = onnx.helper
    nodes = [make.make_node("MatMul", ["x", "w"], ["y"]), make.make_node("Tanh", ["y"], ["z"])]
    number = onnx.TensorProto.FLOAT
    graph = make.make_graph(
        nodes,
        "network",
        [make.make_tensor_value_info("x", number, ["n", 16])],
        [make.make_tensor_value_info("z", number, ["n", 4])],
        [onnx.numpy_helper.from_array(KERNEL, "w")],
    )
    path = tmp_path_factory.mktemp("onnx") / "network.onnx"
    versions = {"opset_imports": [make.make_opsetid("", 17)], "ir_version": 8}
    onnx.save(make.make_model(graph, **versions), path)
    return path


def batches():
    return ([RNG.normal(size=(8, 16)).astype(np.float32)] for _ in range(4))


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


def test_calibration_needs_data_and_a_session_a_file(network, tmp_path):
    with pytest.raises(FathomError, match="no data to calibrate on"):
        int8.quantize(network, iter(()), tmp_path / "int8.onnx")
    wrong = iter([[np.zeros((8, 16, 1), np.float32)]])
    with pytest.raises(FathomError, match="cannot quantize"):
        int8.quantize(network, wrong, tmp_path / "int8.onnx")
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(FathomError, match="cannot read"):
        int8.session(tmp_path / "text.onnx", 1)
    with pytest.raises(FathomError, match="cannot read"):
        int8.quantize(tmp_path / "text.onnx", batches(), tmp_path / "int8.onnx")
