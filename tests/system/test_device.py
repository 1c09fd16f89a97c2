import keras
import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.system import device


@pytest.mark.parametrize("name", ["cpu", "/cpu:0", "CPU:0", "/device:CPU:0"])
def test_the_cpu_has_several_names(name):
    assert device.select_device(name) == "/cpu:0"


@pytest.mark.parametrize("name", ["tpu", "gpu:x", "cpu:1", "gpu:99", ""])
def test_a_device_that_is_not_there_is_an_error(name):
    with pytest.raises(FathomError, match="device"):
        device.select_device(name)


def test_threads_cannot_change_once_tensorflow_runs():
    tf.zeros([1]).numpy()
    current = device.set_threads(None)
    assert device.set_threads(current) == current
    with pytest.raises(FathomError, match=f"threads={current + 1} comes too late"):
        device.set_threads(current + 1)


def test_the_precision_holds_for_the_block_alone():
    before = keras.config.dtype_policy()
    with device.computing_in("bfloat16"):
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    assert keras.config.dtype_policy() == before
