import itertools

import numpy as np
import pytest
import tensorflow as tf

from fathom.speech.input import Feed, OrderByLength
from fathom.speech.timit import Utterances

FRAMES = np.array([9, 3, 7, 3, 12, 5, 4, 8, 6, 10, 2], np.int32)


@pytest.fixture(scope="module")
def part():
    counts = np.maximum(1, FRAMES // 2)
    return Utterances(
        names=tuple(map(str, FRAMES)),
        features=np.repeat(np.arange(len(FRAMES)), FRAMES)[:, None] + np.ones((1, 26), np.float32),
        frames=FRAMES,
        labels=np.repeat(np.arange(len(FRAMES)), counts).astype(np.int32),
        label_lengths=counts,
    )


def epoch_of(order, epoch):
    steps = order.steps_per_epoch
    indices = [order.indices(tf.constant(epoch * steps + i, tf.int64)) for i in range(steps)]
    return np.array(indices)


def test_a_batch_holds_utterances_of_like_lengths_and_an_epoch_none_of_them_twice():
    order = OrderByLength(len(FRAMES), 3, seed=4, lengths=FRAMES)
    batches = epoch_of(order, 0)
    assert batches.shape == (3, 3)
    assert len(np.unique(batches)) == 9
    spans = sorted((FRAMES[batch].min(), FRAMES[batch].max()) for batch in batches)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_every_epoch_has_an_order_of_its_own_and_the_seed_fixes_all():
    first, other = (OrderByLength(len(FRAMES), 3, seed, lengths=FRAMES) for seed in (4, 5))
    assert (epoch_of(first, 0) != epoch_of(first, 1)).any()
    assert (epoch_of(first, 0) != epoch_of(other, 0)).any()
    again = OrderByLength(len(FRAMES), 3, seed=4, lengths=FRAMES)
    np.testing.assert_array_equal(epoch_of(first, 1), epoch_of(again, 1))


def test_in_turn_the_short_utterances_come_first():
    order = OrderByLength(len(FRAMES), 4, seed=0, shuffle=False, lengths=FRAMES)
    assert FRAMES[order.indices(tf.constant(0, tf.int64))].tolist() == [2, 3, 3, 4]


def test_a_batch_is_as_long_as_its_longest_utterance_and_filled_up_with_zeros(part):
    features, frames, phones, counts = Feed(part, 2, seed=0).load(tf.constant([6, 5]))
    assert features.shape == (2, 5, 26)
    assert frames.numpy().tolist() == [4, 5]
    assert features[:, :, 0].numpy().tolist() == [[7, 7, 7, 7, 0], [6] * 5]
    assert phones.numpy().tolist() == [[6, 6], [5, 5]]
    assert counts.numpy().tolist() == [2, 2]
    assert frames.dtype == phones.dtype == counts.dtype == tf.int32


def test_a_stream_can_begin_at_any_step(part):
    feed = Feed(part, 3, seed=1)
    batches = list(itertools.islice(feed.shuffled(0), 5))
    later = next(feed.shuffled(4))
    for ours, theirs in zip(batches[4], later, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_each_test_utterance_is_evaluated_once(part):
    frames = [batch[1].numpy().tolist() for batch in Feed(part, 4, seed=0).once()]
    assert list(itertools.chain(*frames)) == sorted(FRAMES)
    assert list(map(len, frames)) == [4, 4, 3]
