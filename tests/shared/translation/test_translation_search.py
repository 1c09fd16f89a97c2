import itertools

import numpy as np
import pytest
import tensorflow as tf

from fathom.shared.translation import decoding
from fathom.shared.translation.symbols import EOS, GO, PAD

WORDS = 6


def chain(seed):
    """Returns a step of a Markov chain over words, and its log probabilities [before, after].

    The state is the number of words read so far: the chain prefers the end more and more.
    """
    table = np.random.default_rng(seed).normal(scale=2, size=(WORDS, WORDS)).astype(np.float32)
    table[:, [PAD, GO]] = -50

    def step(words, state):
        logits = tf.gather(table, words) + state * tf.one_hot(EOS, WORDS)
        return logits, state + 0.3

    return step, table


def log_probability(table, words):
    total, before, state = 0.0, GO, 0.0
    for word in words:
        logits = table[before].astype(np.float64)
        logits[EOS] += state
        total += logits[word] - np.log(np.sum(np.exp(logits)))
        before, state = word, state + 0.3
        if word == EOS:
            break
    return total


def test_greedy_decoding_takes_the_best_word_and_pads_after_the_end():
    step, table = chain(0)
    sentence, steps = (t.numpy() for t in decoding.greedy(step, tf.zeros([2, 1]), 12))
    before, state = GO, 0.0
    for word in sentence[0][: list(sentence[0]).index(EOS) + 1]:
        logits = table[before].copy()
        logits[EOS] += state
        assert word == logits.argmax()
        before, state = word, state + 0.3
    assert set(sentence[0][list(sentence[0]).index(EOS) + 1 :]) <= {PAD}
    assert steps == list(sentence[0]).index(EOS) + 1
    np.testing.assert_array_equal(sentence[0], sentence[1])


def tensor2tensor(table, longest, size, length_penalty):
    """The rule of tensor2tensor's beam_search.py for log probabilities [before, after].

    It is written without its stopping rule, which must not change what is found.
    """
    alive, finished = [((GO,), 0.0)], []
    for length in range(1, longest + 1):
        grown = [
            ((*words, word), score + table[words[-1], word])
            for words, score in alive
            for word in range(table.shape[1])
        ]
        grown = sorted(grown, key=lambda each: -each[1])[: 2 * size]
        alive = [each for each in grown if each[0][-1] != EOS][:size]
        penalty = ((5 + length) / 6) ** length_penalty
        finished += [(words, score / penalty) for words, score in grown if words[-1] == EOS]
        finished = sorted(finished, key=lambda each: -each[1])[:size]
    return list((finished or alive)[0][0][1:])


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.5])
def test_a_beam_of_four_is_that_of_tensor2tensor_on_200_markov_models(length_penalty):
    models, words, longest, size = 200, 12, 16, 4
    tables = np.random.default_rng(0).normal(scale=2, size=(models, words, words))
    tables[:, :, [PAD, GO]] = -1e9
    tables = tf.nn.log_softmax(tables.astype(np.float32)).numpy()

    def step(before, model):
        return tf.gather_nd(tables, tf.stack([model, before], 1)), model

    model = tf.repeat(tf.range(models), size)
    found, _ = decoding.beam_search(step, model, longest, size, length_penalty)
    expected = [tensor2tensor(table, longest, size, length_penalty) for table in tables]
    assert 0 < sum(EOS not in sentence for sentence in expected) < 10
    assert [[word for word in sentence if word != PAD] for sentence in found.numpy()] == expected


def test_a_beam_as_wide_as_all_hypotheses_finds_the_best_that_ends():
    step, table = chain(3)
    sentence = decoding.beam_search(step, tf.zeros([WORDS**3, 1]), 3, WORDS**3, 0.6)[0].numpy()[0]
    hypotheses = []
    for words in itertools.product(range(2, WORDS), repeat=3):
        if EOS in words:
            ended = words.index(EOS) + 1
            score = log_probability(table, words) / ((5 + ended) / 6) ** 0.6
            hypotheses.append((score, words[:ended]))
    assert tuple(sentence[sentence != PAD]) == max(hypotheses)[1]


def test_a_beam_search_stops_when_no_hypothesis_can_exceed_the_ended_one():
    def step(words, state):
        return tf.one_hot(tf.fill(tf.shape(words), EOS), WORDS) * 50, state

    sentence, steps = decoding.beam_search(step, tf.zeros([6, 1]), 50, 3, 0.6)
    assert sentence.numpy().tolist() == [[EOS] + [PAD] * 49] * 2
    assert steps == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_states_follow_their_hypotheses(seed):
    table = np.random.default_rng(seed).normal(scale=2, size=(WORDS**3, WORDS))
    table[:, [PAD, GO]] = -1e9
    table[: WORDS**2, EOS] = -1e9  # not before the third word, whose state has two before it
    table = tf.nn.log_softmax(table).numpy().astype(np.float32)

    def step(words, state):  # state: a number for the words read so far
        state = WORDS * state + words
        return tf.gather(table, state % WORDS**3), state

    sentence, _ = decoding.beam_search(step, tf.zeros([WORDS**3], tf.int32), 3, WORDS**3, 0.0)

    def probability(words):
        state, total = 0, 0.0
        for before, word in itertools.pairwise((GO, *words)):
            state = WORDS * state + before
            total += table[state % WORDS**3, word]
        return total

    ended = [(*words, EOS) for words in itertools.product(range(EOS + 1, WORDS), repeat=2)]
    assert tuple(sentence.numpy()[0]) == max(ended, key=probability)


def test_decoding_stops_when_every_sentence_has_ended():
    calls = []

    def step(words, state):
        calls.append(1)
        return tf.one_hot(tf.fill(tf.shape(words), EOS), WORDS), state

    decoding.greedy(step, tf.zeros([2, 1]), 50)
    assert len(calls) == 1
