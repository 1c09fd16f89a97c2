import math

import keras
import pytest
from keras import layers

from fathom import workloads
from fathom.core.layers import Convolution2D
from fathom.results import cost
from fathom.testing.descriptors import descriptor


def network():
    images = keras.Input((8, 8, 4))
    x = Convolution2D(6, 3, groups=2, padding="same", name="convolution")(images)
    x = layers.MaxPooling2D(2, name="pool")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(images, layers.Dense(10, name="dense")(x))


def test_layers_are_counted_by_hand():
    counted = {layer.name: layer for layer in cost.count(network()).layers}
    assert counted["convolution"].macs == 8 * 8 * 6 * (3 * 3 * 2)
    assert counted["convolution"].parameters == 3 * 3 * 2 * 6 + 6
    assert counted["convolution"].activations == 8 * 8 * 6
    assert counted["pool"].macs == 0
    assert counted["pool"].output_shape == (4, 4, 6)
    assert counted["dense"].macs == 96 * 10


@pytest.mark.parametrize(
    ("shape", "layer", "macs"),
    [
        ((10, 4), layers.Conv1D(6, 3, groups=2), 8 * 6 * (3 * 2)),
        ((5, 5, 5, 2), layers.Conv3D(3, 2), 4**3 * 3 * (2**3 * 2)),
        ((10, 4), layers.DepthwiseConv1D(3, depth_multiplier=2), 8 * 8 * 3),
        ((8, 8, 4), layers.DepthwiseConv2D((3, 1)), 6 * 8 * 4 * 3),
    ],
)
def test_convolutions_of_all_kinds_are_counted(shape, layer, macs):
    images = keras.Input(shape)
    assert cost.count(keras.Model(images, layer(images))).forward_macs == macs


class Recurrence(layers.Layer):
    """A layer that reports its own multiply-accumulates, of one of the steps."""

    macs = 7

    def call(self, x):
        return x


def test_a_layer_over_an_unknown_length_counts_once_for_each_of_its_steps():
    sequence = keras.Input((None, 4))
    counted = cost.count(keras.Model(sequence, Recurrence()(sequence)), length=5).layers[0]
    assert (counted.macs, counted.output_shape, counted.activations) == (5 * 7, (5, 4), 5 * 4)
    image = keras.Input((3, 4))
    assert cost.count(keras.Model(image, Recurrence()(image)), length=5).forward_macs == 7


def test_training_needs_no_gradient_for_the_networks_input():
    total = cost.count(network())
    convolution, dense = 8 * 8 * 6 * 18, 960
    assert total.forward_macs == convolution + dense
    assert total.training_macs == 2 * convolution + 3 * dense
    assert total.parameters == 3 * 3 * 2 * 6 + 6 + 96 * 10 + 10


def test_what_has_no_weights_passes_the_input_on_so_that_training_needs_no_gradient_after_it():
    pixels = keras.Input((8, 8, 4), dtype="uint8")
    x = keras.ops.flip(layers.Rescaling(1 / 255, name="scale")(pixels), 1)
    x = layers.Conv2D(6, 3, padding="same", name="first")(x)
    x = layers.Activation("relu", name="relu")(x)
    counted = cost.count(keras.Model(pixels, layers.Conv2D(2, 1, name="second")(x)))
    assert {layer.name for layer in counted.layers if layer.reads_input} == {"scale", "first"}
    first, second = 8 * 8 * 6 * (3 * 3 * 4), 8 * 8 * 2 * 6
    assert counted.training_macs == 2 * first + 3 * second


def test_a_layer_that_reads_an_input_beside_what_was_learned_needs_the_gradient_of_that():
    left, right = keras.Input((4,)), keras.Input((4,))
    learned = layers.Dense(4, name="learned")(left)
    joined = layers.Dense(3, name="after")(layers.Concatenate(name="join")([learned, right]))
    counted = cost.count(keras.Model([left, right], joined))
    assert {layer.name for layer in counted.layers if layer.reads_input} == {"learned"}
    assert counted.training_macs == 2 * 4 * 4 + 3 * 8 * 3


def test_a_layer_that_a_training_step_runs_forward_twice_counts_once_more():
    counted = cost.count(network()).layers[0]
    twice = counted.model_copy(update={"forward_passes": 2})
    assert twice.training_macs == counted.training_macs + counted.macs


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("autoenc", "deepq", "memnet")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in workloads.EIGHT
    ],
)
def test_the_counted_activations_are_those_of_a_real_batch(name):
    model = descriptor(name).model()
    model.setup()
    of_any_length = name == "speech"
    batch = next(b for b in model.training_batches(0) if of_any_length or nominal(model, b))
    layers = [x for x in model.network.layers if not isinstance(x, keras.layers.InputLayer)]
    outputs = [keras.tree.flatten(layer.output)[0] for layer in layers]
    n_inputs = len(keras.tree.flatten(model.inputs))
    inputs = keras.tree.pack_sequence_as(model.inputs, list(batch[:n_inputs]))
    values = keras.Model(model.inputs, outputs)(inputs, training=False)
    counted = {layer.name: layer.activations for layer in model.cost().layers}
    for layer, value in zip(layers, values, strict=True):
        examples = model.hyperparameters.batch_size * model.work(*batch)
        assert math.prod(value.shape) == pytest.approx(counted[layer.name] * examples), layer.name


def nominal(model, batch):
    """Whether a batch has the lengths for which the cost is stated."""
    return model.work(*batch) == 1
