import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from fathom.imagenet.images import (
    MEAN_RGB,
    Augmentation,
    decode_window,
    evaluation_image,
    image_sides,
    training_image,
)


def encode(pixels, format="JPEG", mode="RGB", **options):
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, format, **options)
    return tf.constant(file.getvalue())


def smooth_image(height, width):
    """Returns a picture whose values tell the place: red grows to the right, green downwards."""
    y, x = np.mgrid[0:height, 0:width]
    red, green = 255 * x / (width - 1), 255 * y / (height - 1)
    return np.stack([red, green, np.full_like(red, 60)], -1).astype(np.uint8)


def seed(number):
    return tf.constant([7, number], tf.int64)


PLAIN = Augmentation(crop=64, shorter_side=(80, 80), augment=False)
CENTRE = Augmentation(crop=64, shorter_side=(80, 80), centre_square=True)


def pixels(image):
    return np.asarray(image) + MEAN_RGB


@pytest.mark.parametrize("window", [(0, 0, 90, 120), (17, 31, 40, 23), (89, 119, 1, 1)])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_a_window_equals_that_part_of_the_whole_image(format, window):
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (90, 120, 3), np.uint8)
    encoded = encode(noise, format, **({"subsampling": "4:4:4"} if format == "JPEG" else {}))
    top, left, height, width = window
    whole = tf.io.decode_image(encoded, channels=3)
    if format == "JPEG":
        whole = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
    part = decode_window(encoded, tf.constant([top, left]), tf.constant([height, width]))
    np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_the_sides_are_height_and_width(format):
    encoded = encode(np.zeros((40, 70, 3), np.uint8), format)
    assert image_sides(encoded).numpy().tolist() == [40, 70]


@pytest.mark.parametrize(
    ("format", "mode"),
    [("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "L"), ("PNG", "RGBA"), ("PNG", "P")],
)
def test_every_kind_of_file_becomes_the_rgb_that_pillow_sees(format, mode):
    encoded = encode(smooth_image(100, 100), format, mode)
    expected = Image.open(io.BytesIO(encoded.numpy())).convert("RGB").resize((80, 80))
    expected = np.asarray(expected.crop((8, 8, 72, 72)), float)
    difference = np.abs(pixels(training_image(encoded, seed(0), PLAIN)) - expected)
    assert difference.mean() < 3
    assert difference.max() < 16


def test_exif_orientation_is_ignored():
    exif = Image.Exif()
    exif[274] = 6  # the picture is to be turned by 90 degrees
    picture = smooth_image(100, 140)
    turned = training_image(encode(picture, exif=exif), seed(0), PLAIN)
    np.testing.assert_array_equal(turned, training_image(encode(picture), seed(0), PLAIN))


@pytest.mark.parametrize("sides", [(40, 40), (41, 2400), (2400, 40), (80, 80), (1000, 600)])
@pytest.mark.parametrize("augment", [False, True])
def test_images_of_all_sides_give_the_same_shape(sides, augment):
    encoded = encode(smooth_image(*sides))
    how = Augmentation(64, (64, 128), colour_shift=0.1, augment=augment)
    for number in range(5):
        image = training_image(encoded, seed(number), how)
        assert image.shape == (64, 64, 3)
        assert image.dtype == tf.float32
        assert np.isfinite(image).all()


def test_the_centre_crop_is_the_centre_of_the_scaled_image():
    encoded = encode(smooth_image(200, 300), quality=95)
    image = pixels(training_image(encoded, seed(0), PLAIN))
    # Scaled to 80 x 120, columns 28 to 91 of 120 and rows 8 to 71 of 80 remain.
    np.testing.assert_allclose(image[32, [0, 63], 0], [28.5 / 120 * 255, 91.5 / 120 * 255], atol=3)
    np.testing.assert_allclose(image[[0, 63], 32, 1], [8.5 / 80 * 255, 71.5 / 80 * 255], atol=3)


def test_the_crop_is_nearly_that_of_scaling_the_whole_image_first():
    encoded = encode(smooth_image(375, 500), quality=95)
    how = Augmentation(227, (256, 256), augment=False)
    whole = tf.io.decode_jpeg(encoded, dct_method="INTEGER_ACCURATE")
    scaled = tf.image.resize(whole, [256, 341])[14:241, 57:284]
    np.testing.assert_allclose(
        pixels(training_image(encoded, seed(0), how)), scaled, rtol=0, atol=4
    )


def crops(how, picture, count=60):
    encoded = encode(picture, quality=95)
    return np.stack([pixels(training_image(encoded, seed(i), how)) for i in range(count)])


def test_the_same_seed_gives_the_same_image_and_others_give_others():
    how = Augmentation(64, (70, 100), colour_shift=0.1)
    first, again = crops(how, smooth_image(90, 120), 8), crops(how, smooth_image(90, 120), 8)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first.mean((1, 2)), axis=0)) == 8


