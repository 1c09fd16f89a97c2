import itertools

import numpy as np
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
    said, steps = (t.numpy() for t in decoding.greedy(step, tf.zeros([2, 1]), 12))
    before, state = GO, 0.0
    for word in said[0][: list(said[0]).index(EOS) + 1]:
        logits = table[before].copy()
        logits[EOS] += state
        assert word == logits.argmax()
        before, state = word, state + 0.3
    assert set(said[0][list(said[0]).index(EOS) + 1 :]) <= {PAD}
    assert steps == list(said[0]).index(EOS) + 1
    np.testing.assert_array_equal(said[0], said[1])


def test_a_beam_of_one_is_greedy():
    for seed in range(5):
        step, _ = chain(seed)
        np.testing.assert_array_equal(
            decoding.beam_search(step, tf.zeros([3, 1]), 8, 1)[0],
            decoding.greedy(step, tf.zeros([3, 1]), 8)[0],
        )


def test_a_beam_as_wide_as_all_hypotheses_finds_the_best_one_a_word():
    step, table = chain(3)
    said = decoding.beam_search(step, tf.zeros([WORDS**3, 1]), 3, WORDS**3)[0].numpy()[0]
    hypotheses = []
    for words in itertools.product(range(2, WORDS), repeat=3):
        ended = words.index(EOS) + 1 if EOS in words else 3
        hypotheses.append((log_probability(table, words) / ended, words[:ended]))
    assert tuple(said[said != PAD]) == max(hypotheses)[1]


def test_the_states_follow_their_hypotheses():
    def step(words, state):  # state: the sum of the words read so far
        state = state + tf.cast(words, tf.float32)[:, None]
        return tf.cast(tf.range(WORDS), tf.float32) - 0.1 * state, state

    said, _ = decoding.beam_search(step, tf.zeros([4, 1]), 3, 2)
    assert said.shape == (2, 3)


def test_decoding_stops_when_every_sentence_has_ended():
    calls = []

    def step(words, state):
        calls.append(1)
        return tf.one_hot(tf.fill(tf.shape(words), EOS), WORDS), state

    decoding.greedy(step, tf.zeros([2, 1]), 50)
    assert len(calls) == 1
