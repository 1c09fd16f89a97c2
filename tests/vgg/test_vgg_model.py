import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import VGG, FathomError, VGGFwd
from fathom.imagenet import input as pipeline

SMALL = {"base_filters": 2, "hidden_units": 8, "classes": 5, "image_size": 32}

TABLE_1 = {  # the maps of configuration E for a 224 x 224 image, and the number of layers
    "conv1": (224, 64, 2),
    "conv2": (112, 128, 2),
    "conv3": (56, 256, 4),
    "conv4": (28, 512, 4),
    "conv5": (14, 512, 4),
}


def test_every_layers_output_has_the_shape_of_the_papers_table():
    model = VGGFwd("/cpu:0")
    model.build()
    shapes = {layer.name: layer.output_shape for layer in model.cost().layers}
    expected = {}
    for block, (side, filters, depth) in enumerate(TABLE_1.values(), 1):
        expected |= {f"conv{block}_{i}": (side, side, filters) for i in range(1, depth + 1)}
        expected[f"pool{block}"] = (side // 2, side // 2, filters)
    expected["flatten"] = (7 * 7 * 512,)
    for name in ("fc6", "fc7"):
        expected |= {name: (4096,), f"{name}_dropout": (4096,)}
    expected["fc8"] = (1000,)
    assert shapes == expected


def test_the_logits_are_those_of_keras_vgg19_with_the_same_weights():
    model = VGGFwd("/cpu:0", {"image_size": 64})  # with 224 pixels fc6 alone has 0.4 GB
    model.build()
    theirs = keras.applications.VGG19(
        weights=None, input_shape=(64, 64, 3), classifier_activation=None
    )
    theirs.set_weights(model.network.get_weights())
    image = np.random.default_rng(0).uniform(-120, 130, (1, 64, 64, 3)).astype(np.float32)
    ours = model.network(image, training=False).numpy()
    assert ours.std() > 0.01
    np.testing.assert_allclose(ours, theirs(image, training=False), rtol=1e-4, atol=1e-5)


def test_weights_begin_as_glorot_and_bengio_say_and_biases_at_zero():
    model = VGGFwd("/cpu:0", SMALL | {"base_filters": 32, "hidden_units": 200})
    model.build()
    for variable in model.network.variables:
        if variable.name == "bias":
            assert not variable.numpy().any()
            continue
        *window, fan_in, fan_out = variable.shape
        limit = np.sqrt(6 / (np.prod(window, initial=1) * (fan_in + fan_out)))
        assert np.abs(variable.numpy()).max() == pytest.approx(limit, rel=0.05)
        assert variable.numpy().std() == pytest.approx(limit / np.sqrt(3), rel=0.1)


def test_dropout_follows_both_hidden_layers_in_training_alone():
    model = VGG("/cpu:0", SMALL | {"dropout": 0.9, "hidden_units": 100})
    model.build()
    hidden = [model.network.get_layer(f"{name}_dropout").output for name in ("fc6", "fc7")]
    outputs = keras.Model(model.inputs, hidden)
    image = tf.random.stateless_normal([1, 32, 32, 3], [0, 0], stddev=60)
    for training, inference in zip(
        outputs(image, training=True), outputs(image, training=False), strict=True
    ):
        assert np.count_nonzero(training) < 0.5 * np.count_nonzero(inference)


def test_an_image_too_small_for_five_poolings_is_refused():
    with pytest.raises(FathomError, match="image_size must be at least 32"):
        VGG("/cpu:0", SMALL | {"image_size": 31})


def test_inference_scales_images_as_the_evaluation_does(monkeypatch):
    model = VGGFwd("/cpu:0", SMALL | {"evaluation_side": 48, "smallest_side": 32, "classes": 10})
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "training_batches", lambda *given, **_: seen.append(given) or [])
        model.load_data()
        list(model.inference_batches())
    assert seen[0][3].shorter_side == (48, 48)
