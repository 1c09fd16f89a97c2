"""Batches of sentence pairs, of sources with and without an end of the sentence."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.errors import FathomError
from fathom.shared.translation import batches
from fathom.shared.translation.batches import Order, Shape
from fathom.shared.translation.sentences import EncodedPairs, Sentences
from fathom.shared.translation.symbols import EOS, GO, PAD


def pairs_of(*lengths, source_ends=True):
    """Returns pairs of the given (source, target) lengths; word 10 * pair + position."""
    sides = []
    for side, ended in ((0, source_ends), (1, True)):
        words = [10 * i + np.arange(1, pair[side] + 1) for i, pair in enumerate(lengths, 1)]
        sizes = np.array([pair[side] for pair in lengths], np.int64)
        sides.append(Sentences(np.concatenate(words).astype(np.int32), sizes, ended))
    return EncodedPairs(*sides)


def shapes_of(*lengths, pairs=4):
    return tuple(Shape(pairs, source, target) for source, target in lengths)


def test_a_pair_has_the_first_shape_that_holds_both_sides_and_their_ends():
    lengths = (7, 3), (3, 7), (8, 1), (2, 11), (12, 1), (1, 12)
    shapes = shapes_of((8, 8), (12, 12))
    assert batches.assign(pairs_of(*lengths), shapes).tolist() == [0, 0, 1, 1, 2, 2]
    without = pairs_of(*lengths, source_ends=False)
    assert batches.assign(without, shapes).tolist() == [0, 0, 0, 1, 1, 2]


def test_by_source_the_target_does_not_count():
    pairs = pairs_of((2, 9), (3, 1), (9, 1), source_ends=False)
    assert batches.assign_by_source(pairs, shapes_of((2, 3), (4, 5))).tolist() == [0, 1, 2]


def test_the_decoder_reads_the_words_one_step_after_it_should_say_them():
    lengths, chosen, shape = ((2, 2), (1, 3)), np.array([1, 0]), Shape(2, 3, 5)
    batch = batches.make_batch(pairs_of(*lengths), chosen, shape)
    assert batch.source.numpy().tolist() == [[21, EOS, PAD], [11, 12, EOS]]
    assert batch.target.numpy().tolist() == [[GO, 21, 22, 23, PAD], [GO, 11, 12, PAD, PAD]]
    assert batch.words.numpy().tolist() == [[21, 22, 23, EOS, PAD], [11, 12, EOS, PAD, PAD]]
    without = batches.make_batch(pairs_of(*lengths, source_ends=False), chosen, shape)
    assert without.source.numpy().tolist() == [[21, PAD, PAD], [11, 12, PAD]]


def test_a_sentence_that_is_too_long_is_cut_and_still_ends():
    batch = batches.make_batch(pairs_of((6, 7)), np.array([0]), Shape(1, 4, 4))
    assert batch.source.numpy().tolist() == [[11, 12, 13, EOS]]
    assert batch.words.numpy().tolist() == [[11, 12, 13, EOS]]
    assert batch.target.numpy().tolist() == [[GO, 11, 12, 13]]
    without = pairs_of((6, 7), source_ends=False).source
    assert without.padded(np.array([0]), 4).tolist() == [[11, 12, 13, 14]]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.lists(st.integers(1, 6), min_size=3, max_size=3),
    st.integers(0, 99),
)
def test_an_epoch_has_each_pair_that_fits_at_most_once_but_for_less_than_a_batch(
    assigned, sizes, seed
):
    assigned = np.array(assigned)  # 3: too long
    sizes = sorted(sizes, reverse=True)  # longer sentences, fewer of them
    shapes = tuple(Shape(size, 4 * i, 5 * i) for i, size in enumerate(sizes, 1))
    try:
        order = Order(assigned, shapes, seed)
    except FathomError:
        assert np.count_nonzero(assigned < 3) < max(sizes)
        return
    epoch = order.epoch(0)
    assert len(epoch) == order.steps_per_epoch
    met = np.concatenate([pairs for _, pairs in epoch])
    assert len(set(met.tolist())) == len(met) > np.count_nonzero(assigned < 3) - sizes[-1]
    for shape, pairs in epoch:
        assert len(pairs) == shape.pairs
        assert all(shapes[assigned[i]].source <= shape.source for i in pairs)


def test_the_stream_from_a_step_is_the_rest_of_the_stream_from_the_start():
    pairs = pairs_of(*[(1 + i % 3, 2) for i in range(20)])
    shapes = shapes_of((3, 3), (4, 3), pairs=3)
    order = Order(batches.assign(pairs, shapes), shapes, seed=5)
    whole = list(itertools.islice(order.stream(pairs, 0), 20))
    for first in (2, 8):
        rest = list(itertools.islice(order.stream(pairs, first), 20 - first))
        for ours, theirs in zip(rest, whole[first:], strict=True):
            np.testing.assert_array_equal(ours.source, theirs.source)
    assert [c.tolist() for _, c in order.epoch(0)] != [c.tolist() for _, c in order.epoch(1)]


def test_in_turn_each_pair_comes_once_and_the_last_batch_may_be_smaller():
    pairs = pairs_of((2, 2), (6, 3), (20, 4), (1, 1), (2, 1))
    shapes = (Shape(2, 4, 4), Shape(1, 8, 8))
    found = batches.in_turn(pairs, batches.assign(pairs, shapes), shapes)
    chosen = [(list(numbers), batch.source.shape[1]) for numbers, batch in found]
    assert chosen == [([0, 3], 4), ([4], 4), ([1], 8), ([2], 8)]


def test_a_batch_without_enough_pairs_is_named():
    with pytest.raises(FathomError, match="batch size 9 is larger than the data: 4 sentence pairs"):
        Order(np.zeros(4, int), shapes_of((5, 5), pairs=9), seed=0)


def test_sentences_that_are_all_too_long_are_named_and_not_the_batch_size():
    with pytest.raises(FathomError, match=r"none of the 3 .* at most 5 and 6 words: allow longer"):
        Order(np.full(3, 1), shapes_of((5, 6)), seed=0)
