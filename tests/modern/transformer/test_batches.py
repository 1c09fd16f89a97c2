"""Batches of equally many tokens."""

import itertools

import numpy as np
import pytest

from fathom.errors import FathomError
from fathom.modern.transformer import batches
from fathom.modern.transformer.batches import Shape
from fathom.translation.sentences import EncodedPairs, Sentences
from fathom.translation.symbols import EOS, GO, PAD


def pairs_of(*lengths):
    """Pairs of the given (source, target) lengths; the words count up from 10."""
    sides = [
        Sentences(np.concatenate([10 + np.arange(n, dtype=np.int32) for n in side]), np.array(side))
        for side in zip(*lengths, strict=True)
    ]
    return EncodedPairs(*sides)


def test_shapes_have_as_many_tokens_as_the_longest():
    assert batches.shapes((8, 12, 24), 10) == ((30, 8), (20, 12), (10, 24))


def test_a_pair_has_the_smallest_length_that_holds_both_sides_and_their_ends():
    pairs = pairs_of((7, 3), (3, 7), (8, 1), (2, 11), (12, 1))
    assert batches.assign(pairs, (8, 12)).tolist() == [0, 0, 1, 1, 2]


def test_a_batch_is_padded_and_its_target_starts_one_word_late():
    batch = batches.make_batch(pairs_of((2, 3), (1, 1)), np.array([0, 1]), 5)
    assert batch.source.numpy().tolist() == [[10, 11, EOS, PAD, PAD], [10, EOS, PAD, PAD, PAD]]
    assert batch.words.numpy().tolist() == [[10, 11, 12, EOS, PAD], [10, EOS, PAD, PAD, PAD]]
    assert batch.target.numpy().tolist() == [[GO, 10, 11, 12, PAD], [GO, 10, PAD, PAD, PAD]]


def test_a_sentence_that_is_too_long_is_cut_and_ended():
    batch = batches.make_batch(pairs_of((6, 7)), np.array([0]), 4)
    assert batch.source.numpy().tolist() == [[10, 11, 12, EOS]]
    assert batch.words.numpy().tolist() == [[10, 11, 12, EOS]]
    assert batch.target.numpy().tolist() == [[GO, 10, 11, 12]]


ASSIGNED = np.random.default_rng(0).integers(0, 4, 100)  # 3: too long
SHAPES = (Shape(7, 5), Shape(5, 8), Shape(3, 12))


def test_an_epoch_has_each_pair_that_fits_at_most_once_and_leaves_out_less_than_a_batch():
    order = batches.Order(ASSIGNED, SHAPES, seed=3)
    epoch = order.epoch(0)
    assert len(epoch) == order.steps_per_epoch
    drawn = np.concatenate([chosen for _, chosen in epoch])
    assert len(set(drawn)) == len(drawn) > np.count_nonzero(ASSIGNED < 3) - 3
    sizes = {length: pairs for pairs, length in SHAPES}
    for length, chosen in epoch:
        assert len(chosen) == sizes[length]
        assert all(SHAPES[ASSIGNED[i]].length <= length for i in chosen)


def test_the_stream_from_a_step_is_the_rest_of_the_stream_from_the_start():
    pairs = pairs_of(*[(4, 4)] * 30)
    order = batches.Order(np.zeros(30, int), (Shape(8, 5),), seed=1)
    whole = list(itertools.islice(order.stream(pairs, 0), 7))
    for first in (2, 4):
        rest = list(itertools.islice(order.stream(pairs, first), 7 - first))
        for ours, theirs in zip(rest, whole[first:], strict=True):
            np.testing.assert_array_equal(ours.source, theirs.source)
    assert [c.tolist() for _, c in order.epoch(0)] != [c.tolist() for _, c in order.epoch(1)]


def test_each_pair_is_evaluated_once():
    pairs = pairs_of((2, 2), (6, 3), (20, 4), (1, 1))
    found = batches.in_turn(pairs, batches.assign(pairs, (4, 8)), (Shape(2, 4), Shape(1, 8)))
    chosen = [(list(numbers), batch.source.shape[1]) for numbers, batch in found]
    assert chosen == [([0, 3], 4), ([1], 8), ([2], 8)]


@pytest.mark.parametrize("text", ["", "8 8", "12 8", "1", "8,12", "a"])
def test_lengths_that_cannot_be_used_are_named(text):
    with pytest.raises(FathomError, match="lengths must be numbers that grow"):
        batches.parse(text)


def test_a_batch_without_enough_pairs_is_named():
    with pytest.raises(FathomError, match="batch size 9 is larger than the data: 4 sentence pairs"):
        batches.Order(np.zeros(4, int), (Shape(9, 5),), seed=0)
