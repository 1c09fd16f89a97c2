"""Rewards, advantages and the objective (Shao et al. 2024, sections 4.1.1 and 4.1.2)."""

import tensorflow as tf

NONE = -1  # in the place of a token that is not of an answer
_LEAST = 1e-4  # added to the deviation of a group's rewards, as in trl


def finished(answers: tf.Tensor, end: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns answers with only ends after their first one, and which tokens count.

    Args:
        answers: int32 [batch, new].
        end: the token that ends an answer.

    Returns:
        the same, and bool [batch, new]: True up to the first end, and for it.
    """
    after = tf.cumsum(tf.cast(answers == end, tf.int32), 1, exclusive=True) > 0
    return tf.where(after, end, answers), ~after


def targets(questions: tf.Tensor, answers: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Returns what has to follow each token of questions and answers side by side.

    Args:
        questions: int32 [batch, prompt].
        answers: int32 [batch, new].
        counted: bool [batch, new], of the tokens of answers.

    Returns:
        int32 [batch, prompt + new]; ``NONE`` unless it is a token of an answer that counts.
    """
    nothing = tf.fill(tf.shape(questions), NONE)
    return tf.concat([nothing[:, 1:], tf.where(counted, answers, NONE), nothing[:, :1]], 1)


def log_probabilities(following: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns those of the tokens that follow, float32 [batch, time]; 0 for ``NONE``."""
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.nn.relu(following), logits)
    return tf.where(following == NONE, 0.0, -entropy)


def mean_of_answers(values: tf.Tensor, following: tf.Tensor) -> tf.Tensor:
    """Returns the mean over an answer's tokens, and of those over answers."""
    counted = tf.cast(following != NONE, tf.float32)
    return tf.reduce_mean(tf.reduce_sum(values * counted, 1) / tf.reduce_sum(counted, 1))


def rewards(answers: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each answer that is exactly right and 0 for others, float32 [batch].

    Args:
        answers: int32 [batch, new], as ``finished`` returns them.
        right: the same of right answers.
    """
    return tf.cast(tf.reduce_all(answers == right, 1), tf.float32)


def advantages(rewards: tf.Tensor, group: int) -> tf.Tensor:
    """Returns rewards less their group's mean, over the group's standard deviation.

    Args:
        rewards: float32 [batch], those of a question side by side.
        group: answers to a question.
    """
    groups = tf.reshape(rewards, [-1, group])
    centred = groups - tf.reduce_mean(groups, 1, keepdims=True)
    deviation = tf.sqrt(tf.reduce_sum(centred**2, 1, keepdims=True) / (group - 1))
    return tf.reshape(centred / (deviation + _LEAST), [-1])


def divergence(new: tf.Tensor, reference: tf.Tensor) -> tf.Tensor:
    """Returns an unbiased estimate of the divergence from the reference policy (equation 4).

    Args:
        new: log-probabilities of tokens that the policy has drawn.
        reference: those by the reference policy.
    """
    difference = reference - new
    return tf.exp(difference) - difference - 1


def objective(
    new: tf.Tensor,
    old: tf.Tensor,
    reference: tf.Tensor,
    advantages: tf.Tensor,
    clip: float,
    penalty: float,
) -> tf.Tensor:
    """Returns what is maximised, of each token, [batch, time] (equation 3).

    Args:
        new: its log-probability by the policy, [batch, time].
        old: the same by the policy that has drawn it.
        reference: the same by the reference policy.
        advantages: of the answers, [batch].
        clip: most that the ratio of probabilities may differ from 1, epsilon.
        penalty: factor of the divergence, beta.
    """
    ratio = tf.exp(new - old)
    clipped = tf.clip_by_value(ratio, 1 - clip, 1 + clip)
    gain = advantages[:, None]
    bounded = tf.minimum(ratio * gain, clipped * gain)
    return bounded - penalty * divergence(new, reference)
