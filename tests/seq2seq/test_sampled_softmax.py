import numpy as np
import tensorflow as tf

from fathom.seq2seq.sampled_softmax import (
    log_chance,
    log_uniform_samples,
    sampled_cross_entropy,
)

V = 50


def probabilities():
    k = np.arange(V)
    return np.log((k + 2) / (k + 1)) / np.log(V + 1)


def test_words_are_drawn_log_uniformly():
    drawn = log_uniform_samples(100_000, V, tf.constant([1, 2], tf.int64)).numpy()
    assert probabilities().sum() == np.float64(1).round(6) or np.isclose(probabilities().sum(), 1)
    frequencies = np.bincount(drawn, minlength=V) / len(drawn)
    np.testing.assert_allclose(frequencies, probabilities(), atol=0.005)


def test_what_is_drawn_is_a_function_of_the_seed():
    first, same, other = (
        log_uniform_samples(9, V, tf.constant([1, step], tf.int64)).numpy() for step in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, same)
    assert np.any(first != other)


def test_with_xla_the_words_that_are_drawn_are_the_same():
    def draw(seed):
        return log_uniform_samples(500, 40_000, seed)

    seed, compiled = tf.constant([1, 2], tf.int64), tf.function(draw, jit_compile=True)
    np.testing.assert_array_equal(compiled(seed), draw(seed))


def test_the_chance_to_be_drawn_is_the_frequency_of_being_drawn():
    met = np.zeros(V)
    for step in range(500):
        met[np.unique(log_uniform_samples(20, V, tf.constant([0, step], tf.int64)))] += 1
    chance = np.exp(log_chance(tf.range(V), 20, V).numpy())
    np.testing.assert_allclose(chance, 1 - (1 - probabilities()) ** 20, rtol=1e-4)
    np.testing.assert_allclose(met / 500, chance, atol=0.1)


def test_with_enough_samples_it_is_the_whole_softmax():
    rng = np.random.default_rng(0)
    states = tf.constant(rng.normal(size=(30, 4)), tf.float32)
    words = tf.constant(rng.integers(V, size=30), tf.int32)
    weights = tf.Variable(rng.normal(size=(V, 4)).astype(np.float32))
    biases = tf.Variable(rng.normal(size=V).astype(np.float32))
    sampled = sampled_cross_entropy(
        states, words, weights, biases, 5000, tf.constant([1, 1], tf.int64)
    )
    logits = tf.matmul(states, weights, transpose_b=True) + biases
    whole = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
    np.testing.assert_allclose(sampled, whole, rtol=1e-4)


def test_its_gradients_touch_only_the_words_at_hand():
    weights, biases = tf.Variable(tf.ones([1000, 4])), tf.Variable(tf.zeros(1000))
    with tf.GradientTape() as tape:
        loss = sampled_cross_entropy(
            *(tf.ones([3, 4]), tf.constant([7, 8, 999]), weights, biases),
            *(10, tf.constant([1, 1], tf.int64)),
        )
    for gradient in tape.gradient(loss, [weights, biases]):
        assert isinstance(gradient, tf.IndexedSlices)
        assert len(gradient.indices) == 13


def test_each_logit_is_lowered_by_the_log_of_its_chance_to_be_drawn():
    weights, biases = tf.Variable(tf.zeros([50, 4])), tf.Variable(tf.zeros([50]))
    words, seed = tf.constant([30]), tf.constant([1, 2], tf.int64)
    entropy = sampled_cross_entropy(tf.zeros([1, 4]), words, weights, biases, 8, seed)
    drawn = set(log_uniform_samples(8, 50, seed).numpy().tolist()) - {30}
    chances = np.exp(log_chance(tf.constant([30, *sorted(drawn)]), 8, 50))
    expected = np.log(np.sum(1 / chances)) - np.log(1 / chances[0])
    np.testing.assert_allclose(entropy, [expected], rtol=1e-5)
