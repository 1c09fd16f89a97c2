"""Decoding, augmentation and cropping of photographs, as in the ImageNet papers.

Everything here uses TensorFlow operations and explicit seeds. Only the window of a JPEG is decoded;
PNG files, regardless of their name, are decoded whole. EXIF orientation is ignored, as in training
the published networks. Grayscale and CMYK are converted to RGB.
"""

from dataclasses import dataclass

import tensorflow as tf

MEAN_RGB = (123.68, 116.779, 103.939)
"""The training set's mean of each channel from 0 to 255: VGG, section 2.1; its models' values."""

# Principal components of the training set's RGB values, for AlexNet, section 4.1. The paper does
# not print them; these values are from Torch's ResNet training code and commonly used.
_EIGENVALUES = (0.2175 * 255, 0.0188 * 255, 0.0045 * 255)
_EIGENVECTORS = (
    (-0.5675, 0.7192, 0.4009),
    (-0.5808, -0.0045, -0.8140),
    (-0.5836, -0.6948, 0.4203),
)


@dataclass(frozen=True)
class Augmentation:
    """Cropping and augmentation of training images.

    An image's shorter side is scaled to a length S of at least ``crop``, drawn uniformly (VGG,
    section 3.1; ResNet, section 3.4).
    """

    crop: int  # side of the result in pixels
    shorter_side: tuple[int, int]  # minimum and maximum of S, in pixels
    centre_square: bool = False  # crop from the central S x S (AlexNet, section 2), not the whole
    colour_shift: float = 0.0  # standard deviation along RGB's principal components; 0: none
    augment: bool = True  # at random; otherwise the unchanged centre at the minimum scale


UNDECODABLE = "it is not a whole JPEG or PNG image"


def image_sides(encoded: tf.Tensor) -> tf.Tensor:
    """Returns an encoded image's height and width in pixels, int32 [2].

    Raises:
        tf.errors.InvalidArgumentError: neither a JPEG nor a PNG.
    """
    return tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: tf.io.extract_jpeg_shape(encoded)[:2],
        lambda: tf.shape(tf.io.decode_png(encoded, channels=3))[:2],
    )


