"""The layers against the papers' equations, written out in NumPy one sentence at a time."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from fathom.core.layers import PRNGKey, Random
from fathom.seq2seq.decoder import Decoder
from fathom.seq2seq.layers import LSTM, Embedding
from fathom.shared.translation.symbols import EOS, GO, PAD

UNITS, WORDS, DEPTH = 5, 11, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_cell(gates, memory):
    i, f, o, g = np.split(gates, 4)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def initial():
    return 0.8, Random(itertools.count(), 0)


def make_decoder(attention=True, dropout=0.0, beam_size=1):
    noise = PRNGKey(1, tf.Variable(0, dtype=tf.int64))
    decoder = Decoder(
        *(WORDS, UNITS, DEPTH, attention, dropout, beam_size, *initial(), noise),
        sizes=[(source, source + 3) for source in range(1, 20)],
    )
    decoder.build()
    return decoder


def encoded(batch=3, source=4, padding=0):
    """Returns source words, states, hidden states and memories as an encoder would give them."""
    rng = np.random.default_rng(2)
    words = rng.integers(4, WORDS, (batch, source)).astype(np.int32)
    states = rng.normal(size=(source, batch, UNITS)).astype(np.float32)
    words = np.pad(words, ((0, 0), (padding, 0)), constant_values=PAD)
    states = np.pad(states, ((padding, 0), (0, 0), (0, 0)), constant_values=9)
    last = rng.normal(size=(2, DEPTH, batch, UNITS)).astype(np.float32)
    return [tf.constant(words), tf.constant(states), *([*map(tf.constant, s)] for s in last)]


def numpy_decoder(decoder, source, states, hidden, memory, target):
    """Returns the outputs [target, units] for one sentence."""
    w = {v.name: v.numpy().astype(np.float64) for v in decoder.variables}
    output, outputs = np.zeros(UNITS), []
    for word in target:
        read = np.concatenate([w["embedding"][word], output])
        kernel = np.concatenate([w["word_kernel"], w["kernel_1"]])
        for i in range(DEPTH):
            gates = np.concatenate([read, hidden[i]]) @ kernel + w[f"bias_{i + 1}"]
            hidden[i], memory[i] = numpy_cell(gates, memory[i])
            read, kernel = hidden[i], w.get(f"kernel_{i + 2}")
        scores = [
            w["attention_score"] @ np.tanh(state @ w["attention_key"] + read @ w["attention_query"])
            for state in states
        ]
        context = softmax(scores) @ states
        output = np.tanh(np.concatenate([context, read]) @ w["combination"])
        outputs.append(output)
    return np.array(outputs)


def test_the_encoder_is_the_papers_lstm():
    lstm = LSTM(UNITS, *initial())
    inputs = np.random.default_rng(1).normal(size=(4, 2, 3)).astype(np.float32)
    states, hidden, memory = lstm(tf.constant(inputs), tf.ones([2, 4], tf.int32))
    for sentence in (0, 1):
        h, c = np.zeros(UNITS), np.zeros(UNITS)
        for time, x in enumerate(inputs[:, sentence]):
            gates = x @ lstm.input_kernel.numpy() + h @ lstm.kernel.numpy() + lstm.bias.numpy()
            h, c = numpy_cell(gates, c)
            np.testing.assert_allclose(states[time, sentence], h, atol=1e-5)
        np.testing.assert_allclose(hidden[sentence], h, atol=1e-5)
        np.testing.assert_allclose(memory[sentence], c, atol=1e-5)


def test_padding_in_front_changes_nothing_in_the_encoder():
    lstm = LSTM(UNITS, *initial())
    inputs = tf.random.stateless_normal([4, 2, 3], [1, 2])
    plain = lstm(inputs, tf.ones([2, 4], tf.int32))
    words = tf.constant([[PAD] * 3 + [7] * 4] * 2)
    padded = lstm(tf.concat([tf.ones([3, 2, 3]), inputs], 0), words)
    np.testing.assert_allclose(padded[0][3:], plain[0], atol=1e-6)
    np.testing.assert_array_equal(padded[0][:3], np.zeros((3, 2, UNITS)))
    for ours, theirs in zip(padded[1:], plain[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_decoder_is_the_papers_attention_with_input_feeding():
    decoder, (source, states, hidden, memory) = make_decoder(), encoded()
    target = np.array([[GO, 5, 6, 7, 8], [GO, 9, 4, 5, PAD], [GO, 10, 10, 4, 6]], np.int32)
    outputs = decoder(source, states, hidden, memory, tf.constant(target))
    for i in range(3):
        expected = numpy_decoder(
            *(decoder, None, states[:, i].numpy()),
            *([layer[i].numpy() for layer in side] for side in (hidden, memory)),
            target[i],
        )
        np.testing.assert_allclose(outputs[i], expected, atol=1e-5)


def test_padding_of_the_source_gets_no_attention():
    decoder, target = make_decoder(), tf.constant([[GO, 5, 6]] * 3)
    plain = decoder(*encoded(), target)
    np.testing.assert_allclose(decoder(*encoded(padding=4), target), plain, atol=1e-6)
    alignment = decoder.alignment(*encoded(padding=4), target).numpy()
    assert alignment.shape == (3, 3, 8)
    np.testing.assert_array_equal(alignment[:, :, 4:], 0)  # in the order of the sentence
    np.testing.assert_allclose(alignment.sum(2), 1, atol=1e-6)


def test_without_attention_the_decoder_reads_only_words_and_its_state():
    decoder = make_decoder(attention=False)
    assert {variable.name for variable in decoder.variables} == {
        *("embedding", "word_kernel", "kernel_1", "kernel_2", "bias_1", "bias_2"),
        *("softmax", "softmax_bias"),
    }
    source, states, hidden, memory = encoded()
    target = tf.constant([[GO, 5, 6]] * 3)
    np.testing.assert_array_equal(
        decoder(source, states, hidden, memory, target),
        decoder(source, 2 * states, hidden, memory, target),
    )


def test_greedy_decoding_takes_the_word_that_the_given_words_predict():
    decoder, parts = make_decoder(), encoded()
    translated = decoder(*parts).numpy()
    assert translated.shape == (3, 7)  # the source's 4 and 3
    read = np.concatenate([np.full((3, 1), GO), translated[:, :-1]], 1)
    outputs = decoder(*parts, tf.constant(read, tf.int32))
    logits = decoder.logits(tf.reshape(outputs, [-1, UNITS])).numpy().reshape(3, 7, WORDS)
    best = logits[:, :, EOS:].argmax(2) + EOS  # padding and <go> are never said
    for sentence, expected in zip(translated, best, strict=True):
        ended = np.flatnonzero(sentence == EOS)
        length = ended[0] + 1 if len(ended) else 7
        np.testing.assert_array_equal(sentence[:length], expected[:length])
        np.testing.assert_array_equal(sentence[length:], PAD)


def test_gradients_are_those_of_finite_differences():
    decoder, (source, states, hidden, memory) = make_decoder(), encoded()
    target = tf.constant([[GO, 5, 6], [GO, 9, PAD], [GO, 7, 8]])
    lstm = LSTM(UNITS, *initial())
    lstm.build((None, None, UNITS), None)
    variables = [*lstm.trainable_variables, *decoder.trainable_variables[1:-2]]

    def loss():
        top, last, last_memory = lstm(states, source)
        return tf.reduce_sum(
            decoder(source, top, [last, *hidden[1:]], [last_memory, *memory[1:]], target) ** 2
        )

    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, variables)
    rng = np.random.default_rng(3)
    for variable, gradient in zip(variables, gradients, strict=True):
        direction = rng.choice([-1.0, 1.0], variable.shape).astype(np.float32)
        start, step = variable.numpy(), 3e-3
        ends = []
        for sign in (1, -1):
            variable.assign(start + sign * step * direction)
            ends.append(float(loss()))
        variable.assign(start)
        expected = (ends[0] - ends[1]) / (2 * step)
        actual = float(np.sum(gradient * direction))
        assert actual == pytest.approx(expected, rel=0.02, abs=2e-3), variable.path


def test_dropout_scales_what_it_keeps_and_works_in_training_only():
    plain, decoder = make_decoder(), make_decoder(dropout=0.5)
    parts, target = encoded(), tf.constant([[GO, 5, 6]] * 3)
    np.testing.assert_array_equal(decoder(*parts, target), plain(*parts, target))
    dropped = decoder(*parts, target, training=True).numpy()
    assert 0.2 < np.mean(dropped == 0) < 0.8
    np.testing.assert_array_equal(dropped, decoder(*parts, target, training=True))


def test_with_xla_dropout_drops_the_same_values():
    decoder, target = make_decoder(dropout=0.5), tf.constant([[GO, 5, 6]] * 3)
    parts = encoded()
    plain = decoder(*parts, target, training=True).numpy()
    compiled = tf.function(decoder, jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(*parts, target, training=True), plain, atol=1e-5)
    assert (plain == 0).any()


def test_the_embeddings_gradient_is_sparse():
    embedding = Embedding(1000, 4, "ones")
    embedding.build()
    with tf.GradientTape() as tape:
        vectors = embedding(tf.constant([[5, 6, 5]]))
    assert vectors.shape == (3, 1, 4)
    gradient = tape.gradient(vectors, embedding.embedding.value)
    assert gradient.indices.numpy().tolist() == [5, 6, 5]
