"""Tensors on the memory of arrays."""

import numpy as np
import pytest

from fathom.deepq.sharing import aligned_copy, aligned_empty, shared


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, bool])
def test_a_tensor_has_the_arrays_values_wherever_it_begins(dtype):
    numbers = np.arange(200).astype(dtype)
    for start in range(3):
        tensor = shared(numbers[start:])
        assert tensor.dtype.as_numpy_dtype == np.dtype(dtype)
        np.testing.assert_array_equal(tensor, numbers[start:])


def test_an_aligned_array_is_shared_and_not_copied():
    array = aligned_empty((3, 5), np.uint8)
    array[:] = 1
    tensor = shared(array)
    array[0, 0] = 7
    assert tensor.numpy()[0, 0] == 7


def test_an_aligned_copy_does_not_change_with_the_array():
    array = np.ones((3, 5), np.uint8)
    tensor = shared(aligned_copy(array))
    array[:] = 2
    assert tensor.numpy().max() == 1
