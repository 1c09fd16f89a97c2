"""The objective against the paper's equations, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.modern.grpo import objective
from fathom.modern.grpo.objective import NONE

END = 0


def test_an_answer_counts_up_to_its_first_end():
    answers = tf.constant([[5, END, 7, 8], [END, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, END]])
    finished, counted = objective.finished(answers, END)
    assert finished.numpy().tolist() == [[5, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4], [1, 2, 3, 0]]
    assert counted.numpy().sum(1).tolist() == [2, 1, 4, 4]


def test_only_tokens_of_answers_have_to_be_predicted():
    questions, answers = tf.constant([[9, 8, 7]]), tf.constant([[5, END, END]])
    counted = tf.constant([[True, True, False]])
    found = objective.targets(questions, answers, counted).numpy().tolist()
    assert found == [[NONE, NONE, 5, END, NONE, NONE]]


def test_only_an_answer_that_is_exactly_right_is_rewarded():
    right = tf.constant([[5, 6, END]] * 3)
    answers = tf.constant([[5, 6, END], [5, 6, 6], [5, END, END]])
    assert objective.rewards(answers, right).numpy().tolist() == [1, 0, 0]


def test_advantages_compare_the_answers_of_a_group():
    rewards = np.array([1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1], np.float32)
    found = objective.advantages(tf.constant(rewards), 4).numpy().reshape(3, 4)
    for row, group in zip(found, rewards.reshape(3, 4), strict=True):
        deviation = np.std(group, ddof=1) + 1e-4
        np.testing.assert_allclose(row, (group - group.mean()) / deviation, rtol=1e-5)
    assert found[1].tolist() == [0, 0, 0, 0]  # all are right: nothing to learn


def test_log_probabilities_are_those_of_the_softmax():
    logits = np.random.default_rng(0).normal(size=(1, 3, 4)).astype(np.float32)
    found = objective.log_probabilities(tf.constant([[NONE, 2, 0]]), tf.constant(logits))
    odds = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [[0, np.log(odds[0, 1, 2]), np.log(odds[0, 2, 0])]]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_objective_is_that_of_equation_3():
    rng = np.random.default_rng(0)
    new, old, reference = (-rng.random((6, 5)).astype(np.float32) for _ in range(3))
    advantages = rng.normal(size=6).astype(np.float32)
    given = map(tf.constant, (new, old, reference, advantages))
    found = objective.objective(*given, clip=0.2, penalty=0.04)
    seen = set()
    for i in range(6):
        for t in range(5):
            ratio = np.exp(new[i, t] - old[i, t])
            bounded = min(max(ratio, 0.8), 1.2)
            gain = min(ratio * advantages[i], bounded * advantages[i])
            odds = np.exp(reference[i, t] - new[i, t])
            expected = gain - 0.04 * (odds - np.log(odds) - 1)
            assert float(found[i, t]) == pytest.approx(expected, rel=1e-4, abs=1e-6)
            seen.add((ratio != bounded, gain == ratio * advantages[i]))
    assert len(seen) == 3  # within the clip, clipped, and beyond it where that is worse


def test_answers_of_all_lengths_weigh_the_same():
    following = tf.constant([[1, NONE, NONE], [1, 1, 1]])
    values = tf.constant([[6.0, 100, 100], [1, 2, 3]])
    assert float(objective.mean_of_answers(values, following)) == pytest.approx((6 + 2) / 2)


def test_the_estimate_of_the_divergence_is_unbiased():
    rng = np.random.default_rng(0)
    policy, reference = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.5, 0.3])
    drawn = rng.choice(3, 200_000, p=policy)
    new, other = (np.log(odds)[drawn].astype(np.float32) for odds in (policy, reference))
    found = objective.divergence(tf.constant(new), tf.constant(other)).numpy()
    assert found.min() >= 0
    assert found.mean() == pytest.approx(np.sum(policy * np.log(policy / reference)), rel=0.02)
