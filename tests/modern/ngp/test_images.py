"""Image files, as a user may have them, and their colours between pixels."""

import hashlib
import struct

import numpy as np
import pytest
import tensorflow as tf

from fathom.errors import FathomError
from fathom.modern.ngp.images import Images
from fathom.modern.ngp.model import interpolated

PIXELS = np.random.default_rng(0).integers(256, size=(40, 30, 3), dtype=np.uint8)
PNG = tf.io.encode_png(PIXELS).numpy()
JPEG = tf.io.encode_jpeg(PIXELS).numpy()


def load(folder, content, name="a.png"):
    (folder / name).write_bytes(content)
    return Images.load(folder)


def test_the_first_image_by_name_is_read_whatever_else_is_there(tmp_path):
    (tmp_path / "README.md").write_text("no image")
    (tmp_path / "._a.png").write_text("of another system")
    load(tmp_path, PNG, "b.PNG")
    image = load(tmp_path, JPEG, "c.jpeg")
    assert image.path.name == "b.PNG"
    np.testing.assert_array_equal(image.pixels, PIXELS)


def test_a_jpeg_and_shades_of_grey_are_rgb(tmp_path):
    expected = tf.io.decode_jpeg(JPEG, dct_method="INTEGER_ACCURATE")
    np.testing.assert_array_equal(load(tmp_path, JPEG, "a.jpg").pixels, expected)
    grey = load(tmp_path, tf.io.encode_png(PIXELS[..., :1]).numpy(), "A.png").pixels
    np.testing.assert_array_equal(grey, np.repeat(PIXELS[..., :1], 3, axis=2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is neither a PNG nor a JPEG file"),
        (b"GIF89a" + bytes(100), "is neither a PNG nor a JPEG file"),
        (PNG[: len(PNG) // 2], "is damaged"),
        (PNG[:12], "is damaged"),
        (JPEG[: len(JPEG) // 2], "is damaged"),
        (JPEG[:20], "is damaged"),
        (PNG[:16] + struct.pack(">II", 100_000, 2_000) + PNG[24:], "has 100000 x 2000 pixels"),
    ],
    ids=["empty", "gif", "half a png", "png header", "half a jpeg", "jpeg header", "huge"],
)
def test_an_unusable_file_is_named_in_one_line(content, message, tmp_path):
    with pytest.raises(FathomError, match=message) as error:
        load(tmp_path, content)
    assert "a.png" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_image_is_named(tmp_path):
    with pytest.raises(FathomError, match="has no image: expected a PNG or JPEG"):
        Images.load(tmp_path)


def test_the_synthetic_picture_follows_its_seed(tmp_path):
    pictures = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        Images.synthesize(tmp_path / name, seed)
        pictures.append(Images.load(tmp_path / name).pixels)
    np.testing.assert_array_equal(pictures[0], pictures[1])
    assert np.any(pictures[0] != pictures[2])
    assert Images.verify(tmp_path / "a", None, True) == "picture.png, 512 x 512 pixels"


def test_the_synthetic_picture_is_the_same_on_every_processor(tmp_path):
    Images.synthesize(tmp_path, 0)
    digest = hashlib.sha256(Images.load(tmp_path).pixels.tobytes()).hexdigest()
    assert digest.startswith("40dee821358d90bc")


def test_colours_are_those_of_pixels_at_their_centres_and_of_the_nearest_at_the_edges():
    positions = [[10.5 / 30, 20.5 / 40], [0, 0], [1, 1], [0.2 / 30, 7.5 / 40]]
    expected = PIXELS[[20, 0, 39, 7], [10, 0, 29, 0]] / 255
    found = interpolated(tf.constant(PIXELS), tf.constant(positions, tf.float32))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_colours_between_pixels_are_bilinear():
    position = tf.constant([[11 / 30, (20.5 + 0.25) / 40]])
    pairs = PIXELS[20:22, 10:12].mean(axis=1) / 255
    found = interpolated(tf.constant(PIXELS), position)
    np.testing.assert_allclose(found[0], 0.75 * pairs[0] + 0.25 * pairs[1], atol=1e-4)


def test_an_image_of_one_pixel_has_its_colour_everywhere():
    found = interpolated(tf.constant(PIXELS[:1, :1]), tf.constant([[0.1, 0.9], [0.5, 0.5]]))
    np.testing.assert_allclose(found, np.repeat(PIXELS[0, :1] / 255, 2, axis=0), atol=1e-6)
