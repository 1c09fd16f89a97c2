import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from fathom.speech import ctc
from fathom.speech.phones import BLANK

COMPILED = tf.function(ctc.loss, jit_compile=True, autograph=False)
both = pytest.mark.parametrize("loss", [ctc.loss, COMPILED], ids=["kernel", "xla"])


@both
@pytest.mark.parametrize("phones", [[5, 8], [5, 5]])
def test_the_loss_is_minus_the_log_of_the_summed_probability_of_all_alignments(loss, phones):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 4, BLANK + 1)).astype(np.float32)  # of three steps and padding
    log_p = log_softmax(logits[0].astype(np.float64), axis=1)
    total = -np.inf
    for path in itertools.product({*phones, BLANK}, repeat=3):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label != BLANK] == phones:
            total = np.logaddexp(total, log_p[range(3), path].sum())
    found = loss(*map(tf.constant, (logits, [3], [[*phones, 0]], [2])))
    np.testing.assert_allclose(found, [-total], rtol=1e-5)


@pytest.mark.parametrize("padding", [0, 40])  # a path of 30 steps has less than e^-707 of it
def test_the_loss_and_the_gradient_of_the_compiled_step_are_the_same(padding):
    rng = np.random.default_rng(1)
    phones = tf.constant(
        [[1, 3, 1, 1, 2, 2], [4] + 5 * [0], [2, 2, 4, 0, 0, 0], [3, 1, 2, 3, 0, 0]]
    )
    counts, steps = tf.constant([6, 1, 3, 4]), tf.constant([30, 30, 21, 12])
    logits = tf.constant(rng.normal(size=(4, 30, BLANK + 1)), tf.float32)
    logits += padding * tf.one_hot(0, BLANK + 1)

    def step():
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = ctc.loss(logits, steps, phones, counts)
        return losses, tape.gradient(losses, logits)

    losses, gradient = tf.function(step, jit_compile=True, autograph=False)()
    expected, expected_gradient = step()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-3)
