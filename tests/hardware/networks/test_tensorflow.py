"""The work of Keras models, functions and SavedModels; no file may run code."""

import importlib
import json
import random
import zipfile

import keras
import pytest
import tensorflow as tf

import fathom
from fathom import FathomError
from fathom.hardware import networks
from fathom.hardware.networks.tensorflow import read_keras
from fathom.system import private

layers = keras.layers


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((9, 8, 4), name="picture")
    x = layers.Conv2D(6, 3, strides=2, groups=2, name="grouped")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2, name="depthwise")(x)
    x = layers.Conv2DTranspose(5, 2, strides=2, name="transposed")(x)
    x = layers.Reshape((48, 5))(x)
    x = layers.MultiHeadAttention(2, 3, name="attention")(x, x)
    x = layers.Dense(7, name="dense")(layers.GlobalAveragePooling1D()(x))
    return keras.Model(inputs, x, name="everything")


MACS = {
    "grouped": 4 * 3 * 6 * 2 * 9,
    "norm": 0,
    "depthwise": 4 * 3 * 12 * 9,
    "transposed": 4 * 3 * 12 * 5 * 4,
    "attention": 48 * (3 * 5 * 6 + 6 * 5) + 2 * 2 * 48 * 48 * 3,
    "dense": 5 * 7,
}


def macs_by_layer(description):
    sums = description.frame().groupby("layer").macs.sum()
    return {name: sums.get(name, 0) for name in MACS}


def test_a_model_is_described_by_its_layers(model):
    found = fathom.describe(model, (2, 9, 8, 4))
    assert macs_by_layer(found) == {name: 2 * macs for name, macs in MACS.items()}
    trainable = sum(int(tf.size(w)) for w in model.trainable_variables)
    assert (found.workload, found.batch_size, found.parameters) == ("everything", 2, trainable)
    assert found.without_rule == ()


@pytest.mark.parametrize(
    ("layer", "sizes", "macs"),
    [
        (layers.DepthwiseConv2D(3, depth_multiplier=2, dilation_rate=2), (9, 9), 25 * 8 * 9),
        (layers.Conv2D(6, 3, dilation_rate=2, padding="same"), (9, 10), 90 * 6 * 4 * 9),
        (layers.Conv1D(6, 3, dilation_rate=2), (9,), 5 * 6 * 4 * 3),
        (layers.Conv3D(6, 3, dilation_rate=2), (9, 9, 9), 125 * 6 * 4 * 27),
    ],
)
def test_a_dilated_convolution_has_the_outputs_that_its_layer_returns(layer, sizes, macs):
    found = fathom.describe(keras.Sequential([layer]), (2, *sizes, 4))
    assert found.macs == 2 * macs


def test_a_dilated_convolution_has_its_own_window():
    layer = layers.Conv2D(6, 3, dilation_rate=2, padding="same")
    rows = fathom.describe(keras.Sequential([layer]), (2, 9, 10, 4)).operations
    (bounds,) = (row.bounds for row in rows if row.kind == "convolution")
    expected = {"N": 2, "P": 9, "Q": 10, "dilation_w": 2, "pad_top": 2, "pad_bottom": 2}
    assert {name: bounds[name] for name in expected} == expected


def test_files_of_a_model_have_the_same_work(model, tmp_path):
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "saved", verbose=False)
    whole = fathom.describe(model, tf.TensorSpec((2, 9, 8, 4)))
    for name in ("net.keras", "saved"):
        found = networks.read(tmp_path / name, {"batch": 2})
        assert (found.macs, found.parameters) == (whole.macs, whole.parameters)
        assert found.traffic_bytes == whole.traffic_bytes
        assert found.held_bytes == whole.held_bytes
        with pytest.raises(FathomError, match="leaves sizes open: give --dim batch=N"):
            networks.read(tmp_path / name, {})


def test_a_function_is_described_with_its_loops():
    weights = tf.Variable(tf.zeros((4, 4)))

    @tf.function
    def steps(x, y):
        for _ in tf.range(5):
            x = tf.matmul(x, weights)
        return x + tf.nn.conv3d(y, tf.zeros((2, 2, 2, 1, 4)), [1] * 5, "VALID")[0, 0, 0]

    found = fathom.describe(steps, [(3, 4), (1, 2, 2, 4, 1)])
    assert {row.kind: row.macs for row in found.operations if row.macs} == {
        "recurrent product": 5 * 3 * 4 * 4,
        "matrix product": 3 * 8 * 4,
    }
    assert found.parameters == 16


def test_a_recurrent_layer_repeats_its_product():
    model = keras.Sequential([keras.Input((10, 3)), layers.LSTM(6, name="cells")])
    found = fathom.describe(model, (2, 10, 3))
    assert found.macs == 10 * 2 * 24 * (3 + 6)


def test_a_saved_model_with_a_recurrent_layer_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((10, 3)), layers.LSTM(6)])
    model.export(tmp_path / "saved", verbose=False)
    with pytest.raises(FathomError, match=r"saved has sizes that are not known.* give a \.keras"):
        networks.read(tmp_path / "saved", {"batch": 2})


