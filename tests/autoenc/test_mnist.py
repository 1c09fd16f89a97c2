import gzip
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from fathom.autoenc.mnist import Mnist, draw_digits, read_idx, write_idx
from fathom.errors import FathomError

TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"

any_content = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def small(tmp_path):
    Mnist.synthesize(tmp_path, 0, train_size=7, test_size=5)
    return tmp_path


def error_of(directory):
    with pytest.raises(FathomError) as caught:
        Mnist.load(directory)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def header(*sizes):
    return bytes((0, 0, 8, len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes)


def test_four_files_are_read_as_images_and_labels(small):
    mnist = Mnist.load(small)
    assert mnist.train_images.shape == (7, 28, 28)
    assert mnist.test_images.shape == (5, 28, 28)
    assert mnist.train_labels.shape == (7,)
    assert mnist.test_labels.shape == (5,)
    arrays = (mnist.train_images, mnist.test_images, mnist.train_labels, mnist.test_labels)
    assert {array.dtype for array in arrays} == {np.dtype(np.uint8)}


def test_plain_files_are_read_as_compressed_ones_are(small):
    compressed = Mnist.load(small)
    for path in small.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    plain = Mnist.load(small)
    np.testing.assert_array_equal(plain.train_images, compressed.train_images)
    np.testing.assert_array_equal(plain.test_labels, compressed.test_labels)


@pytest.mark.parametrize("split", ["train", "t10k"])
@pytest.mark.parametrize("kind", ["images-idx3", "labels-idx1"])
def test_a_missing_file_is_named_in_the_error(small, split, kind):
    (small / f"{split}-{kind}-ubyte.gz").unlink()
    assert f"{split}-{kind}-ubyte.gz is missing" in error_of(small)
    assert f"python -m fathom data fetch mnist --data-dir {small}" in error_of(small)


def test_a_folder_in_place_of_a_file_is_an_error(small):
    (small / TRAIN_IMAGES).unlink()
    (small / TRAIN_IMAGES).mkdir()
    assert f"{TRAIN_IMAGES} is not a regular file" in error_of(small)


def test_a_file_that_may_not_be_read_is_an_error(small, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert f"{TRAIN_IMAGES}: Permission denied" in error_of(small)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an IDX file: magic number 0x, expected 0x000008"),
        (b"<html>", "is not an IDX file: magic number 0x3c68746d"),
        (gzip.compress(b"something else", mtime=0), "is not an IDX file: magic number 0x736f6d65"),
        (
            gzip.compress(header(1, 28, 28) + bytes(784), mtime=0)[:-9],
            "is damaged: Compressed file ended before the end-of-stream marker",
        ),
        (gzip.compress(header(1, 28, 28), mtime=0)[:8] + b"\xff" * 20, "is damaged"),
        (b"\0\0\x0d\x03" + bytes(12), "has elements of IDX type 0x0d, only unsigned bytes"),
        (header(1, 28), "header says 1 x 28 = 28"),
        (header(1, 28, 28)[:-1], "is truncated in its header, after 15 bytes"),
        (header(1, 28, 28) + bytes(783), "has 783 bytes of data, but its header says 1 x 28"),
        (
            header(1, 28, 28) + bytes(785),
            "has more than 784 bytes of data, but its header says 1 x 28",
        ),
        (header(0, 28, 28), "is empty: its header says 0 x 28 x 28"),
        (header(7, 784) + bytes(7 * 784), "has 2 dimensions, expected 3"),
        (header(7, 1, 28, 28) + bytes(7 * 784), "has 4 dimensions, expected 1 to 3"),
        (header(7, 14, 56) + bytes(7 * 784), "has images of 14 x 56, expected 28 x 28"),
    ],
)
def test_bad_images_are_an_error_that_says_what_is_wrong(small, content, message):
    (small / TRAIN_IMAGES).write_bytes(content)
    error = error_of(small)
    assert TRAIN_IMAGES in error
    assert message in error


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (header(6) + bytes(6), "has 6 labels for the 7 images of train-images-idx3-ubyte.gz"),
        (header(7) + b"\0\1\2\12\4\5\6", "has label 10 at position 3, expected 0 to 9"),
        (header(7, 1) + bytes(7), "has 2 dimensions, expected 1"),
    ],
)
def test_bad_labels_are_an_error_that_says_what_is_wrong(small, labels, message):
    (small / TRAIN_LABELS).write_bytes(labels)
    error = error_of(small)
    assert TRAIN_LABELS in error
    assert message in error


def read_or_refuse(path, content):
    path.write_bytes(content)
    try:
        array = read_idx(path)
    except FathomError as error:
        message = str(error)
    else:
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.uint8
        return
    assert path.name in message
    assert "\n" not in message


@pytest.mark.parametrize("packed", [bytes, gzip.compress, b"\x1f\x8b\x08".__add__])
@any_content
@given(content=st.binary(max_size=300))
def test_random_bytes_are_an_array_or_an_error(tmp_path, packed, content):
    """Also in gzip, and where they claim to be."""
    read_or_refuse(tmp_path / "file", packed(content))


@any_content
@given(st.data())
def test_a_damaged_gzip_stream_is_an_array_or_an_error(tmp_path, data):
    content = bytearray(gzip.compress(header(2, 3) + b"abcdef", mtime=0))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(tmp_path / "file", bytes(content))


