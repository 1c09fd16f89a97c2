import gc
import weakref

import pytest
import tensorflow as tf

from fathom.core.training.custom_gradients import CustomGradients, notes_gradients


@tf.custom_gradient
def double(x):
    return 2 * x, lambda d_y: 2 * d_y


class Owner:
    def __init__(self):
        self.custom_gradients = CustomGradients(self)
        self.variable = tf.Variable([1.0, 2.0])

    @notes_gradients
    def trace(self):
        function = tf.function(lambda x: double(self.variable * x), autograph=False)
        return function.get_concrete_function(tf.TensorSpec([2])).graph


@pytest.mark.parametrize("forget", [lambda owner: owner.custom_gradients.forget(), lambda _: None])
def test_a_graph_is_freed_with_its_owner_or_when_told(forget):
    owner = Owner()
    graph = weakref.ref(owner.trace())
    gc.collect()
    assert graph() is not None  # what this module is for
    forget(owner)
    del owner
    gc.collect()
    assert graph() is None


def test_the_gradients_of_others_are_kept():
    mine, other = Owner(), Owner()
    graph = other.trace()
    mine.trace()
    mine.custom_gradients.forget()
    with graph.as_default():
        (d_x,) = tf.gradients(graph.outputs, graph.inputs[:1])
    assert d_x is not None