def test_variables_of_one_name_count_each(tmp_path):
    module = tf.Module()
    module.first, module.second = tf.Variable(tf.zeros((3, 4))), tf.Variable(tf.zeros((4, 5)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def serve(x):
        return {"y": x @ module.first @ module.second}

    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=serve)
    assert networks.read(tmp_path / "saved", {"batch": 2}).parameters == 3 * 4 + 4 * 5


def test_operations_without_a_rule_are_listed():
    found = fathom.describe(tf.function(tf.linalg.det), [(3, 3)])
    (row,) = found.operations
    assert found.without_rule == ("MatrixDeterminant",)
    assert (row.flops, row.kind) == (0, "data movement")


def test_open_and_unknown_sizes_are_refused(model):
    with pytest.raises(FathomError, match="leaves sizes open"):
        fathom.describe(model, tf.TensorSpec((None, 9, 8, 4)))
    with pytest.raises(FathomError, match="everything does not take these inputs"):
        fathom.describe(model, (2, 9, 8, 5))


def test_an_empty_batch_is_refused(model, tmp_path):
    model.save(tmp_path / "net.keras")
    with pytest.raises(FathomError, match="--dim batch must be at least 1, not 0"):
        read_keras(tmp_path / "net.keras", {"batch": 0})


def repack(file, change):
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    change(config["config"]["layers"][1])
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_name": "Lambda"}, "a layer Lambda, which runs code or reads other files"),
        ({"class_name": "TorchModuleWrapper"}, "TorchModuleWrapper, which runs code"),
        ({"module": "os", "class_name": "system"}, "os.system, which is not Keras' own"),
        ({"module": "keras.utils", "class_name": "get_file"}, "keras.utils.get_file, which is not"),
        ({"module": "keras.layers", "class_name": "deserialize"}, "deserialize, which is not"),
        ({"module": "keras.src.applications.vgg16", "class_name": "VGG16"}, "VGG16, which is not"),
        ({"module": None, "class_name": "Own", "registered_name": "me>Own"}, "an unnamed module"),
        ({"config": {"x": {"module": "builtins", "class_name": "function"}}}, "builtins.function"),
    ],
)
def test_a_model_that_would_run_code_is_refused_by_name(model, tmp_path, changes, message):
    file = tmp_path / "net.keras"
    model.save(file)
    repack(file, lambda layer: layer.update(changes))
    with pytest.raises(FathomError, match=message):
        read_keras(file, {"batch": 2})


@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        ("convnext", "LayerScale", {"init_values": 0.5, "projection_dim": 3}),
        ("inception_resnet_v2", "CustomScaleLayer", {"scale": 0.5}),
    ],
)
def test_layers_of_keras_own_networks_are_read(tmp_path, module, name, options):
    layer = getattr(importlib.import_module(f"keras.src.applications.{module}"), name)(**options)
    value = keras.Input((3,))
    keras.Model(value, layer([value, value] if "scale" in options else value)).save(
        tmp_path / "net.keras"
    )
    assert networks.read(tmp_path / "net.keras", {"batch": 2}).total_flops > 0


def test_a_layer_of_any_size_takes_no_memory(tmp_path):
    file = tmp_path / "net.keras"
    keras.Sequential([keras.Input((8,)), layers.Dense(4)]).save(file)
    repack(file, lambda layer: layer["config"].update(units=2**34))
    assert networks.read(file, {"batch": 1}).parameters == 9 * 2**34


def test_an_input_of_no_type_is_refused(model, tmp_path):
    model.export(tmp_path / "saved", verbose=False)
    file = tmp_path / "saved" / "saved_model.pb"
    saved = private.parse_saved_model(file.read_bytes())
    for each in saved.meta_graphs[0].signature_def["serving_default"].inputs.values():
        each.dtype = 0
    file.write_bytes(saved.SerializeToString())
    with pytest.raises(FathomError, match="is no tensor of known type and rank"):
        networks.read(tmp_path / "saved", {"batch": 2})


@pytest.mark.parametrize("name", ["net.keras", "saved/saved_model.pb"])
def test_a_damaged_file_gives_one_line_and_no_other_error(tmp_path, name):
    model = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "saved", verbose=False)
    file, chance = tmp_path / name, random.Random(1)
    whole = file.read_bytes()
    refusals = []
    for turn in range(30):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if turn % 3 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        file.write_bytes(damaged)
        try:
            networks.read(tmp_path / name.partition("/")[0], {"batch": 2})
        except FathomError as error:
            refusals.append(str(error))
    assert len(refusals) >= 10
    assert not any("\n" in each for each in refusals)


def test_products_that_no_rule_tells_are_listed():
    def both(a, b):
        return tf.matmul(a, b, a_is_sparse=True), tf.raw_ops.Conv(
            input=a[None, None], filter=b[None, None], strides=[1] * 4, padding="VALID"
        )

    found = fathom.describe(tf.function(both), [(8, 16), (16, 4)])
    assert sorted(found.without_rule) == ["Conv", "SparseMatMul"]


def test_products_in_what_xla_compiles_count():
    kernel = tf.Variable(tf.zeros((2, 2, 2, 1, 4)))

    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.nn.relu(tf.nn.conv3d(x, kernel, [1] * 5, "VALID"))

    found = fathom.describe(tf.function(lambda x: compiled(x) + 1), [(1, 2, 2, 4, 1)])
    assert found.macs == 3 * 8 * 4
