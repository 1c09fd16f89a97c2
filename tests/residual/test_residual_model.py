import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import residual_reference as reference
import tensorflow as tf

from fathom import FathomError, Residual, ResidualFwd, workloads
from fathom.measure.profile.xplane import trace
from fathom.residual.layers import BatchNormalization, NormalizedConvolution2D
from fathom.residual.model import BATCH_NORM

SMALL = workloads.descriptor("residual").small
SHORTCUTS = ["projection", "identity"]


def built(forward_only=False, **options):
    model = (ResidualFwd if forward_only else Residual)("/cpu:0", SMALL | options)
    model.build()
    return model


def randomized(network):
    """Gives the normalisations other values than those that they begin with."""
    rng = np.random.default_rng(1)
    for variable in network.variables:
        if variable.name in ("scale", "variance"):
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
        elif variable.name in ("offset", "mean", "bias"):
            variable.assign(rng.normal(0, 0.2, variable.shape))


def weights_of(network):
    return {v.path: v.numpy().astype(np.float64) for v in network.variables}


def images(batch=4, side=64):
    return np.random.default_rng(0).normal(0, 60, (batch, side, side, 3)).astype(np.float32)


def assert_near(actual, expected, tolerance, what=""):
    """Compares whole tensors: largest difference over largest value."""
    difference = np.abs(np.asarray(actual) - expected).max() / np.abs(expected).max()
    assert difference < tolerance, (what, difference)


NARROW_SHORTCUT = """
import fathom
import tensorflow as tf
from fathom.residual.layers import NormalizedConvolution2D
x = tf.random.normal([4, 16, 16, 4])
layer = NormalizedConvolution2D(8, 1, 2, "ones", 0.9, 1e-5)
for _ in range(30):
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(layer(x, training=True) ** 2)
    tape.gradient(y, layer.kernel.value)
"""


