"""TFRecord files of images."""

import tensorflow as tf


def example(**features):
    """Returns a serialized example: ``class_label=1`` is the feature ``image/class/label``."""
    kinds = {
        bytes: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])),
        int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=[v])),
    }
    features = {f"image/{k.replace('_', '/')}": kinds[type(v)](v) for k, v in features.items()}
    features = tf.train.Features(feature=features)
    return tf.train.Example(features=features).SerializeToString()


def write(path, *records):
    """Writes a file of records; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path
