import os

import numpy as np
import pytest
import tensorflow as tf

from fathom.__main__ import main
from fathom.errors import FathomError
from fathom.imagenet.convert import default_shards
from fathom.imagenet.ilsvrc import ImageNet, convert
from fathom.imagenet.synthetic import WNIDS

A, B, C = WNIDS[:3]


@pytest.fixture
def tree(tmp_path):
    """A tree of 20 training and 6 validation files whose bytes are their paths."""
    tree = tmp_path / "tree"
    for split, count in (("train", 10), ("val", 3)):
        for wnid in (A, B):
            for number in range(count):
                path = tree / split / wnid / f"{wnid}_{number}.JPEG"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(str(path).encode())
    return tree


def content(images):
    """Returns every image's bytes and label, in the bytes' order."""
    read = (images.read(tf.constant(i, tf.int64)) for i in range(images.size))
    return sorted((encoded.numpy(), int(label)) for encoded, label in read)


def records(path):
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        yield tf.train.Example.FromString(record).features.feature


def error_of(*arguments):
    with pytest.raises(FathomError) as caught:
        convert(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_shards_read_back_as_the_tree_does(tree, tmp_path):
    convert(tree, tmp_path / "out", shards=3)
    ours, theirs = ImageNet.load(tmp_path / "out"), ImageNet.load(tree)
    assert content(ours.train) == content(theirs.train)
    assert content(ours.validation) == content(theirs.validation)
    assert ours.class_names == theirs.class_names == (A, B)
    np.testing.assert_array_equal(np.sort(ours.train.labels()), theirs.train.labels())


def test_labels_are_those_of_synsets_txt_which_is_kept(tree, tmp_path):
    (tree / "synsets.txt").write_text(f"{C}\n{B} goldfish\n{A} tench\n")
    convert(tree, tmp_path / "out", shards=1)
    ours = ImageNet.load(tmp_path / "out")
    assert ours.class_names == (C, B, A)
    assert content(ours.train) == content(ImageNet.load(tree).train)


def test_a_record_has_the_usual_features_and_counts_labels_from_one(tree, tmp_path):
    convert(tree, tmp_path / "out", shards=1)
    for feature in records(tmp_path / "out" / "train-00000-of-00001"):
        assert sorted(feature) == [
            "image/class/label",
            "image/class/synset",
            "image/encoded",
            "image/filename",
        ]
        (label,) = feature["image/class/label"].int64_list.value
        (wnid,) = feature["image/class/synset"].bytes_list.value
        (name,) = feature["image/filename"].bytes_list.value
        assert (A, B)[label - 1] == wnid.decode()
        assert (tree / "train" / wnid.decode() / name.decode()).is_file()


def test_shards_are_named_as_usual_and_mix_the_classes(tree, tmp_path):
    convert(tree, tmp_path / "out", shards=8)
    names = sorted(os.listdir(tmp_path / "out"))
    train = [f"train-{i:05}-of-00008" for i in range(8)]
    assert names == ["synsets.txt", *train, "validation-00000-of-00001"]
    sizes = [len(list(records(tmp_path / "out" / name))) for name in train]
    assert sizes == [3, 3, 3, 3, 2, 2, 2, 2]
    convert(tree, tmp_path / "two", shards=2)
    for name in ("train-00000-of-00002", "train-00001-of-00002"):
        synsets = {
            f["image/class/synset"].bytes_list.value[0] for f in records(tmp_path / "two" / name)
        }
        assert synsets == {A.encode(), B.encode()}


def test_the_default_number_of_shards_is_the_usual_one_for_the_full_set():
    assert default_shards(1_281_167) == 1024
    assert default_shards(20) == 1


def test_every_conversion_writes_the_same_bytes(tree, tmp_path):
    for name in ("one", "two"):
        convert(tree, tmp_path / name, shards=2)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_an_interrupted_conversion_goes_on_from_its_last_whole_shard(tree, tmp_path):
    def interrupt(done, total):
        if done > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(tree, tmp_path / "out", 4, interrupt)
    assert not (tmp_path / "out").exists()
    part = tmp_path / "out.part"
    whole = part / "train-00000-of-00004"
    kept = whole.stat().st_mtime_ns
    convert(tree, tmp_path / "out", 4)
    assert not part.exists()
    assert (tmp_path / "out" / whole.name).stat().st_mtime_ns == kept
    assert len(os.listdir(tmp_path / "out")) == 6
    assert content(ImageNet.load(tmp_path / "out").train) == content(ImageNet.load(tree).train)


def test_another_conversions_rest_is_not_taken_for_ours(tree, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(tree, tmp_path / "out", 4, interrupt)
    assert f"{tmp_path / 'out.part'} is left from a conversion" in error_of(
        tree, tmp_path / "out", 5
    )


def test_progress_tells_the_images_done_and_their_number(tree, tmp_path):
    messages = []
    convert(tree, tmp_path / "out", 2, lambda done, total: messages.append((done, total)))
    assert messages == [(10, 26), (20, 26), (26, 26)]


def test_a_file_that_cannot_be_read_is_named_and_leaves_no_shard(tree, tmp_path):
    missing = tree / "val" / A / f"{A}_0.JPEG"
    missing.unlink()
    missing.symlink_to("nowhere")
    assert error_of(tree, tmp_path / "out", 1).startswith(f"cannot read {missing}: No such file")
    assert not (tmp_path / "out").exists()
    assert "validation-00000-of-00001" not in os.listdir(tmp_path / "out.part")


@pytest.mark.parametrize("shards", [0, -1, 21])
def test_a_number_of_shards_that_cannot_be_is_refused(tree, tmp_path, shards):
    message = error_of(tree, tmp_path / "out", shards)
    assert message == f"cannot make {shards} shards of 20 train images"
    assert os.listdir(tmp_path) == ["tree"]


def test_a_folder_that_is_there_is_left_alone(tree, tmp_path):
    (tmp_path / "out").mkdir()
    assert "already exists" in error_of(tree, tmp_path / "out", 1)
    assert os.listdir(tmp_path / "out") == []


def test_shards_are_not_converted_again(tree, tmp_path):
    convert(tree, tmp_path / "out", shards=1)
    message = error_of(tmp_path / "out", tmp_path / "again", 1)
    assert message == f"{tmp_path / 'out'} holds TFRecord shards already"


def test_validation_images_without_ground_truth_are_not_passed_over(tree, tmp_path):
    (tree / "val").rename(tmp_path / "old")
    (tree / "val").mkdir()
    (tree / "val" / "ILSVRC2012_val_00000001.JPEG").touch()
    message = error_of(tree, tmp_path / "out", 1)
    assert f"{tree / 'val'} has no class folders and its ground truth is missing" in message
    assert "out" not in os.listdir(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tree, tmp_path):
    (tmp_path / "file").touch()
    assert str(tmp_path / "file" / "out.part") in error_of(tree, tmp_path / "file" / "out", 1)


def test_the_command_converts_and_says_where(tree, tmp_path, capsys):
    arguments = ["data", "convert", "imagenet", "--to", "tfrecord", "--data-dir", str(tree)]
    with pytest.raises(SystemExit) as exit_:
        main([*arguments, "--out", str(tmp_path / "out"), "--shards", "2"])
    assert exit_.value.code == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert ImageNet.load(tmp_path / "out").train.size == 20


def test_the_command_refuses_other_data_sets_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["data", "convert", "mnist", "--to", "tfrecord", "--out", str(tmp_path / "out")])
    assert exit_.value.code == 2
    assert capsys.readouterr().err == (
        "fathom: error: mnist cannot be converted to tfrecord: it has no other form\n"
    )


def test_real_images_are_the_same_bytes_in_shards(real_data, tmp_path):
    convert(real_data / "imagenet", tmp_path / "out", shards=4)
    ours, theirs = ImageNet.load(tmp_path / "out"), ImageNet.load(real_data / "imagenet")
    assert content(ours.train) == content(theirs.train)
    assert ours.class_names == theirs.class_names