@any_content
@given(
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=5),
    st.binary(max_size=30),
)
def test_a_valid_header_with_a_random_tail_is_an_array_or_an_error(tmp_path, sizes, tail):
    read_or_refuse(tmp_path / "file", header(*sizes) + tail)


def test_a_header_that_claims_too_much_is_not_believed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(header(2**32 - 1, 28, 28) + bytes(100))
    tracemalloc.start()
    try:
        with pytest.raises(FathomError, match="has 100 bytes of data"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_no_more_of_a_gzip_file_is_unpacked_than_its_header_says(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(header(1, 28, 28) + bytes(50_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(FathomError, match="has more than 784 bytes of data"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_pipe_in_the_place_of_a_file_is_refused(small):
    (small / TRAIN_IMAGES).unlink()
    os.mkfifo(small / TRAIN_IMAGES)
    assert f"{TRAIN_IMAGES} is not a regular file" in error_of(small)


@pytest.mark.parametrize("folder", ["raw", "MNIST/raw"])
def test_torchvisions_folder_is_read(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    Mnist.synthesize(tmp_path / folder, 0, train_size=7, test_size=5)
    assert len(Mnist.load(tmp_path).train_images) == 7


def test_names_with_a_dot_in_the_place_of_a_dash_are_read(small):
    for path in small.iterdir():
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert len(Mnist.load(small).train_images) == 7


def test_images_that_can_be_read_but_are_not_mnists_do_not_pass_for_it(small):
    with pytest.raises(FathomError, match="the train images can be read but are not MNIST's"):
        Mnist.verify(small, Mnist.Options(), False)


@any_content
@given(
    np_st.arrays(np.uint8, np_st.array_shapes(min_dims=1, max_dims=3, max_side=6)),
    st.sampled_from(["file", "file.gz"]),
)
def test_what_is_written_is_read_back(tmp_path, array, name):
    write_idx(tmp_path / name, array)
    np.testing.assert_array_equal(read_idx(tmp_path / name), array)


def test_a_file_is_compressed_where_its_name_says_so(tmp_path):
    write_idx(tmp_path / "file.gz", np.arange(6, dtype=np.uint8).reshape(2, 3))
    write_idx(tmp_path / "file", np.arange(6, dtype=np.uint8).reshape(2, 3))
    plain = (tmp_path / "file").read_bytes()
    assert plain == header(2, 3) + bytes(range(6))
    assert gzip.decompress((tmp_path / "file.gz").read_bytes()) == plain


def test_only_unsigned_bytes_are_written(tmp_path):
    with pytest.raises(TypeError, match="int64"):
        write_idx(tmp_path / "file", np.zeros(3, np.int64))


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FathomError, match=r"cannot write .*file"):
        write_idx(tmp_path / "nowhere" / "file", np.zeros(3, np.uint8))


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        Mnist.synthesize(tmp_path / name, seed, train_size=150, test_size=20)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert sorted(a) == sorted(file.name for file in Mnist.files)
    assert a == b
    assert all(a[name] != c[name] for name in a)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mnist")
    Mnist.synthesize(directory, 0)
    return Mnist.load(directory)


def test_the_synthetic_set_has_2000_and_500_digits_of_all_classes(synthetic):
    assert len(synthetic.train_images) == 2_000
    assert len(synthetic.test_images) == 500
    assert np.bincount(synthetic.train_labels, minlength=10).min() > 150


def test_the_synthetic_digits_are_as_bright_as_mnist(synthetic):
    assert synthetic.train_images.min() == 0
    assert synthetic.train_images.max() == 255
    assert 30 < synthetic.train_images.mean() < 37  # MNIST: 33.3


def test_no_two_synthetic_digits_are_alike(synthetic):
    images = np.concatenate([synthetic.train_images, synthetic.test_images])
    assert len(np.unique(images, axis=0)) == len(images)


def test_the_synthetic_digits_can_be_learned(synthetic):
    features, targets = synthetic.train_images.reshape(-1, 784) / 255, synthetic.train_labels
    centroids = np.stack([features[targets == digit].mean(0) for digit in range(10)])
    queries = synthetic.test_images.reshape(-1, 1, 784) / 255
    guesses = ((queries - centroids) ** 2).sum(-1).argmin(1)
    assert (guesses == synthetic.test_labels).mean() > 0.8


def test_a_digit_keeps_clear_of_the_image_border():
    images = draw_digits(np.arange(10, dtype=np.uint8).repeat(30), np.random.default_rng(3))
    ink = images.astype(float)
    inner = ink[:, 2:-2, 2:-2].sum()
    assert inner > 0.97 * ink.sum()


def test_the_real_files_are_right_when_they_are_unpacked_too(real_data, tmp_path):
    for path in (real_data / "mnist").glob("*.gz"):
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert "as its makers released" in Mnist.verify(tmp_path, Mnist.Options(), False)


def test_the_real_files_are_right_and_are_read(real_data):
    directory = real_data / "mnist"
    assert "as its makers released" in Mnist.verify(directory, Mnist.Options(), False)
    mnist = Mnist.load(directory)
    assert mnist.train_images.shape == (60_000, 28, 28)
    assert mnist.test_images.shape == (10_000, 28, 28)
    assert mnist.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert np.bincount(mnist.test_labels).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert round(mnist.train_images.mean(), 2) == 33.32