@pytest.mark.slow
def test_a_shortcut_of_few_channels_trains_on_many_threads():
    """oneDNN's gradient of its filters, with strides, damages the heap where there is AVX-512."""
    command = [sys.executable, "-c", NARROW_SHORTCUT]
    environment = os.environ | {"TF_NUM_INTRAOP_THREADS": "8"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr[-500:]


# ------------------------------------------------------------------ the paper's table


def test_every_stages_output_has_the_shape_of_the_papers_table():
    model = ResidualFwd("/cpu:0")
    model.build()
    shapes = {layer.name: layer.output_shape for layer in model.cost().layers}
    assert shapes["conv1"] == (112, 112, 64)
    assert shapes["pool1"] == (56, 56, 64)
    table = {2: (56, 64, 3), 3: (28, 128, 4), 4: (14, 256, 6), 5: (7, 512, 3)}
    for stage, (side, filters, n_blocks) in table.items():
        for block in range(1, n_blocks + 1):
            for part in ("a", "b", "a_relu", "_add", "_relu"):
                assert shapes[f"conv{stage}_{block}{part}"] == (side, side, filters)
        assert f"conv{stage}_{n_blocks + 1}a" not in shapes
    assert shapes["pool5"] == (512,)
    assert shapes["fc"] == (1000,)


def test_thirty_three_convolutions_and_a_dense_layer_are_on_the_main_path():
    layers = ResidualFwd("/cpu:0")
    layers.build()
    kinds = [
        type(layer).__name__ for layer in layers.network.layers if "shortcut" not in layer.name
    ]
    assert kinds.count("NormalizedConvolution2D") == 33
    assert kinds.count("Dense") == 1


def test_option_a_has_no_parameters_in_its_shortcuts():
    model = ResidualFwd("/cpu:0", {"shortcut": "identity"})
    model.build()
    assert model.cost().parameters == 21_623_848
    assert model.cost().forward_macs == 3_644_493_824


def test_weights_begin_as_he_says_and_convolutions_have_no_biases():
    model = built(base_filters=32)
    for variable in model.network.trainable_variables:
        if variable.name == "kernel":
            fan_in = np.prod(variable.shape[:-1])
            tolerance = 4 / np.sqrt(2 * np.prod(variable.shape))
            expected = np.sqrt(2 / fan_in)
            assert variable.numpy().std() == pytest.approx(expected, rel=tolerance)
        else:
            assert variable.path == "fc/bias" or "/norm/" in variable.path


# ------------------------------------------------------------------ against NumPy


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_the_network_computes_what_the_numpy_reference_does(shortcut, training):
    model = built(shortcut=shortcut)
    randomized(model.network)
    expected, _ = reference.network(
        images(), weights_of(model.network), 4, shortcut == "projection", training, {}
    )
    logits = model.network(images(), training=training)
    assert_near(logits, expected, 1e-4)


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_the_networks_gradients_are_the_numpy_references(shortcut):
    model = built(shortcut=shortcut)
    randomized(model.network)
    weights, expected = weights_of(model.network), {}
    _, back = reference.network(images(), weights, 4, shortcut == "projection", True, expected)
    gradient = np.random.default_rng(2).normal(size=(4, 10))
    back(gradient)
    variables = model.network.trainable_variables
    with tf.GradientTape() as tape:
        logits = model.network(images(), training=True)
    gradients = tape.gradient(logits, [v.value for v in variables], tf.cast(gradient, tf.float32))
    assert {v.path for v in variables} == set(expected)
    for variable, ours in zip(variables, gradients, strict=True):
        assert_near(ours, expected[variable.path], 5e-3, variable.path)


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_a_block_that_grows_and_its_gradients_are_the_numpy_references(shortcut):
    model = built(shortcut=shortcut)
    randomized(model.network)
    network = model.network
    before, after = network.get_layer("conv2_3_relu").output, network.get_layer("conv3_1_relu")
    block = keras.Model(before, after.output)
    x = np.random.default_rng(3).normal(size=(2, *before.shape[1:])).astype(np.float32)
    dy = np.random.default_rng(4).normal(size=(2, *after.output.shape[1:])).astype(np.float32)
    expected = {}
    y, back = reference.block(
        x, weights_of(network), "conv3_1", 8, 2, shortcut == "projection", True, expected
    )
    dx = back(dy)
    variables = block.trainable_variables
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        outputs = block(inputs, training=True)
    assert_near(outputs, y, 1e-5)
    ours = tape.gradient(outputs, [inputs, *[v.value for v in variables]], tf.constant(dy))
    assert_near(ours[0], dx, 1e-5)
    assert len(variables) == (9 if shortcut == "projection" else 6)
    for variable, gradient in zip(variables, ours[1:], strict=True):
        assert_near(gradient, expected[variable.path], 1e-5, variable.path)


@pytest.mark.parametrize(("size", "strides", "side"), [(3, 2, 8), (3, 2, 7), (7, 2, 9), (1, 2, 8)])
def test_a_convolution_is_padded_alike_on_all_sides(size, strides, side):
    layer = NormalizedConvolution2D(5, size, strides, "glorot_uniform", 0.9, epsilon=0)
    x = np.random.default_rng(0).normal(size=(2, side, side, 3)).astype(np.float32)
    y = layer(x)
    weights = {"c/kernel": layer.kernel.numpy()}
    assert_near(y, reference.convolution(x, weights, "c", strides, {})[0], 1e-5)
    assert layer.compute_output_shape(x.shape) == y.shape


def normalized(layer, x, training=True):
    return tf.function(layer)(x, training=training)


def test_a_training_step_moves_the_statistics_towards_the_batchs():
    layer = BatchNormalization(momentum=0.75, epsilon=1e-5)
    x = np.random.default_rng(0).normal(3, 2, (4, 5, 5, 6)).astype(np.float32)
    normalized(layer, x)
    normalized(layer, 2 * x)
    means, variances = x.mean((0, 1, 2)), x.var((0, 1, 2), ddof=1)
    moved = 0.75 * 0.25 * means + 0.25 * 2 * means
    np.testing.assert_allclose(layer.mean.numpy(), moved, rtol=1e-4)
    moved = 0.75 * (0.75 + 0.25 * variances) + 0.25 * 4 * variances
    np.testing.assert_allclose(layer.variance.numpy(), moved, rtol=1e-4)


def test_inference_uses_the_moving_statistics_and_leaves_them_alone():
    layer = BatchNormalization(momentum=0.75, epsilon=1e-5)
    x = np.random.default_rng(0).normal(3, 2, (4, 5, 5, 6)).astype(np.float32)
    normalized(layer, x)
    mean, variance = layer.mean.numpy(), layer.variance.numpy()
    y = normalized(layer, x, training=False)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.mean.numpy(), mean)
    np.testing.assert_array_equal(layer.variance.numpy(), variance)


