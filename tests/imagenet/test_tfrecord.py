import os
import struct

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathom.errors import FathomError
from fathom.imagenet.tfrecord import RecordImages, masked_crc32c, read_record, scan
from tests.imagenet.tfrecords import example, write

RECORDS = [b"one", b"", b"three" * 100]


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "train-00000-of-00001", *RECORDS)


def test_the_checksum_is_the_published_one():
    crc = 0xE3069283  # of "123456789", RFC 3720's CRC-32C
    expected = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == expected


def test_every_record_is_read_at_its_offset_in_any_order(path):
    offsets = scan(path)
    assert offsets.dtype == np.int64
    for number in (2, 0, 1, 2):
        record = read_record(tf.constant(str(path)), tf.constant(offsets[number]))
        assert record.numpy() == RECORDS[number]


def test_records_are_read_in_parallel_inside_a_dataset(path):
    offsets = tf.constant(scan(path))
    records = tf.data.Dataset.range(300).map(
        lambda i: read_record(tf.constant(str(path)), offsets[i % 3]), num_parallel_calls=4
    )
    assert list(records.as_numpy_iterator()) == RECORDS * 100


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(FathomError, match="empty is empty: its images are in no other shard"):
        scan(write(tmp_path / "empty"))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FathomError, match="pipe is not a regular file"):
        scan(tmp_path / "pipe")


@pytest.mark.parametrize("bytes_cut", [1, 4, 504, 515])
def test_a_file_cut_short_is_named_with_the_byte_of_its_last_record(path, bytes_cut):
    path.write_bytes(path.read_bytes()[:-bytes_cut])
    with pytest.raises(FathomError, match=rf"{path} is truncated in the record at byte 35$"):
        scan(path)


def test_a_damaged_length_is_named_with_its_byte(path):
    data = bytearray(path.read_bytes())
    data[19] ^= 1
    path.write_bytes(data)
    with pytest.raises(FathomError, match=rf"{path} is damaged .* at byte 19$"):
        scan(path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(FathomError, match=r"cannot read .*none: No such file"):
        scan(tmp_path / "none")


def test_a_length_beyond_the_file_is_cut_short_whatever_its_size(tmp_path):
    header = struct.pack("<Q", 2**64 - 1)
    (tmp_path / "huge").write_bytes(header + struct.pack("<I", masked_crc32c(header)) + b"x" * 50)
    with pytest.raises(FathomError, match="truncated in the record at byte 0"):
        scan(tmp_path / "huge")


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=200))
def test_random_bytes_give_offsets_or_one_line(tmp_path, data):
    check_scan(tmp_path / "random", data)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    position=st.integers(0, 50),
    replacement=st.binary(max_size=20),
    removed=st.integers(0, 20),
)
def test_a_changed_file_gives_offsets_or_one_line(path, position, replacement, removed):
    data = path.read_bytes()
    changed = data[:position] + replacement + data[position + removed :]
    check_scan(path.with_name("changed"), changed)


def check_scan(path, data):
    path.write_bytes(data)
    message = None
    try:
        offsets = scan(path)
    except FathomError as error:
        message = str(error)
    if message is None:
        assert (np.diff([*offsets, len(data)]) >= 16).all()
    else:
        assert message.startswith(f"{path} is ")
        assert "\n" not in message


def test_images_are_numbered_through_the_shards(tmp_path):
    a, b, c = (
        example(encoded=encoded, class_label=label)
        for encoded, label in ((b"a", 1), (b"b", 2), (b"c", 1000))
    )
    shards = [
        write(tmp_path / "train-00000-of-00002", a, b),
        write(tmp_path / "train-00001-of-00002", c),
    ]
    images = RecordImages(shards, first_label=1)
    assert images.size == 3
    read = [images.read(tf.constant(i, tf.int64)) for i in range(3)]
    assert [(encoded.numpy(), int(label)) for encoded, label in read] == [
        (b"a", 0),
        (b"b", 1),
        (b"c", 999),
    ]
    assert read[0][1].dtype == tf.int32
    assert images.describe(1) == "train-00000-of-00002 record 1"
    assert images.describe(2) == "train-00001-of-00002 record 0"


def test_a_label_too_large_for_int32_stays_too_large(tmp_path):
    large = example(encoded=b"a", class_label=2**32)
    shard = write(tmp_path / "train-00000-of-00001", large)
    images = RecordImages([shard], first_label=1)
    assert int(images.read(tf.constant(0, tf.int64))[1]) > 999
