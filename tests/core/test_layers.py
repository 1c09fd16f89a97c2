import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from fathom.core.layers import (
    Convolution2D,
    Dropout,
    LocalResponseNormalization,
    PRNGKey,
    Random,
    add_bias,
    standardize,
)


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(2, 5, 5, 12)).astype(np.float32)


def normalized(x, alpha):
    squares = np.pad(x**2, [(0, 0)] * 3 + [(2, 2)])
    return x / (2 + alpha * sum(squares[..., i : i + x.shape[-1]] for i in range(5))) ** 0.75


@pytest.mark.parametrize("compiled", [True, False])
def test_response_normalisation_is_the_papers_formula(images, compiled):
    layer = LocalResponseNormalization(n=5, k=2, alpha=0.3, compiled=compiled)
    np.testing.assert_allclose(layer(images), normalized(images, 0.3), rtol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_gradient_of_response_normalisation_is_that_of_finite_differences(images, compiled):
    layer = LocalResponseNormalization(n=5, k=2, alpha=0.3, compiled=compiled)
    rng = np.random.default_rng(1)
    x, direction, dy = (
        tf.constant(images),
        rng.normal(size=images.shape),
        rng.normal(size=images.shape),
    )
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    gradient = tape.gradient(y, x, tf.constant(dy, tf.float32)).numpy()
    x = images.astype(np.float64)
    change = (normalized(x + 1e-5 * direction, 0.3) - normalized(x - 1e-5 * direction, 0.3)) / 2e-5
    assert (gradient * direction).sum() == pytest.approx((dy * change).sum(), rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_grouped_convolution_is_one_convolution_a_group(images, dtype):
    layer = Convolution2D(6, 3, groups=2, padding="same", dtype=dtype, use_bias=False)
    grouped = tf.cast(layer(images), tf.float32)
    x, kernel = tf.cast(images, dtype), tf.cast(layer.kernel.value, dtype)
    towers = [
        tf.nn.conv2d(x[..., :6], kernel[..., :3], 1, "SAME"),
        tf.nn.conv2d(x[..., 6:], kernel[..., 3:], 1, "SAME"),
    ]
    tolerance = 1e-5 if dtype == "float32" else 0.02
    expected = tf.cast(tf.concat(towers, 3), tf.float32)
    np.testing.assert_allclose(grouped, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_of_a_bias_counts_every_row(dtype, compiled):
    @tf.function(autograph=False, jit_compile=compiled)
    def gradient(bias):
        with tf.GradientTape() as tape:
            tape.watch(bias)
            y = add_bias(tf.zeros([4096, 3], dtype), tf.cast(bias, dtype))
            total = tf.reduce_sum(tf.cast(y, tf.float32))
        return tape.gradient(total, bias)

    np.testing.assert_array_equal(gradient(tf.zeros(3)), 4096)


def test_dropout_keeps_the_expected_value_and_leaves_inference_alone():
    layer = Dropout(0.25, PRNGKey(1, tf.Variable(0, dtype=tf.int64)))
    ones = tf.ones([400, 400])
    dropped = layer(ones, training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    assert dropped.mean() == pytest.approx(1, abs=0.01)
    np.testing.assert_array_equal(layer(ones, training=False), ones)


def test_noise_differs_from_step_to_step_and_layer_to_layer_and_repeats():
    step = tf.Variable(0, dtype=tf.int64)
    one, other = PRNGKey(1, step), PRNGKey(2, step)
    first = one.tensor().numpy().tolist()
    assert other.tensor().numpy().tolist() != first
    step.assign(1)
    assert one.tensor().numpy().tolist() != first
    step.assign(0)
    assert one.tensor().numpy().tolist() == first


WITHOUT_ONEDNN = """
import tensorflow as tf
from fathom.core.layers import Convolution2D
layer = Convolution2D(6, 3, groups=2, activation="relu")
tf.function(layer)(tf.ones((1, 5, 5, 4)))
"""


@pytest.mark.slow
def test_a_grouped_convolution_with_bias_and_activation_runs_without_onednn():
    command = [sys.executable, "-c", WITHOUT_ONEDNN]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"}
    subprocess.run(command, check=True, timeout=300, env=environment)


def test_random_numbers_of_a_loaded_layer_are_those_that_its_parts_had():
    seeds, step = iter([7, 3, 9]), tf.Variable(5, dtype=tf.int64)
    random = Random(seeds, step)
    first, key = random.new_seed(), random.new_noise()
    loaded = Random.from_config(random.get_config())
    assert next(seeds) == 9  # the next layer's
    assert (first, loaded.new_seed()) == (7, 7)
    np.testing.assert_array_equal(loaded.new_noise().tensor(), key.tensor())


@pytest.mark.parametrize("centre", [True, False])
def test_the_gradient_of_a_normalisation_is_that_of_its_formula_and_a_single_term(centre):
    x = tf.constant(np.random.default_rng(0).normal(1, 2, (3, 7)), tf.float32)
    upstream = tf.constant(np.random.default_rng(1).normal(size=(3, 7)), tf.float32)

    def by_formula(x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True) if centre else x
        return centred / tf.sqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 0.01)

    def gradient(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, upstream)

    def ours():
        return gradient(lambda x: standardize(x, 0.01, centre))

    traced = tf.function(ours, autograph=False).get_concrete_function()
    for found, expected in zip(traced(), gradient(by_formula), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert "AddN" not in {operation.type for operation in traced.graph.get_operations()}
