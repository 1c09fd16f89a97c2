"""Connectionist temporal classification (Graves et al. 2006)."""

import tensorflow as tf

from fathom.speech import decoding
from fathom.speech.phones import BLANK
from fathom.system import private

_IMPOSSIBLE = -1e30  # a log probability; gradients of minus infinity would not be numbers


def loss(logits: tf.Tensor, steps: tf.Tensor, phones: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each utterance.

    Args:
        logits: float32 [batch, most steps, 62], the blank last.
        steps: int32 [batch], steps of each utterance.
        phones: int32 [batch, most phones].
        counts: int32 [batch], phones of each utterance, at least one.

    Returns:
        float32 [batch], nats; infinite where a needed label has a probability below 1e-38,
        unless it is traced for XLA.
    """
    if private.traces_for_xla():  # which lacks a CTC kernel
        return _forward(logits, steps, phones, counts)
    return tf.compat.v1.nn.ctc_loss(
        decoding.sparse(phones, counts), logits, steps, time_major=False
    )


def _forward(
    logits: tf.Tensor, steps: tf.Tensor, phones: tf.Tensor, counts: tf.Tensor
) -> tf.Tensor:
    """Sums the probabilities of all paths (section 4.1).

    ``tf.nn.ctc_loss`` takes longer, and counts paths through the padding as well, times e^-707.
    """
    batch, most = tf.unstack(tf.shape(phones))
    blanks = tf.fill([batch, most], BLANK)
    states = tf.reshape(tf.stack([blanks, phones], 2), [batch, 2 * most])
    states = tf.pad(states, [[0, 0], [0, 1]], constant_values=BLANK)
    log_p = tf.gather(tf.nn.log_softmax(logits), states, axis=2, batch_dims=1)
    log_p = tf.transpose(log_p, [1, 0, 2])
    blank_or_repeated = (states == BLANK) | (states == _moved(states, 2, BLANK))
    skipping = tf.where(blank_or_repeated, _IMPOSSIBLE, 0.0)

    def advance(t: tf.Tensor, paths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = [_moved(paths, 1, _IMPOSSIBLE), _moved(paths, 2, _IMPOSSIBLE) + skipping]
        longer = tf.reduce_logsumexp(tf.stack([paths, *before]), 0) + log_p[t]
        return t + 1, tf.where(t < steps[:, None], longer, paths)

    time = tf.shape(logits)[1]
    first = tf.where(tf.range(2 * most + 1) < 2, log_p[0], _IMPOSSIBLE)
    _, paths = tf.while_loop(lambda t, _: t < time, advance, (1, first), maximum_iterations=time)
    ends = tf.gather(paths, tf.stack([2 * counts - 1, 2 * counts], 1), batch_dims=1)
    return -tf.reduce_logsumexp(ends, 1)


def _moved(values: tf.Tensor, places: int, start: float) -> tf.Tensor:
    """Returns values [batch, states] moved to later states."""
    return tf.pad(values, [[0, 0], [places, 0]], constant_values=start)[:, :-places]