def test_the_linear_transform_that_is_folded_in_is_the_normalisation_of_inference():
    layer = BatchNormalization(momentum=0.75, epsilon=0.5)
    x = np.random.default_rng(1).normal(size=(2, 3, 3, 2)).astype(np.float32)
    layer.build(x.shape)
    for variable, value in zip(layer.weights, ([2, 3], [1, -1], [0.5, 4], [0.25, 9]), strict=True):
        variable.assign(value)
    factor, offset = layer.linear()
    np.testing.assert_allclose(layer(x), x * factor + offset, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_statistics_stay_float32_where_the_network_computes_with_less(dtype):
    exact = BatchNormalization(0.9, 1e-5)
    layer = BatchNormalization(0.9, 1e-5, dtype=dtype)
    x = np.random.default_rng(0).normal(3, 2, (4, 5, 5, 6)).astype(np.float32)
    y = normalized(layer, x)
    assert y.dtype == layer.compute_dtype
    np.testing.assert_allclose(tf.cast(y, tf.float32), normalized(exact, x), atol=0.03)
    assert {v.dtype for v in layer.variables} == {"float32"}
    np.testing.assert_allclose(layer.variance.numpy(), exact.variance.numpy(), rtol=0.01)


@pytest.mark.slow
def test_training_normalises_by_fused_kernels_forward_and_backward():
    model = Residual("/cpu:0", SMALL)
    model.setup()
    types = [operation.type for operation in model.model().get_operations()]
    assert types.count("FusedBatchNormV3") == 36
    assert types.count("FusedBatchNormGradV3") == 36


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_inference_normalises_by_a_factor_and_an_offset(precision):
    model = ResidualFwd("/cpu:0", SMALL | {"image_size": 32, "precision": precision})
    model.setup()
    traces = []
    model.run(lambda step, batch: traces.append(trace(lambda: step(*batch), 1)), n_steps=2)
    op_types = {op.op_type for op in traces[-1].ops}
    assert any("Conv2D" in name for name in op_types)
    assert not any("BatchNorm" in name for name in op_types)  # nor fused with a convolution


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_layer_of_lower_precision_infers_what_the_float32_one_does(precision):
    exact = NormalizedConvolution2D(8, 3, 2, "he_normal", **BATCH_NORM)
    layer = NormalizedConvolution2D(8, 3, 2, "he_normal", **BATCH_NORM, dtype=f"mixed_{precision}")
    x = np.random.default_rng(0).normal(size=(2, 9, 9, 4)).astype(np.float32)
    expected, y = exact(x), layer(x)
    assert y.dtype == precision
    assert {v.dtype for v in layer.variables} == {"float32"}
    randomized(exact)
    layer.set_weights(exact.get_weights())
    assert_near(tf.cast(layer(x), tf.float32), exact(x), 0.02)
    assert np.abs(exact(x) - expected).max() > 0.1


@pytest.mark.slow
def test_training_changes_what_inference_normalises_with_and_checkpoints_keep_it(tmp_path):
    model = Residual("/cpu:0", SMALL)
    model.setup({"checkpoint_dir": str(tmp_path)})
    layer = model.network.get_layer("conv5_3b").normalization
    before = layer.variance.numpy()
    model.run(n_steps=1)
    assert np.abs(layer.variance.numpy() - before).max() > 0.01
    resumed = Residual("/cpu:0", SMALL)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    kept = resumed.network.get_layer("conv5_3b").normalization
    np.testing.assert_array_equal(kept.variance.numpy(), layer.variance.numpy())
    np.testing.assert_array_equal(kept.mean.numpy(), layer.mean.numpy())


def test_an_unknown_shortcut_is_refused_with_the_known_ones():
    with pytest.raises(FathomError, match="shortcut must be one of projection, identity"):
        Residual("/cpu:0", {"shortcut": "none"})
