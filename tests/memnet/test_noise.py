import numpy as np
import pytest
import tensorflow as tf

from fathom.core.layers import PRNGKey
from fathom.memnet.noise import gaps, most_empty


def drawn(lengths, share, seed=0, memory=50):
    """Returns the gaps of stories with some numbers of sentences, one word each."""
    story = (np.arange(memory) < np.array(lengths)[:, None]).astype(np.int32)[..., None]
    draws = PRNGKey(seed, tf.Variable(7, dtype=tf.int64)).uniform(
        tf.constant([len(lengths), 1 + most_empty(memory, share)])
    )
    return gaps(tf.constant(story), share, draws).numpy()


def test_gaps_add_up_from_the_newest_sentence_to_the_oldest():
    assert (np.diff(drawn([10] * 50, 0.3)) >= 0).all()


def test_up_to_a_tenth_of_the_sentences_rounded_up_are_empty_memories():
    for length, most in ((5, 1), (10, 1), (11, 2), (40, 4), (50, 5)):
        numbers = drawn([length] * 400, 0.1)[:, length - 1]  # in front of the oldest
        assert numbers.min() == 0
        assert numbers.max() == most


def test_every_number_of_empty_memories_is_as_likely():
    seen = drawn([20] * 3000, 0.1)[:, 19]
    # Behind the oldest of 20 sentences: one place of 21.
    assert seen.mean() == pytest.approx(1 * 20 / 21, abs=0.05)


def test_the_same_seed_draws_the_same_and_another_seed_others():
    first = drawn([20] * 30, 0.2, seed=1)
    np.testing.assert_array_equal(drawn([20] * 30, 0.2, seed=1), first)
    assert (drawn([20] * 30, 0.2, seed=2) != first).any()


def test_without_a_share_there_are_no_gaps():
    assert not drawn([20] * 3, 0.0).any()
