import numpy as np
import pytest
import tensorflow as tf

from fathom import AlexNet, FathomError
from fathom.imagenet.ilsvrc import ImageNet, convert
from fathom.imagenet.subset import keep_classes
from fathom.imagenet.synthetic import WNIDS, draw

A, B, C, D = WNIDS[:4]


@pytest.fixture
def tree(tmp_path):
    """A tree of four classes, three training and one validation image of each."""
    for split, count in (("train", 3), ("val", 1)):
        for label, wnid in enumerate((A, B, C, D)):
            folder = tmp_path / "tree" / split / wnid
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = draw(label, np.random.default_rng([label, i]))
                (folder / f"{i}.JPEG").write_bytes(tf.io.encode_jpeg(pixels).numpy())
    return tmp_path / "tree"


@pytest.fixture(params=["tree", "TFRecords"])
def directory(request, tree, tmp_path):
    if request.param == "tree":
        return tree
    convert(tree, tmp_path / "records", shards=3)
    return tmp_path / "records"


def content(images, mapping):
    """Returns every image's bytes and its label as ``mapping`` changes it."""
    read = [images.read(tf.constant(i, tf.int64)) for i in range(images.size)]
    return sorted((x.numpy(), mapping[int(y)]) for x, y in read if int(y) in mapping)


def test_the_kept_classes_are_numbered_in_the_order_given(directory):
    data = ImageNet.load(directory, strict=True)
    kept = keep_classes(data, [D, B])
    for ours, whole in ((kept.train, data.train), (kept.validation, data.validation)):
        assert content(ours, {0: 0, 1: 1}) == content(whole, {3: 0, 1: 1})
        assert sorted(ours.labels()) == [0] * (ours.size // 2) + [1] * (ours.size // 2)
    assert (kept.train.size, kept.validation.size) == (6, 2)
    assert kept.class_names == (D, B)
    assert kept.classes == 2
    assert kept.strict


def test_a_kept_image_is_named_as_in_the_whole_set(tree):
    kept = keep_classes(ImageNet.load(tree), [C])
    assert kept.train.describe(1) == f"train/{C}/1.JPEG"


def test_a_split_without_such_images_is_none(tree):
    (tree / "val" / A / "0.JPEG").unlink()
    kept = keep_classes(ImageNet.load(tree), [A])
    assert kept.train.size == 3
    assert kept.validation is None


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (["n99999999"], "'n99999999' is none of the data's classes"),
        ([""], "'' is none of the data's classes"),
        ([A, B, A], f"{A} is given twice"),
        ([A, WNIDS[5]], f"class {WNIDS[5]} has no images"),
    ],
)
def test_classes_that_cannot_be_kept_are_named(tree, kept, message):
    (tree / "synsets.txt").write_text("\n".join(WNIDS) + "\n")
    with pytest.raises(FathomError, match=message):
        keep_classes(ImageNet.load(tree), kept)


def test_shards_without_class_names_ask_for_synsets_txt(tree, tmp_path):
    convert(tree, tmp_path / "records", shards=1)
    (tmp_path / "records" / "synsets.txt").unlink()
    with pytest.raises(FathomError, match=r"put synsets\.txt"):
        keep_classes(ImageNet.load(tmp_path / "records"), [A])


def test_labels_counted_from_the_wrong_number_are_found_out(tree, tmp_path):
    convert(tree, tmp_path / "records", shards=1)
    data = ImageNet.load(tmp_path / "records", background_class=False)
    with pytest.raises(FathomError, match=r"has label 4, but .* background_class"):
        keep_classes(data, [A])


def test_a_record_without_label_is_named(tree, tmp_path):
    convert(tree, tmp_path / "records", shards=1)
    with tf.io.TFRecordWriter(str(tmp_path / "records" / "train-00000-of-00001")) as writer:
        writer.write(b"")
    with pytest.raises(FathomError, match=r"train-00000-of-00001 record 0 .* image/class/label"):
        keep_classes(ImageNet.load(tmp_path / "records"), [A])


def test_a_network_trains_and_is_evaluated_on_the_kept_classes(directory):
    options = {"image_size": 67, "smallest_side": 67, "largest_side": 67, "evaluation_side": 67}
    options |= {"hidden_units": 8, "batch_size": 4, "classes": 2, "data_dir": str(directory)}
    model = AlexNet("/cpu:0", options | {"keep_classes": f"{D}, {A}"})
    model.load_data()
    _, labels = next(model.training_batches(0))
    assert set(labels.numpy()) <= {0, 1}
    assert [len(labels) for _, labels in model.evaluation_batches()] == [2]
    assert model.describe_data()["classes"] == 2
    assert model.describe_data()["train_images"] == 6
