import keras
from keras import layers

from fathom import cost
from fathom.layers import Convolution2D


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


def test_training_needs_no_gradient_for_the_networks_input():
    total = cost.count(network())
    convolution, dense = 8 * 8 * 6 * 18, 960
    assert total.forward_macs == convolution + dense
    assert total.training_macs == 2 * convolution + 3 * dense
    assert total.parameters == 3 * 3 * 2 * 6 + 6 + 96 * 10 + 10
