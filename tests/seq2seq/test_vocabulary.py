from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fathom.seq2seq.vocabulary import (
    EOS,
    PAD,
    SPECIAL_SYMBOLS,
    UNK,
    Vocabulary,
    detokenize,
    tokenize,
)


def test_words_and_punctuation_are_tokens_and_a_joiner_marks_a_missing_space():
    assert tokenize('A "red" dog, well-fed.') == [
        *("A", '"', "￭red", '￭"'),
        *("dog", "￭,", "well-fed", "￭."),
    ]


def test_letters_can_be_made_small():
    assert tokenize("Ein Hund", lowercase=True) == ["ein", "hund"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_sentence_comes_back_from_its_tokens_with_single_spaces(sentence):
    assert detokenize(tokenize(sentence)) == " ".join(sentence.split())


def test_the_special_symbols_come_first_then_the_words_from_the_most_frequent_on():
    vocabulary = Vocabulary.of(Counter("babcab"), 6)
    assert vocabulary.words == (*SPECIAL_SYMBOLS, "b", "a")


def test_equally_frequent_words_are_in_alphabetical_order():
    assert Vocabulary.of(Counter("cba"), 7).words[4:] == ("a", "b", "c")


def test_a_word_that_found_no_room_is_unknown():
    vocabulary = Vocabulary.of(Counter("bab"), 5)
    assert vocabulary.ids(["a", "b", "z"]) == [UNK, 4, UNK]


def test_a_sentence_ends_at_its_first_end_symbol_and_leaves_unknown_words_out():
    vocabulary = Vocabulary.of(Counter(["Hallo", "￭!"]), 6)
    hallo, mark = vocabulary.ids(["Hallo", "￭!"])
    assert vocabulary.sentence(np.array([hallo, UNK, mark, EOS, hallo, PAD])) == "Hallo!"


def test_a_number_beyond_the_words_is_unknown():
    vocabulary = Vocabulary.of(Counter(["word"]), 100)
    assert vocabulary.tokens(np.array([4, 99])) == ["word", "<unk>"]
