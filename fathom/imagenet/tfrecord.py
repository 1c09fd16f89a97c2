"""ImageNet in TFRecord shards, each record reached by itself.

TensorFlow reads a shard from its start to its end. A batch that depends on the seed and the step
alone needs the records in any order, so the shards' headers are read once to find where each
record begins. A record is, as TensorFlow's ``record_writer.h`` lays it out: its length (uint64),
the masked CRC-32C of the length (uint32), the bytes, and their masked CRC-32C (uint32).
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.system.device import CPU
from fathom.system.files import require_regular

_HEADER_BYTES = 12
_FRAME_BYTES = 16  # the header and the checksum behind the bytes

_ENCODED = "image/encoded"
_LABEL = "image/class/label"


def _crc_table() -> list[int]:
    """Returns the CRC-32C of every byte (Castagnoli polynomial, bits reversed)."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """Returns the checksum that TFRecord files keep: CRC-32C, rotated and offset (uint32).

    For short data only: the loop is in Python.
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def scan(path: Path) -> np.ndarray:
    """Finds the records of an uncompressed TFRecord file; reads their headers only.

    Returns:
        int64 [records]: the byte at which each record begins.

    Raises:
        FathomError: the file cannot be read, is empty, truncated, or not a TFRecord file; the
            message names the file and the byte.
    """
    offsets = []
    try:
        require_regular(path)
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise FathomError(f"{path} is empty: its images are in no other shard")
            offset = 0
            while offset < size:
                file.seek(offset)
                length = _record_length(file.read(_HEADER_BYTES), path, offset)
                offsets.append(offset)
                offset += length + _FRAME_BYTES
    except OSError as error:
        raise FathomError(f"{path} cannot be read: {error.strerror or error}") from error
    if offset > size:
        raise FathomError(f"{path} is truncated in the record at byte {offsets[-1]}")
    return np.array(offsets, np.int64)


def _record_length(header: bytes, path: Path, offset: int) -> int:
    if len(header) < _HEADER_BYTES:
        raise FathomError(f"{path} is truncated in the record at byte {offset}")
    if masked_crc32c(header[:8]) != int.from_bytes(header[8:], "little"):
        raise FathomError(
            f"{path} is damaged or not an uncompressed TFRecord file: no record begins at byte "
            f"{offset}"
        )
    return int.from_bytes(header[:8], "little")


def read_record(path: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Reads one record in graph operations; TensorFlow's own reader verifies its checksums.

    About 0.3 ms for a record of 100 kB in the page cache.

    Args:
        path: string scalar.
        offset: int64 scalar, a value from ``scan``.

    Returns:
        String scalar, the record's bytes.

    Raises:
        tf.errors.DataLossError: the record does not match its checksum.
    """
    scalar = {"output_types": [tf.string], "output_shapes": [tf.TensorShape([])]}
    records = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path],
        compression_type="",
        buffer_size=tf.constant(0, tf.int64),
        byte_offsets=[offset],
    )
    first = tf.raw_ops.TakeDataset(input_dataset=records, count=tf.constant(1, tf.int64), **scalar)
    return tf.raw_ops.DatasetToSingleElement(dataset=first, **scalar)[0]


class RecordImages:
    """The images of one split, in TFRecord shards.

    Args:
        shards: the shards' paths, in order.
        first_label: what the shards call class 0: 1 where their label 0 is a background class.

    Raises:
        FathomError: a shard is damaged or empty.
    """

    def __init__(self, shards: Sequence[Path], first_label: int) -> None:
        offsets = [scan(path) for path in shards]
        counts = [len(found) for found in offsets]
        self.size = sum(counts)
        self._first_label = first_label
        self._shards = list(shards)
        self._shard_starts = np.cumsum([0, *counts[:-1]])
        with CPU.placement():
            self._paths = tf.constant([str(path) for path in shards])
            self._shard = tf.constant(np.repeat(np.arange(len(shards), dtype=np.int32), counts))
            self._offset = tf.constant(np.concatenate(offsets))

    def read(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads one image and its label, as in ``ilsvrc.Images``.

        The label lies outside 0..999 where the shard's numbering is not the one that was given.

        Raises:
            tf.errors.OpError: a wrong checksum, or ``image/encoded`` or ``image/class/label`` is
                missing.
        """
        record = read_record(self._paths[self._shard[index]], self._offset[index])
        features = tf.io.parse_single_example(
            record,
            {
                _ENCODED: tf.io.FixedLenFeature([], tf.string),
                _LABEL: tf.io.FixedLenFeature([], tf.int64),
            },
        )
        label = features[_LABEL] - self._first_label
        return features[_ENCODED], tf.saturate_cast(label, tf.int32)

    def labels(self) -> np.ndarray:
        """Returns every image's label, int32 [size]; reads the shards once from start to end.

        Raises:
            FathomError: a record is damaged or has no label.
        """
        feature = {_LABEL: tf.io.FixedLenFeature([], tf.int64)}
        records = tf.data.TFRecordDataset(self._paths)
        parsed = records.map(lambda record: tf.io.parse_single_example(record, feature)[_LABEL])
        labels: list[int] = []
        try:
            labels.extend(parsed.prefetch(tf.data.AUTOTUNE).as_numpy_iterator())
        except tf.errors.OpError as error:
            name = self.describe(len(labels))
            raise FathomError(f"{name} is damaged or has no {_LABEL}") from error
        return tf.saturate_cast(np.array(labels) - self._first_label, tf.int32).numpy()

    def describe(self, index: int) -> str:
        """Names one image for a message: its shard and the record's number from 0."""
        shard = int(np.searchsorted(self._shard_starts, index, side="right")) - 1
        return f"{self._shards[shard].name} record {index - self._shard_starts[shard]}"
