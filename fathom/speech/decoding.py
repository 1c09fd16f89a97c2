"""CTC decoding and phone errors."""

import tensorflow as tf

from fathom.speech.phones import folding


def sparse(values: tf.Tensor, counts: tf.Tensor) -> tf.SparseTensor:
    """Returns the first ``counts`` [batch] of values int32 [batch, most] as a sparse tensor."""
    where = tf.where(tf.sequence_mask(counts, tf.shape(values)[1]))
    shape = tf.shape(values, out_type=tf.int64)
    return tf.SparseTensor(where, tf.gather_nd(values, where), shape)


def decode(logits: tf.Tensor, lengths: tf.Tensor, beam_width: int) -> tf.SparseTensor:
    """Returns the recognised phones.

    Args:
        logits: float32 [batch, steps, 62], the blank last.
        lengths: int32 [batch], steps of each utterance.
        beam_width: number of prefixes kept (Graves et al. 2006, section 3.2); 1: the most probable
            label of each step, with repetitions merged and blanks dropped.

    Returns:
        int32 [batch, most phones].
    """
    inputs = tf.transpose(logits, [1, 0, 2])
    if beam_width == 1:
        (recognised,), _ = tf.nn.ctc_greedy_decoder(inputs, lengths)
    else:
        (recognised,), _ = tf.nn.ctc_beam_search_decoder(inputs, lengths, beam_width)
    return tf.cast(recognised, tf.int32)


def errors(recognised: tf.SparseTensor, reference: tf.SparseTensor) -> dict[str, tf.Tensor]:
    """Counts errors: the minimum number of insertions, deletions and substitutions.

    Both arguments are phones, int32 [batch, most phones].

    Returns:
        ``errors`` and the number of reference ``phones`` of 61 kinds, and ``folded_errors`` and
        ``folded_phones`` of 39; each float32 [batch].
    """
    folded = _fold(recognised), _fold(reference)
    return {
        "errors": tf.edit_distance(recognised, reference, normalize=False),
        "phones": _count(reference),
        "folded_errors": tf.edit_distance(*folded, normalize=False),
        "folded_phones": _count(folded[1]),
    }


def _count(labels: tf.SparseTensor) -> tf.Tensor:
    ones = tf.ones_like(labels.values, tf.float32)
    return tf.math.unsorted_segment_sum(ones, labels.indices[:, 0], labels.dense_shape[0])


def _fold(labels: tf.SparseTensor) -> tf.SparseTensor:
    """Maps phones to their classes, without the deleted one."""
    classes = tf.gather(folding(), labels.values)
    return tf.sparse.retain(labels.with_values(classes), classes >= 0)
