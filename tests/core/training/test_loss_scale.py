import numpy as np
import pytest
import tensorflow as tf

from fathom.core.training.loss_scale import LossScale
from fathom.core.training.optimizers import GradientDescent, Momentum


def scaled(optimizer, *values):
    """Returns an optimizer with a loss scale, and the variable that it was built for."""
    variable = tf.Variable(values)
    optimizer.loss_scale = LossScale()
    optimizer.build([variable])
    return optimizer, variable


@pytest.mark.parametrize("jit", [False, True], ids=["op by op", "XLA"])
def test_a_step_with_an_infinite_gradient_is_skipped_and_halves_the_loss_scale(jit):
    optimizer, variable = scaled(Momentum(0.1, 0.9), 1.0, 2.0)
    start = optimizer.loss_scale.value.numpy()

    @tf.function(jit_compile=jit)
    def step(gradient):
        optimizer.apply([gradient], [variable])

    step(tf.constant([1.0, float("inf")]))
    np.testing.assert_array_equal(variable, [1.0, 2.0])
    np.testing.assert_array_equal(optimizer.slots["velocity"][0], [0.0, 0.0])
    assert optimizer.loss_scale.value.numpy() == start / 2

    step(optimizer.scale(tf.constant([1.0, 1.0])))
    np.testing.assert_allclose(variable, [0.9, 1.9], rtol=1e-6)
    assert optimizer.loss_scale.value.numpy() == start / 2


def test_the_loss_scale_doubles_after_enough_good_steps(monkeypatch):
    optimizer, variable = scaled(GradientDescent(0.1), 1.0)
    monkeypatch.setattr(optimizer.loss_scale, "growth_interval", 3)
    start = optimizer.loss_scale.value.numpy()
    scales = []
    for _ in range(7):
        optimizer.apply([tf.zeros([1])], [variable])
        scales.append(optimizer.loss_scale.value.numpy() / start)
    assert scales == [1, 1, 2, 2, 2, 4, 4]


def test_the_loss_scale_falls_no_lower_than_1():
    optimizer, variable = scaled(GradientDescent(0.1), 1.0)
    for _ in range(20):
        optimizer.apply([tf.constant([float("inf")])], [variable])
    assert optimizer.loss_scale.value.numpy() == 1


def test_a_sparse_gradient_is_divided_by_the_loss_scale_too():
    optimizer, variable = scaled(GradientDescent(0.1), [1.0], [2.0], [3.0])
    gradient = tf.IndexedSlices(optimizer.scale(tf.constant([[1.0]])), tf.constant([1]), [3, 1])
    optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(variable, [[1.0], [1.9], [3.0]], rtol=1e-6)


def test_xla_on_a_gpu_reaches_the_variables():
    assert {each.dtype for each in LossScale().variables} == {tf.float32, tf.int64}