def test_half_of_the_images_are_mirrored():
    taken = crops(Augmentation(64, (80, 80)), smooth_image(100, 100), 200)
    mirrored = taken[:, 32, 0, 0] > taken[:, 32, -1, 0]
    assert 70 < mirrored.sum() < 130


def test_crops_reach_both_ends_of_the_image():
    taken = crops(Augmentation(64, (80, 80)), smooth_image(100, 200))
    assert taken[..., 0].min() < 20
    assert taken[..., 0].max() > 235


def test_with_a_centre_square_crops_stay_inside_it():
    taken = crops(CENTRE, smooth_image(100, 200))
    # The square's columns are 50 to 149 of 200: red from 64 to 191.
    assert 60 < taken[..., 0].min() < 70
    assert 185 < taken[..., 0].max() < 195
    assert taken[..., 1].min() < 10
    assert taken[..., 1].max() > 245


@pytest.mark.slow
def test_the_scale_varies_over_the_whole_range():
    taken = crops(Augmentation(64, (64, 128)), smooth_image(128, 128), 200)
    # The share of the image's height that is seen is 64 / S.
    share = (taken[:, -1, 32, 1] - taken[:, 0, 32, 1]) / 255
    assert 0.48 < share.min() < 0.55
    assert 0.93 < share.max() < 1.01


@pytest.mark.slow
def test_the_colour_shift_is_the_same_for_all_pixels_and_follows_the_principal_components():
    picture = np.full((80, 80, 3), 128, np.uint8)
    taken = crops(Augmentation(64, (64, 64), colour_shift=0.1), picture, 400)
    assert np.ptp(taken, axis=(1, 2)).max() < 1e-3
    covariance = np.cov(taken[:, 0, 0].T)
    values, vectors = np.linalg.eigh(covariance)
    np.testing.assert_allclose(np.sqrt(values[::-1]), [5.55, 0.479, 0.115], rtol=0.15)
    np.testing.assert_allclose(np.abs(vectors[:, 2]), [0.5675, 0.5808, 0.5836], atol=0.02)


def test_without_augmentation_the_seed_is_of_no_consequence():
    how = Augmentation(64, (80, 120), colour_shift=0.1, augment=False)
    taken = crops(how, smooth_image(100, 100), 4)
    np.testing.assert_array_equal(taken, taken[:1].repeat(4, 0))


def test_one_view_is_the_centre():
    encoded = encode(smooth_image(200, 300), quality=95)
    views = evaluation_image(encoded, crop=64, shorter_side=80, views=1)
    assert views.shape == (1, 64, 64, 3)
    np.testing.assert_allclose(views[0], training_image(encoded, seed(0), PLAIN), atol=3)


def test_ten_views_are_the_corners_and_centre_and_their_mirror_images():
    views = evaluation_image(
        encode(smooth_image(80, 160), quality=95), crop=64, shorter_side=80, views=10
    ).numpy()
    assert views.shape == (10, 64, 64, 3)
    np.testing.assert_array_equal(views[5:], views[:5, :, ::-1])
    corners = pixels(views)[:5, 0, 0, :2].round()  # red tells the column, green the row
    left, top, right, bottom = 40 / 159 * 255, 0, 56 / 159 * 255, 16 / 79 * 255
    expected = [(left, top), (right, top), (left, bottom), (right, bottom)]
    expected.append(((left + right) / 2, (top + bottom) / 2))
    np.testing.assert_allclose(corners, expected, atol=5)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(50)])
def test_what_is_no_image_is_an_operation_error(content):
    with pytest.raises(tf.errors.InvalidArgumentError):
        training_image(tf.constant(content), seed(0), PLAIN)


def test_a_file_cut_within_the_window_is_an_operation_error():
    whole = encode(smooth_image(200, 200)).numpy()
    with pytest.raises(tf.errors.InvalidArgumentError):
        training_image(tf.constant(whole[: len(whole) // 2]), seed(0), PLAIN)
