import numpy as np
import tensorflow as tf

from fathom.speech import decoding
from fathom.speech.phones import BLANK, INDEX


def sparse(*utterances):
    most = max(map(len, utterances))
    values = np.zeros((len(utterances), most), np.int32)
    for row, phones in zip(values, utterances, strict=True):
        row[: len(phones)] = [INDEX[phone] for phone in phones]
    return decoding.sparse(tf.constant(values), tf.constant([len(u) for u in utterances]))


def logits(*utterances):
    """Frames that each are sure of a phone, or of the blank where there is None."""
    values = np.full((len(utterances), max(map(len, utterances)), BLANK + 1), -5.0, np.float32)
    for utterance, rows in zip(utterances, values, strict=True):
        for phone, row in zip(utterance, rows, strict=False):
            row[BLANK if phone is None else INDEX[phone]] = 5.0
    return tf.constant(values)


def errors(recognised, spoken):
    counted = decoding.errors(sparse(*recognised), sparse(*spoken))
    return {name: value.numpy().tolist() for name, value in counted.items()}


def test_repetitions_are_merged_and_blanks_dropped_up_to_each_utterances_end():
    outputs = logits(["s", "s", None, "s", "iy"], [None, "k", "k", "t", "t"])
    for beam_width in (1, 8):
        found = decoding.decode(outputs, tf.constant([5, 3]), beam_width)
        expected = sparse(["s", "s", "iy"], ["k"])
        np.testing.assert_array_equal(tf.sparse.to_dense(found), tf.sparse.to_dense(expected))


def test_a_beam_finds_the_phone_that_is_likely_over_all_its_paths():
    # The blank is the likeliest of each frame, but aa is the likeliest over both frames: 0.64.
    probabilities = np.full((1, 2, BLANK + 1), 1e-9, np.float32)
    probabilities[..., BLANK], probabilities[..., INDEX["aa"]] = 0.6, 0.4
    outputs, lengths = tf.math.log(tf.constant(probabilities)), tf.constant([2])
    assert decoding.decode(outputs, lengths, 1).values.numpy().tolist() == []
    assert decoding.decode(outputs, lengths, 4).values.numpy().tolist() == [INDEX["aa"]]


def test_errors_are_insertions_deletions_and_substitutions_of_each_utterance():
    counted = errors([["s", "iy"], ["k"], []], [["s", "ay", "t"], ["k"], ["t"]])
    assert counted["errors"] == counted["folded_errors"] == [2, 0, 1]
    assert counted["phones"] == counted["folded_phones"] == [3, 1, 1]


def test_phones_of_one_class_are_no_errors_and_the_glottal_stop_does_not_count():
    counted = errors([["ix", "q", "zh", "pcl"]], [["ih", "sh", "h#", "q"]])
    assert counted["errors"] == [4]
    assert counted["folded_errors"] == [0]
    assert counted["phones"] == [4]
    assert counted["folded_phones"] == [3]