def decode(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a whole JPEG or PNG file: uint8 [height, width, 3], RGB.

    Raises:
        tf.errors.InvalidArgumentError: the file is neither, or is damaged.
    """
    return decode_window(encoded, tf.zeros([2], tf.int32), image_sides(encoded))


def decode_window(encoded: tf.Tensor, origin: tf.Tensor, sides: tf.Tensor) -> tf.Tensor:
    """Decodes a rectangle of an image.

    Equals decoding the whole and cropping, except for the colour of the outermost columns of a JPEG
    with chroma subsampling, which lack their neighbours outside the window.

    Args:
        encoded: string scalar, a JPEG or PNG file.
        origin: int32 [2], the window's top and left.
        sides: int32 [2], the window's height and width.

    Returns:
        uint8 [height, width, 3], RGB.

    Raises:
        tf.errors.InvalidArgumentError: the file is damaged in or before the window, or the window
            is not within the image.
    """
    window = tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: tf.io.decode_and_crop_jpeg(
            encoded, tf.concat([origin, sides], 0), channels=3, dct_method="INTEGER_ACCURATE"
        ),
        lambda: tf.slice(
            tf.io.decode_png(encoded, channels=3),
            tf.concat([origin, [0]], 0),
            tf.concat([sides, [3]], 0),
        ),
    )
    return tf.ensure_shape(window, [None, None, 3])


def training_image(encoded: tf.Tensor, seed: tf.Tensor, how: Augmentation) -> tf.Tensor:
    """Returns a network's input from an image: scaled, cropped, mirrored, colour shifted, centred.

    The papers scale the image, then crop. Here the crop's window is chosen in the original image,
    and only it is decoded and scaled. The results differ slightly: the window is rounded to
    original pixels, so that it may be off by half of one, and the outermost pixels of the crop lack
    their outer neighbours. Scaling is bilinear without a low-pass filter.

    Args:
        encoded: string scalar, a JPEG or PNG file.
        seed: int64 [2].
        how: cropping and augmentation.

    Returns:
        float32 [crop, crop, 3], RGB on a scale of 0 to 255 minus ``MEAN_RGB``.

    Raises:
        tf.errors.InvalidArgumentError: the file is not an image or is damaged.
    """
    image_size = image_sides(encoded)
    shortest = tf.reduce_min(image_size)
    area = tf.stack([shortest, shortest]) if how.centre_square else image_size
    draws = tf.random.stateless_uniform([4], seed)  # scale, top, left, mirroring
    least, greatest = how.shorter_side
    scaled_side = least + _whole_number(draws[0], greatest - least + 1) if how.augment else least

    window = tf.cast(tf.round(how.crop * shortest / scaled_side), tf.int32)
    window = tf.clip_by_value(window, 1, shortest)
    room = area - window
    place = _whole_number(draws[1:3], room + 1) if how.augment else room // 2
    origin = (image_size - area) // 2 + place
    pixels = decode_window(encoded, origin, tf.stack([window, window]))
    image = _resize(pixels, how.crop)

    offset = -tf.constant(MEAN_RGB)
    if how.augment:
        image = tf.cond(draws[3] < 0.5, lambda: tf.reverse(image, [1]), lambda: image)
        offset += _colour_offset(seed, how.colour_shift)
    return _add_colour(image, offset)


def evaluation_image(encoded: tf.Tensor, *, crop: int, shorter_side: int, views: int) -> tf.Tensor:
    """Returns the test views from an image's central square.

    Args:
        encoded: string scalar, a JPEG or PNG file.
        crop: side of a view in pixels.
        shorter_side: length S to which the image's shorter side is scaled; at least ``crop``.
        views: 1 for the centre; 10 for the four corners, the centre, and their mirror images
            (AlexNet, section 4.1), of the central S x S square.

    Returns:
        float32 [views, crop, crop, 3], RGB on a scale of 0 to 255 minus ``MEAN_RGB``.

    Raises:
        tf.errors.InvalidArgumentError: the file is not an image or is damaged.
    """
    image_size = image_sides(encoded)
    shortest = tf.reduce_min(image_size)
    pixels = decode_window(encoded, (image_size - shortest) // 2, tf.stack([shortest, shortest]))
    square = _add_colour(_resize(pixels, shorter_side), -tf.constant(MEAN_RGB))
    end = shorter_side - crop
    centre = (end // 2, end // 2)
    places = [centre] if views == 1 else [(0, 0), (0, end), (end, 0), (end, end), centre]
    crops = [square[y : y + crop, x : x + crop] for y, x in places]
    if views == 10:
        crops += [tf.reverse(image, [1]) for image in crops]
    return tf.stack(crops)


def _whole_number(uniform: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """Converts uniform numbers in [0, 1) to integers from 0 to ``count - 1`` (int32)."""
    return tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)


def _resize(pixels: tf.Tensor, side: int) -> tf.Tensor:
    """Returns uint8 [height, width, 3] scaled to float32 [side, side, 3]."""
    # Bilinear scaling is faster from floating point, including the cast.
    return tf.image.resize(tf.cast(pixels, tf.float32), [side, side])


def _add_colour(image: tf.Tensor, colour: tf.Tensor) -> tf.Tensor:
    """Returns float32 [side, side, 3] with ``colour``, float32 [3], added to each pixel."""
    side = image.shape[0]
    # Broadcasting three numbers takes four times as long as broadcasting a row.
    rows = tf.reshape(image, [side, side * 3]) + tf.tile(colour, [side])
    return tf.reshape(rows, [side, side, 3])


def _colour_offset(seed: tf.Tensor, deviation: float) -> tf.Tensor:
    """Returns the offset of AlexNet's colour augmentation (section 4.1), float32 [3]."""
    other_seed = tf.random.experimental.stateless_fold_in(seed, 1)
    weights = tf.random.stateless_normal([3], other_seed, stddev=deviation)
    return tf.linalg.matvec(tf.constant(_EIGENVECTORS), weights * tf.constant(_EIGENVALUES))
