import keras
import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.core.training import footprint
from fathom.core.training.footprint import bytes_needed, require_memory
from fathom.system import memory

BATCH = [tf.TensorSpec((10, 8), tf.float32)]


def network():
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(100, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(4)(hidden))


def test_training_takes_all_activations_and_the_largest_gradient():
    needed = 3 * 4 * 10 * 8 + 4 * 10 * (100 + 4) + 4 * 9 * 100
    assert bytes_needed(network(), BATCH, 1, blocks=3, trains=True) == needed


def test_inference_takes_the_largest_activation_and_the_outputs_of_a_block():
    inputs, outputs = 2 * 5 * 4 * 10 * 8, 5 * 4 * 10 * 4
    assert (
        bytes_needed(network(), BATCH, 5, blocks=2, trains=False) == inputs + 4 * 10 * 100 + outputs
    )


def test_a_dimension_of_any_length_counts_as_one():
    inputs = keras.Input((None, 8))
    any_length = keras.Model(inputs, keras.layers.Dense(4)(inputs))
    batch = [tf.TensorSpec((10, None, 8), tf.float32)]
    needed = 4 * 10 * 8 + 4 * 10 * 4 + 4 * 10 * 4
    assert bytes_needed(any_length, batch, 1, blocks=1, trains=False) == needed


def test_an_address_space_limit_needs_room_for_kernels_and_threads(monkeypatch):
    monkeypatch.setattr(memory, "_limits", lambda: iter([(2**20, "")]))
    require_memory("tiny", network(), BATCH, 1, blocks=3, trains=True)
    monkeypatch.setattr(footprint, "address_space", lambda: 5 * 2**30)
    with pytest.raises(FathomError, match=r"a step of tiny .* \(0\.5 GiB\).*smaller --batch-size"):
        require_memory("tiny", network(), BATCH, 1, blocks=3, trains=True)
