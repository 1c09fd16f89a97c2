import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom import FathomError
from fathom.seq2seq import buckets
from fathom.seq2seq.buckets import Bucket, BucketSampler
from fathom.translation.sentences import EncodedPairs, Sentences
from fathom.translation.symbols import EOS, GO, PAD


def pairs_of(*lengths):
    """Returns pairs of the given (source, target) lengths; word 10 * pair + position."""
    sides = []
    for side in (0, 1):
        words = [10 * i + np.arange(1, pair[side] + 1) for i, pair in enumerate(lengths, 1)]
        sizes = np.array([pair[side] for pair in lengths], np.int64)
        sides.append(Sentences(np.concatenate(words).astype(np.int32), sizes))
    return EncodedPairs(*sides)


def test_the_papers_buckets_are_read():
    assert buckets.parse("5-10 10-15") == (Bucket(5, 10), Bucket(10, 15))


@pytest.mark.parametrize(
    "text", ["", "5", "5-x", "5-10-15", "10-15 5-10", "0-3", "5-5 5-6", "-5-4"]
)
def test_buckets_that_make_no_sense_are_refused(text):
    with pytest.raises(FathomError, match="buckets must be"):
        buckets.parse(text)


def test_a_pair_goes_into_the_smallest_bucket_that_holds_it_and_its_end_symbol():
    pairs = pairs_of((2, 2), (3, 2), (2, 3), (4, 4), (5, 1), (1, 5))
    chosen = buckets.assign(pairs, (Bucket(2, 3), Bucket(4, 5)))
    assert chosen.tolist() == [0, 1, 1, 1, -1, -1]


def test_in_translation_the_source_alone_decides_and_the_longest_are_cut():
    pairs = pairs_of((2, 9), (3, 1), (9, 1))
    assert buckets.assign_by_source(pairs, (Bucket(2, 3), Bucket(4, 5))).tolist() == [0, 1, 1]


def test_the_decoder_reads_the_words_one_step_after_it_should_say_them():
    batch = buckets.make_batch(pairs_of((2, 2), (1, 3)), np.array([1, 0]), Bucket(3, 5))
    assert batch.source.numpy().tolist() == [[21, PAD, PAD], [11, 12, PAD]]
    assert batch.target.numpy().tolist() == [[GO, 21, 22, 23, PAD], [GO, 11, 12, PAD, PAD]]
    assert batch.words.numpy().tolist() == [[21, 22, 23, EOS, PAD], [11, 12, EOS, PAD, PAD]]


def test_a_sentence_longer_than_the_bucket_is_cut_and_still_ends():
    batch = buckets.make_batch(pairs_of((4, 4)), np.array([0]), Bucket(2, 3))
    assert batch.source.numpy().tolist() == [[11, 12]]
    assert batch.words.numpy().tolist() == [[11, 12, EOS]]


@given(st.lists(st.integers(-1, 2), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 99))
def test_an_epoch_meets_each_pair_once_but_for_fewer_than_a_batch(assigned, batch_size, seed):
    assigned = np.array(assigned)
    fitting = np.flatnonzero(assigned >= 0)
    if len(fitting) < batch_size:
        with pytest.raises(FathomError, match=r"larger than the data|none of the \d+ sentence"):
            BucketSampler(assigned, batch_size, seed)
        return
    order = BucketSampler(assigned, batch_size, seed)
    epoch = order.epoch(0)
    met = np.concatenate([pairs for _, pairs in epoch])
    assert len(epoch) == order.steps_per_epoch
    assert len(set(met.tolist())) == len(met) > len(fitting) - batch_size
    for bucket, pairs in epoch:
        assert len(pairs) == batch_size
        assert np.all((assigned[pairs] >= 0) & (assigned[pairs] <= bucket))


def test_buckets_that_no_pair_fits_are_named_and_not_the_batch_size():
    with pytest.raises(FathomError, match=r"none of the 3 sentence .* a bucket: set larger ones$"):
        BucketSampler(np.full(3, -1), 4, 0)


def test_batch_t_is_the_same_whether_the_stream_began_before_or_with_it():
    pairs = pairs_of(*[(1 + i % 3, 2) for i in range(20)])
    sizes = (Bucket(2, 3), Bucket(3, 3))
    order = BucketSampler(buckets.assign(pairs, sizes), 3, 5)
    begun = list(itertools.islice(buckets.training_batches(pairs, order, sizes, 0), 20))
    resumed = list(itertools.islice(buckets.training_batches(pairs, order, sizes, 8), 12))
    for expected, batch in zip(begun[8:], resumed, strict=True):
        np.testing.assert_array_equal(expected.words, batch.words)


def test_epochs_differ():
    order = BucketSampler(np.zeros(50, int), 5, 0)
    assert any(np.any(a[1] != b[1]) for a, b in zip(order.epoch(0), order.epoch(1), strict=True))


def test_in_turn_each_pair_comes_once_and_the_last_batch_may_be_smaller():
    pairs = pairs_of(*[(1 + i % 3, 2) for i in range(10)])
    sizes = (Bucket(2, 3), Bucket(3, 3))
    turns = list(buckets.batches_in_turn(pairs, buckets.assign(pairs, sizes), sizes, 4))
    assert sorted(i for chosen, _ in turns for i in chosen) == list(range(10))
    assert [len(chosen) for chosen, _ in turns] == [4, 3, 3]
