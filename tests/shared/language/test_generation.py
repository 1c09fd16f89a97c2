"""The choice of a token from logits."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.core.layers import PRNGKey
from fathom.shared.language.generation import Choice, Decoding
from fathom.testing.descriptors import descriptor

PROBABILITIES = [0.1, 0.5, 0.15, 0.25]


def drawn(**options):
    """Returns the different tokens among 2,000 that are chosen, in order."""
    settings = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, **options}
    choice = Choice(**settings, noise=PRNGKey(1, tf.Variable(0, dtype=tf.int64)))
    logits = tf.tile(tf.math.log([PROBABILITIES]), [2000, 1])
    return np.unique(choice(logits, position=3), return_counts=True)


def test_tokens_are_drawn_as_often_as_they_are_probable():
    tokens, counts = drawn()
    assert tokens.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(counts / 2000, PROBABILITIES, atol=0.04)


@pytest.mark.parametrize("among", [{"top_k": 1}, {"top_p": 0.5}])
def test_a_low_temperature_chooses_among_the_same_tokens(among):
    assert drawn(temperature=1e-10, **among)[0].tolist() == [1]


def test_each_token_is_chosen_at_the_position_after_the_last_one():
    read = []

    class Network:
        def decode_token(self, last, caches, position):
            return tf.stack([last, tf.fill(tf.shape(last), position)], 1), caches

    def choice(logits, position):  # the token is the position; the last one and its place are noted
        read.append(tf.concat([logits[0], [position]], 0))
        return tf.fill(tf.shape(logits)[:1], position)

    cache = tf.zeros([2, 1, 8, 1])
    tokens = Decoding(Network(), choice, prompt=5, new=4)(tf.constant([0, 0]), cache, cache)
    assert tokens.numpy().tolist() == [[0, 6, 7, 8]] * 2
    assert np.stack(read).tolist() == [[0, 5, 6], [6, 6, 7], [7, 7, 8]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 0.0}, [1]),
        ({"top_k": 2}, [1, 3]),
        ({"top_p": 0.3}, [1]),
        ({"top_p": 0.6}, [1, 3]),
        ({"top_p": 0.8}, [1, 2, 3]),
        ({"top_p": 0.95}, [0, 1, 2, 3]),
        ({"top_k": 3, "top_p": 0.5}, [1]),
    ],
)
def test_the_choice_is_among_the_most_probable(options, expected):
    assert drawn(**options)[0].tolist() == expected


def test_the_phases_of_a_run_are_not_those_of_the_run_before():
    model = descriptor("gpt").ready(True, layers=1, xla=False)
    assert model.run(n_steps=2, warmup=0).generation is not None
    assert model.run(lambda step, batch: None, n_steps=2).generation is None
