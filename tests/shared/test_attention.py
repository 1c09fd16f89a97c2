"""Attention against the formula in NumPy, one query and head at a time."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.shared import attention


def draw(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_heads_are_split_and_merged():
    x = draw(2, 5, 12)
    split = attention.split_heads(tf.constant(x), 3)
    assert split.shape == (2, 3, 5, 4)
    np.testing.assert_array_equal(split[1, 2, 4], x[1, 4, 8:])
    np.testing.assert_array_equal(attention.merge_heads(split), x)


@pytest.mark.parametrize("masked", [False, True])
def test_weights_follow_the_formula(masked):
    queries, keys = draw(2, 3, 4, 8), draw(2, 3, 6, 8) * 2
    mask = attention.causal_mask(4, 6) if masked else None
    weights = attention.attention_weights(tf.constant(queries), tf.constant(keys), mask).numpy()
    for q in range(4):
        seen = 6 - 4 + q + 1 if masked else 6
        scores = np.exp(queries[1, 2, q] @ keys[1, 2, :seen].T / np.sqrt(8))
        np.testing.assert_allclose(weights[1, 2, q, :seen], scores / scores.sum(), rtol=1e-5)
        assert not weights[1, 2, q, seen:].any()


def test_a_token_is_written_into_the_cache():
    cache, new = draw(2, 3, 6, 4), draw(2, 3, 1, 4)
    written = attention.write(tf.constant(cache), tf.constant(new), tf.constant(2)).numpy()
    np.testing.assert_array_equal(written[:, :, 2:3], new)
    np.testing.assert_array_equal(np.delete(written, 2, 2), np.delete(cache, 2, 2))
