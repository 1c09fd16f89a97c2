import numpy as np
import pytest
import tensorflow as tf

from fathom.memnet.noise import with_empty_memories


def noisy(lengths, share, seed=0, memory=50):
    """Returns stories of one word a sentence, numbered from 1, with noise."""
    story = np.zeros((len(lengths), memory, 1), np.int32)
    for row, length in zip(story, lengths, strict=True):
        row[:length, 0] = 1 + np.arange(length)
    seeds = tf.constant([seed, 7], tf.int64)
    return with_empty_memories(tf.constant(story), tf.constant(lengths), share, seeds).numpy()


def test_sentences_keep_their_order_and_none_is_lost_while_there_is_room():
    for story in noisy([10] * 50, 0.3)[..., 0]:
        assert story[story > 0].tolist() == list(range(1, 11))


def test_up_to_a_tenth_of_the_sentences_rounded_up_are_empty_memories():
    for length, most in ((5, 1), (10, 1), (11, 2), (40, 4)):
        stories = noisy([length] * 400, 0.1)[..., 0]
        empty = [np.flatnonzero(story)[-1] + 1 - length for story in stories]
        # those behind the oldest sentence are not seen here
        assert min(empty) == 0
        assert max(empty) == most


def test_every_number_of_empty_memories_is_as_likely():
    stories = noisy([20] * 3000, 0.1)[..., 0]
    # Behind the oldest of 20 sentences: one place of 21.
    seen = np.array([np.flatnonzero(story)[-1] + 1 - 20 for story in stories])
    assert seen.mean() == pytest.approx(1 * 20 / 21, abs=0.05)


def test_sentences_that_find_no_place_are_forgotten_the_oldest_first():
    for story in noisy([50] * 20, 0.1)[..., 0]:
        told = story[story > 0]
        assert len(story) == 50
        assert told.tolist() == list(range(1, len(told) + 1))
        assert 45 <= len(told) <= 50


def test_the_same_seed_draws_the_same_and_another_seed_others():
    first = noisy([20] * 30, 0.2, seed=1)
    np.testing.assert_array_equal(noisy([20] * 30, 0.2, seed=1), first)
    assert (noisy([20] * 30, 0.2, seed=2) != first).any()


def test_without_a_share_nothing_moves():
    story = noisy([20] * 3, 0.0)[..., 0]
    assert (story[:, :20] == np.arange(1, 21)).all()
