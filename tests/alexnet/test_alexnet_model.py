import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import AlexNet, workloads
from fathom.system import processor
from fathom.system.processor import Choice

SMALL = workloads.descriptor("alexnet").small


@pytest.fixture(scope="module")
def full_size():
    model = AlexNet("/cpu:0")
    model.build()
    return model


def test_every_layer_has_the_papers_output_shape(full_size):
    shapes = {layer.name: layer.output_shape for layer in full_size.cost().layers}
    assert shapes == {
        "conv1": (55, 55, 96),
        "norm1": (55, 55, 96),
        "pool1": (27, 27, 96),
        "conv2": (27, 27, 256),
        "norm2": (27, 27, 256),
        "pool2": (13, 13, 256),
        "conv3": (13, 13, 384),
        "conv4": (13, 13, 384),
        "conv5": (13, 13, 256),
        "pool5": (6, 6, 256),
        "flatten": (9216,),
        "fc6": (4096,),
        "fc6_dropout": (4096,),
        "fc7": (4096,),
        "fc7_dropout": (4096,),
        "fc8": (1000,),
    }


def test_weights_and_biases_start_as_section_5_says(full_size):
    for layer in ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8"):
        kernel, bias = (v.numpy() for v in full_size.network.get_layer(layer).trainable_variables)
        assert kernel.std() == pytest.approx(0.01, rel=0.02), layer
        assert abs(kernel.mean()) < 1e-3, layer
        ones = layer in ("conv2", "conv4", "conv5", "fc6", "fc7")
        np.testing.assert_array_equal(bias, np.full_like(bias, ones))


def test_no_two_layers_start_with_the_same_weights(full_size):
    first = [v.numpy().flat[0] for v in full_size.network.trainable_variables if "kernel" in v.path]
    assert len(set(first)) == len(first)


def test_the_logits_are_those_of_two_towers_computed_apart():
    model = AlexNet("/cpu:0", {**SMALL, "initial_stddev": 0.05})
    model.build()
    weights = {v.path: v.numpy() for v in model.network.trainable_variables}
    images = np.random.default_rng(0).normal(size=(2, 67, 67, 3)).astype(np.float32)

    def convolve(x, name, strides=1, padding="SAME"):
        x = tf.nn.conv2d(x, weights[f"{name}/kernel"], strides, padding)
        return tf.nn.relu(x + weights[f"{name}/bias"])

    def convolve_apart(x, name):
        towers = zip(
            np.split(x, 2, 3),
            np.split(weights[f"{name}/kernel"], 2, 3),
            np.split(weights[f"{name}/bias"], 2),
            strict=True,
        )
        return np.concatenate(
            [tf.nn.relu(tf.nn.conv2d(a, kernel, 1, "SAME") + bias) for a, kernel, bias in towers], 3
        )

    def normalize(x):
        squares = np.pad(x.numpy() ** 2 if tf.is_tensor(x) else x**2, [(0, 0)] * 3 + [(2, 2)])
        channels = x.shape[-1]
        sums = sum(squares[..., i : i + channels] for i in range(5))
        return np.asarray(x) / (2 + 1e-4 * sums) ** 0.75

    def pool(x):
        return tf.nn.max_pool2d(x, 3, 2, "VALID").numpy()

    x = pool(normalize(convolve(images, "conv1", 4, "VALID")))
    x = pool(normalize(convolve_apart(x, "conv2")))
    x = convolve(x, "conv3").numpy()
    x = pool(convolve_apart(convolve_apart(x, "conv4"), "conv5")).reshape(2, -1)
    for name in ("fc6", "fc7"):
        x = np.maximum(x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"], 0)
    x = x @ weights["fc8/kernel"] + weights["fc8/bias"]
    np.testing.assert_allclose(model.network(images), x, rtol=1e-4, atol=1e-5)


def test_each_step_drops_other_hidden_units():
    model = AlexNet("/cpu:0", SMALL)
    model.build()
    probe = keras.Model(model.inputs, model.network.get_layer("fc6_dropout").output)
    images = tf.ones([1, 67, 67, 3])
    first = probe(images, training=True).numpy()
    np.testing.assert_array_equal(probe(images, training=True), first)
    model.noise_step.assign_add(1)
    assert (probe(images, training=True).numpy() != first).any()


def test_biases_do_not_decay():
    model = AlexNet("/cpu:0", SMALL)
    model.build()
    decayed = [v.path for v in model.network.trainable_variables if model.optimizer._decayed(v)]
    assert all(path.endswith("kernel") for path in decayed)
    assert len(decayed) == 8


@pytest.mark.slow
def test_the_description_is_the_same_where_training_computes_the_groups_apart(monkeypatch):
    def described():
        model = AlexNet("/cpu:0", SMALL)
        model.setup()
        types = [operation.type for operation in model.model().get_operations()]
        rows = [(row.type, row.layer, row.bounds) for row in model.describe().operations]
        return types.count("Conv2D"), rows

    monkeypatch.setattr(processor, "choice", lambda: Choice(True, "user"))
    convolutions, expected = described()
    assert convolutions == 5
    monkeypatch.setattr(processor, "choice", lambda: Choice(False, "user"))
    convolutions, rows = described()
    assert convolutions == 5 + 3
    assert rows == expected
