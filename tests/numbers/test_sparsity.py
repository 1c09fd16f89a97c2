import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.core.layers import Random
from fathom.core.training.optimizers import is_weight_matrix
from fathom.memnet.layers import Response
from fathom.modern.transformer.layers import FeedForward, Sizes
from fathom.numbers.sparsity import Observation, prune, savings
from fathom.residual.layers import NormalizedConvolution2D
from fathom.results import cost
from fathom.speech.layers import FrameLayer

X = tf.constant([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, -1.0, 3.0]])


@pytest.fixture
def network():
    inputs = keras.Input((4,), name="x")
    kernel = keras.initializers.Constant([[1, -1], [1, -1], [1, -1], [1, -1]])
    hidden = keras.layers.Dense(2, "relu", kernel_initializer=kernel, name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, name="out")(hidden))


def observe(network, x=X, weights=is_weight_matrix):
    """Returns the zeros of a training step."""
    observation = Observation(network, weights)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(x))
    tape.gradient(loss, network.trainable_variables)
    return observation.take()


def test_zeros_are_counted_by_layer(network):
    zeros = observe(network)
    assert zeros["x", "output"] == 4 / 8
    assert zeros["hidden", "output"] == 2 / 4  # the second unit never fires
    assert zeros["hidden", "gradient of output"] == 2 / 4  # nor passes it a gradient
    assert zeros["out", "gradient of output"] == 0
    assert zeros["hidden", "weights"] == 0


def test_a_gradient_passes_the_zeros_of_a_layer_that_does_not_rectify(network):
    network.get_layer("out").kernel.assign(tf.zeros([2, 3]))
    zeros = observe(network)
    assert zeros["out", "output"] == 1
    assert zeros["out", "gradient of output"] == 0


def test_no_gradient_is_zero_behind_a_normalization_and_many_are_behind_a_clipped_rectifier():
    inputs = keras.Input((4, 4, 1), name="x")
    layer = NormalizedConvolution2D(2, 3, 1, "glorot_uniform", 0.9, 1e-3, name="normalized")
    zeros = observe(keras.Model(inputs, keras.layers.ReLU()(layer(inputs))), tf.ones([2, 4, 4, 1]))
    assert zeros["normalized", "gradient of output"] == 0
    inputs = keras.Input((5, 4), name="x")
    outputs = FrameLayer(8, 20.0, keras.initializers.RandomNormal(seed=0), name="clipped")(inputs)
    zeros = observe(keras.Model(inputs, outputs), tf.ones([2, 5, 4]))
    assert zeros["clipped", "gradient of output"] == zeros["clipped", "output"] > 0


def test_a_skipper_saves_the_products_with_a_zero_factor(network):
    zeros = observe(network)
    table = savings(network, cost.count(network), zeros).set_index("layer")
    assert table["saved forward"].tolist() == [1 / 2, 1 / 2]
    hidden, out = table["saved in training"]
    assert hidden == pytest.approx((1 / 2 + 3 / 4) / 2)  # the input's gradient is not needed
    assert out == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    twice = [each.model_copy(update={"forward_passes": 2}) for each in cost.count(network).layers]
    table = savings(network, cost.Cost(tuple(twice), parameters=0), zeros).set_index("layer")
    assert table["saved in training"]["out"] == pytest.approx((2 * 1 / 2 + 1 / 2 + 0) / 4)
    prune(network.trainable_variables, 0.5)
    table = savings(network, cost.count(network), observe(network)).set_index("layer")
    assert table.weights.tolist() == [1 / 2, 1 / 2]


def test_both_factors_of_a_product_of_two_activations_have_zeros():
    p, c = keras.Input((4,), name="p"), keras.Input((4, 3), name="c")
    network = keras.Model([p, c], Response(name="o")(p, c))
    table = savings(network, cost.count(network), {("p", "output"): 1 / 2, ("c", "output"): 1 / 4})
    assert table["saved forward"].tolist() == [1 - 1 / 2 * 3 / 4]


def test_the_weights_of_a_layer_of_several_matrices_count_by_their_sizes():
    inputs = keras.Input((5, 4), name="x")
    layer = FeedForward(Sizes(4, 1, 12, 0.0), Random([1, 2], 0), name="fed")
    network = keras.Model(inputs, layer(inputs))
    layer.first.kernel.assign(tf.zeros([4, 12]))
    assert observe(network, tf.ones([2, 5, 4]))["fed", "weights"] == 1 / 2


def test_matrices_that_are_no_weights_do_not_count(network):
    zeros = observe(network, weights=lambda variable: "out" not in variable.path)
    assert ("hidden", "weights") in zeros
    assert ("out", "weights") not in zeros


def test_pruning_keeps_the_largest_weights_and_leaves_biases(network):
    kernel, bias = network.get_layer("out").kernel, network.get_layer("out").bias
    kernel.assign([[0.1, -0.2, 0.3], [-0.4, 0.5, -0.6]])
    bias.assign([0.01, 0.02, 0.03])
    prune(network.trainable_variables, 0.5)
    np.testing.assert_allclose(kernel, [[0, 0, 0], [-0.4, 0.5, -0.6]])
    np.testing.assert_allclose(bias, [0.01, 0.02, 0.03])


def test_int8_names_the_extra_that_it_lacks(monkeypatch):
    from fathom.numbers import int8

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FathomError, match=r"pip install 'fathom-workloads\[int8\]'"):
        int8.require_engine()
