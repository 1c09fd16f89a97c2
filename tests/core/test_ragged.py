"""Products of ragged groups against NumPy, in both forms."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.core import ragged


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("sizes", [[3, 0, 7, 5], [0, 0, 0, 15], [4, 4, 2, 1], [0, 0, 0, 0]])
def test_products_and_gradients_are_those_of_each_group(sizes, compiled):
    rng = np.random.default_rng(0)
    rows, upstream = rng.normal(size=(15, 6)), rng.normal(size=(15, 5))
    matrices = rng.normal(size=(4, 6, 5))

    @tf.function(jit_compile=compiled, autograph=False)
    def compute(rows, sizes, upstream, *matrices):
        with tf.GradientTape() as tape:
            tape.watch([rows, *matrices])
            result = ragged.product(rows, sizes, matrices)
        return [result, *tape.gradient(result, [rows, *matrices], upstream)]

    given = [tf.constant(each, tf.float32) for each in (rows, upstream, *matrices)]
    found = compute(given[0], tf.constant(sizes), *given[1:])
    result, of_rows, *of_matrices = (each.numpy() for each in found)
    expected, slope, end = np.zeros((15, 5)), np.zeros((15, 6)), 0
    for size, matrix, gradient in zip(sizes, matrices, of_matrices, strict=True):
        own = slice(end, end + size)
        expected[own], slope[own] = rows[own] @ matrix, upstream[own] @ matrix.T
        np.testing.assert_allclose(gradient, rows[own].T @ upstream[own], rtol=1e-4, atol=1e-5)
        end += size
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_rows, slope, rtol=1e-4, atol=1e-5)
