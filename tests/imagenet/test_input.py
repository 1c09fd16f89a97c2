import itertools

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from fathom.core.data.pipeline import PREFETCHED, Sampler
from fathom.errors import FathomError
from fathom.imagenet.ilsvrc import ImageNet
from fathom.imagenet.images import Augmentation
from fathom.imagenet.input import evaluation_batches, training_batches
from fathom.imagenet.synthetic import WNIDS
from fathom.imagenet.tree import FileImages
from tests.imagenet.tfrecords import example, write

HOW = Augmentation(crop=32, shorter_side=(32, 48), colour_shift=0.1)
SIZE = 24


def write_image(path, shade):
    """Writes a plain image, so that its red tells which one it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 50), (shade, 0, 0)).save(path, "JPEG", quality=95)


@pytest.fixture
def tree(tmp_path):
    for i in range(SIZE):
        write_image(tmp_path / "train" / WNIDS[i // 3] / f"{i:02}.JPEG", 10 * i)
        write_image(tmp_path / "val" / WNIDS[i // 3] / f"{i:02}.JPEG", 10 * i)
    return tmp_path


def image_path(directory, number, split="train"):
    return directory / split / WNIDS[number // 3] / f"{number:02}.JPEG"


def cut_short(path):
    path.write_bytes(path.read_bytes()[:400])


def training(directory, n_batches, first_step=0, how=HOW, workers=2, **options):
    """Returns the data set and its first training batches of 8."""
    data = ImageNet.load(directory, **options)
    order = Sampler(data.train.size, 8, seed=5)
    batches = training_batches(data, data.train, order, how, first_step, workers)
    return data, [tuple(t.numpy() for t in b) for b in itertools.islice(batches, n_batches)]


def evaluation(directory, batch_size=10, views=1, **options):
    data = ImageNet.load(directory, **options)
    batches = evaluation_batches(
        data, data.validation, batch_size, crop=32, shorter_side=40, views=views, workers=2
    )
    return data, [tuple(t.numpy() for t in batch) for batch in batches]


def numbers(images):
    """Returns which image each was made of, where colours are not varied."""
    return [round((float(image[..., 0].mean()) + 123.68) / 10) for image in images]


PLAIN = Augmentation(crop=32, shorter_side=(40, 40))


def test_batches_have_the_documented_shapes_and_types(tree):
    _, [(images, labels)] = training(tree, 1)
    assert images.shape == (8, 32, 32, 3)
    assert images.dtype == np.float32
    assert labels.shape == (8,)
    assert labels.dtype == np.int32


def test_labels_go_with_their_images_and_an_epoch_meets_each_once(tree):
    _, batches = training(tree, 3, how=PLAIN)
    seen = [number for images, _ in batches for number in numbers(images)]
    assert sorted(seen) == list(range(SIZE))
    assert [number // 3 for number in seen] == [label for _, ls in batches for label in ls]


def test_a_batch_depends_on_the_seed_and_its_step_alone(tree):
    _, whole = training(tree, 6)
    _, rest = training(tree, 3, first_step=3, workers=1)
    for expected, batch in zip(whole[3:], rest, strict=True):
        np.testing.assert_array_equal(batch[0], expected[0])
        np.testing.assert_array_equal(batch[1], expected[1])
    assert not np.array_equal(whole[0][0], whole[3][0])


class Worker:
    """The strategy of a training by two workers, as a loader sees it in one of them."""

    def __init__(self, index):
        self.cluster_resolver = self
        self.task_id = index

    def cluster_spec(self):
        return tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})


@pytest.mark.parametrize("damaged", [False, True])
def test_a_worker_reads_its_own_images_alone_as_one_process_does(tree, monkeypatch, damaged):
    if damaged:
        cut_short(image_path(tree, 7))
    read, read_image = [], FileImages.read

    def count(self, index):
        tf.py_function(lambda number: read.append(int(number)), [index], [])
        return read_image(self, index)

    monkeypatch.setattr(FileImages, "read", count)
    _, whole = training(tree, 6, workers=1)
    assert len(read) >= 6 * 8
    for worker, rows in enumerate((slice(0, 4), slice(4, 8))):
        monkeypatch.setattr(tf.distribute, "get_strategy", lambda worker=worker: Worker(worker))
        read.clear()
        _, own = training(tree, 6, workers=1)
        assert damaged or len(read) <= (6 + 1 + PREFETCHED) * 4
        for batch, expected in zip(own, whole, strict=True):
            for found, every in zip(batch, expected, strict=True):
                np.testing.assert_array_equal(found, every[rows])


def test_evaluation_goes_through_the_split_in_order_to_its_last_image(tree):
    _, batches = evaluation(tree)
    assert [images.shape for images, _ in batches] == [
        (10, 1, 32, 32, 3),
        (10, 1, 32, 32, 3),
        (4, 1, 32, 32, 3),
    ]
    assert [n for images, _ in batches for n in numbers(images)] == list(range(SIZE))
    assert [label for _, labels in batches for label in labels] == [i // 3 for i in range(SIZE)]


def test_an_evaluation_batch_may_be_larger_than_the_split(tree):
    _, [(images, _)] = evaluation(tree, batch_size=100, views=10)
    assert images.shape == (SIZE, 10, 32, 32, 3)


# ------------------------------------------------------------ damaged images


def test_a_damaged_image_is_replaced_and_named_once(tree, capfd):
    _, good = training(tree, 9, how=PLAIN)
    cut_short(image_path(tree, 7))
    data, batches = training(tree, 9, how=PLAIN)
    name = f"train/{WNIDS[2]}/07.JPEG"
    assert data.skipped == {name: "it is not a whole JPEG or PNG image"}
    assert capfd.readouterr().err.count(f"skipped {name}") == 1

    for (images, labels), (expected, expected_labels) in zip(batches, good, strict=True):
        for i, number in enumerate(numbers(expected)):
            if number == 7:
                assert numbers(images)[i] != 7
                assert labels[i] == numbers(images)[i] // 3
            else:
                np.testing.assert_array_equal(images[i], expected[i])
                assert labels[i] == expected_labels[i]


def test_recovered_batches_depend_on_the_seed_and_their_step_alone(tree):
    cut_short(image_path(tree, 7))
    cut_short(image_path(tree, 20))
    _, whole = training(tree, 6)
    _, rest = training(tree, 2, first_step=4)
    for expected, batch in zip(whole[4:], rest, strict=True):
        np.testing.assert_array_equal(batch[0], expected[0])
        np.testing.assert_array_equal(batch[1], expected[1])


def test_a_damaged_image_is_left_out_of_an_evaluation(tree):
    cut_short(image_path(tree, 7, "val"))
    data, batches = evaluation(tree)
    assert [len(labels) for _, labels in batches] == [9, 10, 4]
    seen = [number for images, _ in batches for number in numbers(images)]
    assert seen == [i for i in range(SIZE) if i != 7]
    assert list(data.skipped) == [f"val/{WNIDS[2]}/07.JPEG"]


def test_an_evaluation_batch_of_damaged_images_alone_is_left_out(tree):
    for number in range(20, 24):
        cut_short(image_path(tree, number, "val"))
    data, batches = evaluation(tree)
    assert [len(labels) for _, labels in batches] == [10, 10]
    assert len(data.skipped) == 4


def test_with_strict_a_damaged_image_is_an_error_that_names_it(tree):
    cut_short(image_path(tree, 7))
    cut_short(image_path(tree, 7, "val"))
    with pytest.raises(FathomError, match=rf"^train/{WNIDS[2]}/07.JPEG cannot be used: it is not"):
        training(tree, 3, strict=True)
    with pytest.raises(FathomError, match=rf"^val/{WNIDS[2]}/07.JPEG cannot be used: it is not"):
        evaluation(tree, strict=True)


def test_an_image_that_memory_is_too_small_for_is_not_taken_for_damaged(tree, monkeypatch):
    def no_memory(encoded, **how):
        if tf.executing_eagerly():
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")
        with tf.control_dependencies([tf.debugging.Assert(False, ["OOM"])]):
            return tf.zeros([1, 32, 32, 3])

    monkeypatch.setattr("fathom.imagenet.input.evaluation_image", no_memory)
    data = ImageNet.load(tree)
    batches = evaluation_batches(data, data.validation, 2, crop=32, shorter_side=40, views=1)
    with pytest.raises(FathomError, match=r"^val/.*00.JPEG cannot be loaded: OOM.*free memory"):
        next(batches)
    assert data.skipped == {}


def test_an_image_that_vanished_is_skipped_by_name(tree):
    data = ImageNet.load(tree)
    batches = training_batches(data, data.train, Sampler(SIZE, SIZE, seed=0), HOW)
    data_path = image_path(tree, 3)
    data_path.unlink()
    _, labels = next(batches)
    assert labels.shape == (SIZE,)
    [(name, reason)] = data.skipped.items()
    assert name == f"train/{WNIDS[1]}/03.JPEG"
    assert reason.endswith("No such file or directory")


def test_data_in_which_nothing_can_be_read_is_one_line(tree):
    for number in range(SIZE):
        image_path(tree, number).write_bytes(b"no image")
    with pytest.raises(FathomError, match="nor can 19 others drawn in its place") as caught:
        training(tree, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "format"), [("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "PNG"), ("L", "PNG")]
)
def test_unusual_files_named_jpeg_are_read_like_the_others(tree, mode, format):
    path = image_path(tree, 7)
    Image.new("RGB", (40, 45), (70, 70, 70)).convert(mode).save(path, format)
    data, batches = training(tree, 3, how=PLAIN)
    seen = [image for images, labels in batches for image in images[labels == 2]]
    grey = [image for image in seen if abs(image[..., 1].mean() + 116.779 - 70) < 6]
    assert len(grey) == 1
    assert not data.skipped


# ------------------------------------------------------------ TFRecord shards


@pytest.fixture
def records(tree):
    return [
        example(encoded=image_path(tree, i).read_bytes(), class_label=i // 3 + 1)
        for i in range(SIZE)
    ]


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    return folder


def write_shards(folder, records, split="train"):
    write(folder / f"{split}-00000-of-00002", *records[:12])
    write(folder / f"{split}-00001-of-00002", *records[12:])


def test_shards_give_the_batches_that_the_tree_gives(tree, shards, records):
    write_shards(shards, records)
    _, from_tree = training(tree, 4)
    _, from_shards = training(shards, 4)
    for expected, batch in zip(from_tree, from_shards, strict=True):
        np.testing.assert_array_equal(batch[0], expected[0])
        np.testing.assert_array_equal(batch[1], expected[1])


def test_a_record_with_a_wrong_checksum_is_skipped_by_its_number(shards, records):
    write_shards(shards, records, "validation")
    path = shards / "validation-00001-of-00002"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    data, batches = evaluation(shards)
    assert [len(labels) for _, labels in batches] == [10, 10, 3]
    [(name, reason)] = data.skipped.items()
    assert name == "validation-00001-of-00002 record 11"
    assert reason.startswith("corrupted record")


@pytest.mark.parametrize(
    ("content", "missing"),
    [(example(encoded=b"x"), "image/class/label"), (example(class_label=1), "image/encoded")],
)
def test_a_record_without_a_feature_is_skipped_by_its_number(shards, records, content, missing):
    write_shards(shards, [*records[:2], content, *records[3:]])
    data, _ = training(shards, 3)
    [(name, reason)] = data.skipped.items()
    assert name == "train-00000-of-00002 record 2"
    assert missing in reason
    assert "\n" not in reason


def test_with_strict_a_damaged_record_is_an_error_that_names_it(shards, records):
    write_shards(shards, [*records[:2], b"no example", *records[3:]])
    with pytest.raises(FathomError, match=r"^train-00000-of-00002 record 2 cannot be used: "):
        training(shards, 3, strict=True)


@pytest.mark.parametrize(
    ("background_class", "label", "advice"),
    [(True, 0, "background_class=false"), (False, 1000, "background_class=true")],
)
def test_a_label_outside_the_classes_names_the_option(
    tree, shards, records, background_class, label, advice
):
    wrong = example(encoded=image_path(tree, 2).read_bytes(), class_label=label)
    write_shards(shards, [*records[:2], wrong, *records[3:]])
    with pytest.raises(FathomError, match=f"--set {advice}") as caught:
        training(shards, 3, background_class=background_class)
    assert str(caught.value).startswith("train-00000-of-00002 record 2 has label ")


def test_a_label_outside_the_classes_that_have_names_is_an_error(shards, records):
    (shards / "synsets.txt").write_text("\n".join(WNIDS[: SIZE // 3]))
    write_shards(shards, records)
    training(shards, 3)
    with pytest.raises(FathomError, match=r"has label 8, outside 0\.\.7: .*background_class=true"):
        training(shards, 3, background_class=False)


# ------------------------------------------------------------ real photographs


def test_all_real_photographs_decode(real_data):
    data = ImageNet.load(real_data / "imagenet", strict=True)
    batches = evaluation_batches(
        data, data.train, 32, crop=224, shorter_side=256, views=1, workers=2
    )
    read = [tuple(t.numpy() for t in batch) for batch in batches]
    images, labels = (np.concatenate(part) for part in zip(*read, strict=True))
    assert images.shape == (100, 1, 224, 224, 3)
    assert len(set(labels)) == 100
    assert images.std((1, 2, 3, 4)).min() > 10  # not one of them is blank
