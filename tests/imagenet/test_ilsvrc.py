import io
import os

import numpy as np
import pytest
import scipy.io
import tensorflow as tf
from PIL import Image

from fathom.errors import FathomError
from fathom.imagenet import ilsvrc
from fathom.imagenet.ilsvrc import ImageNet
from fathom.imagenet.synthetic import WNIDS
from tests.imagenet.tfrecords import example, write

DEVKIT = "ILSVRC2012_devkit_t12/data"
A, B, C = WNIDS[:3]


def jpeg(shade=0):
    file = io.BytesIO()
    Image.new("RGB", (40, 40), (shade, shade, shade)).save(file, "JPEG")
    return file.getvalue()


def put(directory, *names, content=None):
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg() if content is None else content)


def labels(images):
    """Returns the label of each image by its name."""
    return {
        images.describe(i): int(images.read(tf.constant(i, tf.int64))[1])
        for i in range(images.size)
    }


def error_of(directory, **options):
    with pytest.raises(FathomError) as caught:
        ImageNet.load(directory, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_labels_are_the_sorted_order_of_the_train_folders(tmp_path):
    put(tmp_path, f"train/{B}/x.JPEG", f"train/{A}/y.jpg", f"train/{A}/z.PNG", f"val/{B}/v.jpeg")
    data = ImageNet.load(tmp_path)
    assert labels(data.train) == {
        f"train/{A}/y.jpg": 0,
        f"train/{A}/z.PNG": 0,
        f"train/{B}/x.JPEG": 1,
    }
    assert labels(data.validation) == {f"val/{B}/v.jpeg": 1}
    assert data.class_names == (A, B)
    assert data.classes == 2
    assert not data.strict


def test_labels_are_the_places_in_synsets_txt(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", f"validation/{C}/v.JPEG")
    (tmp_path / "synsets.txt").write_text(f"{C} great white shark\n{B}\n{A} tench, Tinca tinca\n")
    data = ImageNet.load(tmp_path, strict=True)
    assert labels(data.train) == {f"train/{A}/x.JPEG": 2}
    assert labels(data.validation) == {f"validation/{C}/v.JPEG": 0}
    assert data.class_names == (C, B, A)
    assert data.strict


def test_other_files_beside_the_images_are_passed_over(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", f"train/{A}/list.txt", f"train/{A}/._x.JPEG")
    put(tmp_path, "train/.cache/x.JPEG", f"train/{A}.tar")
    assert labels(ImageNet.load(tmp_path).train) == {f"train/{A}/x.JPEG": 0}


@pytest.mark.parametrize(("here", "missing"), [("train", "validation"), ("val", "train")])
def test_one_split_is_enough(tmp_path, here, missing):
    put(tmp_path, f"{here}/{A}/x.JPEG")
    assert getattr(ImageNet.load(tmp_path), missing) is None


def test_a_read_image_is_the_files_bytes(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", content=jpeg(99))
    encoded, label = ImageNet.load(tmp_path).train.read(tf.constant(0, tf.int64))
    assert encoded.numpy() == jpeg(99)
    assert label.dtype == tf.int32


def test_a_folder_without_known_files_gets_the_layout(tmp_path):
    put(tmp_path, "photos/x.JPEG")
    message = error_of(tmp_path)
    assert str(tmp_path) in message
    assert ImageNet.layout in message


def test_a_missing_folder_is_named(tmp_path):
    assert str(tmp_path / "none") in error_of(tmp_path / "none")


def test_a_file_in_place_of_the_folder_gets_the_layout(tmp_path):
    put(tmp_path, "imagenet")
    assert ImageNet.layout in error_of(tmp_path / "imagenet")


@pytest.mark.parametrize("folder", ["train", f"train/{A}"])
def test_an_empty_split_is_named(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    assert error_of(tmp_path).startswith(f"{tmp_path / 'train'} has no images")


@pytest.mark.parametrize("name", ["cats", "n123", "n01440764x"])
def test_a_class_folder_that_is_no_wordnet_id_is_named(tmp_path, name):
    put(tmp_path, f"train/{A}/x.JPEG", f"train/{name}/x.JPEG")
    assert str(tmp_path / "train" / name) in error_of(tmp_path)


def test_a_validation_class_that_train_has_not_is_named(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", f"val/{B}/v.JPEG")
    assert f"class {B}" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "synsets.txt is empty"),
        (f"{A}\ntench\n", "synsets.txt line 2: expected a WordNet id"),
        (f"{A}\n\n{B}\n", "synsets.txt line 2: expected a WordNet id"),
        (f"{A}\n{B}\n{A}\n", f"synsets.txt: {A} occurs twice"),
        (f"{B}\n", f"class {A} "),
        ("\xff\xfe", "synsets.txt is not a text file"),
    ],
)
def test_a_faulty_synsets_txt_is_named(tmp_path, text, complaint):
    put(tmp_path, f"train/{A}/x.JPEG")
    (tmp_path / "synsets.txt").write_text(text, encoding="latin-1")
    assert complaint in error_of(tmp_path)


def test_more_classes_than_the_challenge_has_are_an_error(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG")
    (tmp_path / "synsets.txt").write_text("".join(f"n{i:08}\n" for i in range(1001)))
    assert "has 1001 classes; ILSVRC-2012 has 1000" in error_of(tmp_path)


# ------------------------------------------------------------ flat validation


VAL = ["val/ILSVRC2012_val_00000001.JPEG", "val/ILSVRC2012_val_00000003.JPEG"]


def write_devkit(directory, truth="2\n1\n1\n"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ILSVRC2012_validation_ground_truth.txt").write_text(truth)
    fields = [("ILSVRC2012_ID", object), ("WNID", object)]
    synsets = np.array([(1, C), (2, A), (1001, "n99999999")], dtype=fields)
    scipy.io.savemat(directory / "meta.mat", {"synsets": synsets})


@pytest.mark.parametrize("place", ["", "val", DEVKIT])
def test_flat_validation_images_are_labelled_by_the_devkit(tmp_path, place):
    put(tmp_path, f"train/{A}/x.JPEG", f"train/{C}/x.JPEG", *VAL)
    write_devkit(tmp_path / place)
    assert labels(ImageNet.load(tmp_path).validation) == {VAL[0]: 0, VAL[1]: 1}


@pytest.mark.parametrize("place", ["", "val", DEVKIT])
def test_flat_validation_images_are_labelled_by_a_list_of_wordnet_ids(tmp_path, place):
    put(tmp_path, *VAL)
    put(
        tmp_path / place,
        "imagenet_2012_validation_synset_labels.txt",
        content=f"{C}\n{B}\n{A}\n".encode(),
    )
    data = ImageNet.load(tmp_path)
    assert labels(data.validation) == {VAL[0]: 2, VAL[1]: 0}
    assert data.class_names == (A, B, C)


@pytest.mark.parametrize("missing", ["ILSVRC2012_validation_ground_truth.txt", "meta.mat"])
def test_flat_validation_without_ground_truth_says_what_to_get(tmp_path, missing):
    put(tmp_path, *VAL)
    write_devkit(tmp_path / DEVKIT)
    (tmp_path / DEVKIT / missing).unlink()
    assert "ILSVRC2012_validation_ground_truth.txt and meta.mat, into" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("truth", "complaint"),
    [
        ("1\n2\n", "has 2 images, but not number 3: ILSVRC2012_val_00000003.JPEG"),
        ("1\n0\n1\n", "line 2: '0' is not a class"),
        ("1\n1001\n1\n", "line 2: '1001' is not a class"),
        ("1\nx\n1\n", "line 2: 'x' is not a class"),
        ("", "ground_truth.txt is empty"),
    ],
)
def test_a_faulty_ground_truth_is_named(tmp_path, truth, complaint):
    put(tmp_path, *VAL)
    write_devkit(tmp_path, truth)
    assert complaint in error_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no matrix", b"MATLAB 5.0 MAT-file" + bytes(200)])
def test_a_faulty_meta_mat_is_named(tmp_path, content):
    put(tmp_path, *VAL)
    write_devkit(tmp_path)
    (tmp_path / "meta.mat").write_bytes(content)
    assert f"{tmp_path / 'meta.mat'} is not the devkit's meta.mat" in error_of(tmp_path)


def test_a_meta_mat_with_other_tables_is_named(tmp_path):
    put(tmp_path, *VAL)
    write_devkit(tmp_path)
    scipy.io.savemat(tmp_path / "meta.mat", {"other": 1})
    assert "is not the devkit's meta.mat" in error_of(tmp_path)


def test_a_flat_validation_image_with_another_name_is_named(tmp_path):
    put(tmp_path, *VAL, "val/holiday.JPEG")
    write_devkit(tmp_path)
    assert "holiday.JPEG" in error_of(tmp_path)


@pytest.mark.parametrize("truth", [True, False])
def test_validation_images_that_are_only_partly_in_class_folders_are_refused(truth, tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", f"val/{B}/ILSVRC2012_val_00000009.JPEG", *VAL)
    if truth:
        write_devkit(tmp_path)
    message = error_of(tmp_path)
    assert f"both in class folders, such as {B}, and beside them" in message
    assert "move all of them" in message


def test_empty_class_folders_beside_flat_validation_images_are_passed_over(tmp_path):
    put(tmp_path, *VAL)
    write_devkit(tmp_path)
    (tmp_path / "val" / A).mkdir()
    assert ImageNet.load(tmp_path).validation.size == len(VAL)


def test_train_beside_validation_images_without_ground_truth_can_be_trained_on(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", *VAL)
    data = ImageNet.load(tmp_path)
    assert data.train.size == 1
    assert data.validation is None
    assert f"{tmp_path / 'val'} has no class folders and its ground truth" in data.missing_truth


KAGGLE = "ILSVRC/Data/CLS-LOC"


@pytest.mark.parametrize("given", ["", "ILSVRC", KAGGLE])
def test_kaggles_folder_is_read_with_its_tables(tmp_path, given):
    put(tmp_path / KAGGLE, f"train/{A}/x.JPEG", f"train/{C}/x.JPEG", *VAL)
    (tmp_path / "LOC_synset_mapping.txt").write_text(f"{C} white shark\n{A} tench, Tinca\n")
    (tmp_path / "LOC_val_solution.csv").write_text(
        f"ImageId,PredictionString\nILSVRC2012_val_00000003,{A} 85 1 499 272 {A} 1 2 3 4 \n"
        f"ILSVRC2012_val_00000001,{C} 1 2 3 4\n"
    )
    data = ImageNet.load(tmp_path / given)
    assert data.class_names == (C, A)
    assert labels(data.validation) == {VAL[0]: 0, VAL[1]: 1}


def test_a_faulty_table_of_kaggle_is_named_with_its_line(tmp_path):
    put(tmp_path, *VAL)
    (tmp_path / "LOC_val_solution.csv").write_text("ImageId,PredictionString\nx,y\n")
    assert "LOC_val_solution.csv line 2: expected an image" in error_of(tmp_path)


def test_a_pipe_in_the_place_of_an_image_is_refused_and_not_waited_for(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG")
    os.mkfifo(tmp_path / f"train/{A}/y.JPEG")
    assert f"{tmp_path}/train/{A}/y.JPEG is not a regular file" in error_of(tmp_path)


# ------------------------------------------------------------ verification


def verify(directory, everything=False, **options):
    return ImageNet.verify(directory, ImageNet.Options(**options), everything)


def fault_of(directory, everything=False, **options):
    with pytest.raises(FathomError) as caught:
        verify(directory, everything, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_tree_is_decoded_and_missing_ground_truth_is_reported(tmp_path):
    put(tmp_path, f"train/{A}/x.JPEG", f"train/{A}/y.JPEG", *VAL)
    read = verify(tmp_path)
    assert read.startswith("2 of 2 training images can be decoded (--all: all); ")
    assert "ground truth is missing" in read


@pytest.mark.parametrize("content", [b"", b"junk", jpeg()[:-100]])
def test_an_image_that_cannot_be_decoded_is_named(tmp_path, content):
    put(tmp_path, f"train/{A}/x.JPEG")
    put(tmp_path, f"train/{A}/y.JPEG", content=content)
    fault = fault_of(tmp_path)
    assert f"train/{A}/y.JPEG cannot be used: it is not a whole JPEG or PNG image" in fault
    assert "user-defined function" not in fault


def test_a_sample_is_spread_over_the_images_and_all_are_read_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(ilsvrc, "_SAMPLE", 2)
    put(tmp_path, *(f"train/{A}/{i}.JPEG" for i in range(5)))
    put(tmp_path, f"train/{A}/3.JPEG", content=b"")
    assert verify(tmp_path).startswith("2 of 5 training images")
    assert "3.JPEG cannot be used" in fault_of(tmp_path, everything=True)
    put(tmp_path, f"train/{A}/4.JPEG", content=b"")
    assert "4.JPEG cannot be used" in fault_of(tmp_path)


def test_damaged_records_are_named_and_their_labels_are_checked(tmp_path):
    shard = tmp_path / "train-00000-of-00001"
    write_shard(shard, (jpeg(), 1000), (jpeg(9), 1))
    assert verify(tmp_path).startswith("2 of 2 training images")
    assert "label 1000, outside 0..999" in fault_of(tmp_path, background_class=False)
    (tmp_path / "synsets.txt").write_text(f"{A}\n{B}\n")
    assert "label 999, outside 0..1" in fault_of(tmp_path)
    (tmp_path / "synsets.txt").unlink()
    content = bytearray(shard.read_bytes())
    content[-50] ^= 1
    shard.write_bytes(content)
    assert "train-00000-of-00001 record 1 cannot be used" in fault_of(tmp_path)
    write(shard, b"no example")
    fault = fault_of(tmp_path)
    assert "train-00000-of-00001 record 0 cannot be used" in fault
    assert "JPEG" not in fault


# ------------------------------------------------------------ TFRecord shards


def write_shard(path, *examples):
    write(path, *(example(encoded=encoded, class_label=label) for encoded, label in examples))


@pytest.mark.parametrize("folders", [("", ""), ("train", "validation")])
def test_shards_are_found_in_either_place(tmp_path, folders):
    train, validation = (tmp_path / folder for folder in folders)
    write_shard(train / "train-00001-of-00002", (b"c", 3))
    write_shard(train / "train-00000-of-00002", (b"a", 1), (b"b", 2))
    write_shard(validation / "validation-00000-of-00001", (b"d", 1000))
    data = ImageNet.load(tmp_path)
    assert list(labels(data.train).values()) == [0, 1, 2]
    assert list(labels(data.validation).values()) == [999]
    assert data.classes == 1000


def test_without_a_background_class_labels_stay_as_they_are(tmp_path):
    write_shard(tmp_path / "train-00000-of-00001", (b"a", 0), (b"b", 999))
    data = ImageNet.load(tmp_path, background_class=False)
    assert list(labels(data.train).values()) == [0, 999]
    assert data.validation is None


def test_a_numbering_of_shards_is_refused_for_a_tree(tmp_path):
    put(tmp_path, f"train/{A}/0.JPEG")
    with pytest.raises(FathomError, match="no shards: leave out background_class=false"):
        ImageNet.load(tmp_path, background_class=False)


def test_a_missing_shard_is_named(tmp_path):
    for number in (0, 2):
        write_shard(tmp_path / f"train-{number:05}-of-00003", (b"a", 1))
    assert f"{tmp_path / 'train-00001-of-00003'} is missing" in error_of(tmp_path)
    write_shard(tmp_path / "train-00001-of-00003", (b"a", 1))
    write_shard(tmp_path / "validation" / "validation-00000-of-00002", (b"a", 1))
    assert "validation/validation-00001-of-00002 is missing" in error_of(tmp_path)


def test_shards_of_two_sets_are_an_error(tmp_path):
    for count in (1, 2):
        write_shard(tmp_path / f"train-00000-of-{count:05}", (b"a", 1))
    message = "has 2 train shards, but train-00000-of-00001 is of 1: keep those of one set"
    assert message in error_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "fault"), [(b"", "empty"), (b"no records at all", "damaged or no")]
)
def test_a_shard_without_records_is_named(tmp_path, content, fault):
    put(tmp_path, "train-00000-of-00001", content=content)
    assert f"{tmp_path / 'train-00000-of-00001'} is {fault}" in error_of(tmp_path)


# ------------------------------------------------------------ real photographs


def test_real_labels_are_the_places_in_synsets_txt(real_data):
    data = ImageNet.load(real_data / "imagenet")
    synsets = (real_data / "imagenet" / "synsets.txt").read_text().split()
    assert data.classes == 1000
    assert data.train.size == 100
    for name, label in labels(data.train).items():
        assert synsets[label] == name.split("/")[1]
