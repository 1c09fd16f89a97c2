"""A small imitation of ImageNet: ten classes of drawn patterns in a tree of JPEG files.

Every image has its own size, scale, phase, colours, brightness and grain. Two classes share each of
five palettes, so that colour alone classifies at most half of the images. Mirroring an image does
not change its class.
"""

import colorsys
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

_WNIDS = """
    n01440764 n01443537 n01484850 n01491361 n01494475 n01496331 n01498041 n01514668 n01514859
    n01518878
"""
WNIDS = tuple(_WNIDS.split())  # the first ten classes of the challenge
IMAGES_PER_CLASS = {"train": 60, "val": 12}
_QUALITY = 85

# A pattern draws a mask, float32 from 0 to 1, on coordinates x [width] and y [height, 1] that span
# 0 to 1 along the shorter side.
Pattern = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def write_tree(directory: Path, seed: int) -> None:
    """Writes ``train/<WordNet id>/*.JPEG`` and ``val/<WordNet id>/*.JPEG``, the same for a seed."""
    for split, (folder, count) in enumerate(IMAGES_PER_CLASS.items()):
        for label, wnid in enumerate(WNIDS):
            (directory / folder / wnid).mkdir(parents=True)
            for number in range(count):
                pixels = draw(label, np.random.default_rng([seed, split, label, number]))
                encoded = tf.io.encode_jpeg(pixels, quality=_QUALITY).numpy()
                (directory / folder / wnid / f"{wnid}_{number}.JPEG").write_bytes(encoded)


def draw(label: int, rng: np.random.Generator) -> np.ndarray:
    """Draws one image of a class, 0 to 9, as ``rng`` varies it.

    Returns:
        uint8 [height, width, 3], RGB, the longer side about 350 and the shorter about 300 pixels.
    """
    width, height = int(rng.integers(310, 391)), int(rng.integers(260, 331))
    if rng.random() < 0.3:
        width, height = height, width
    shorter = min(width, height)
    x = np.arange(width, dtype=np.float32) / shorter
    y = np.arange(height, dtype=np.float32)[:, None] / shorter
    mask = _PATTERNS[label](x, y, rng)

    values = rng.permutation([rng.uniform(0.7, 1), rng.uniform(0.2, 0.5)])
    inside = _colour(label // 2 / 5 + rng.normal(0, 0.03), rng.uniform(0.5, 1), values[0])
    outside = _colour(rng.random(), rng.uniform(0, 0.6), values[1])
    light = 1 + rng.uniform(-0.3, 0.3) * x + rng.uniform(-0.3, 0.3) * y
    grain = rng.integers(-4, 5, (height, width), np.int8)
    image = np.empty((height, width, 3), np.uint8)
    for channel in range(3):  # much faster than all three together
        shade = outside[channel] + mask * (inside - outside)[channel]
        image[..., channel] = np.clip(shade * light + grain, 0, 255)
    return image


def _colour(hue: float, saturation: float, value: float) -> np.ndarray:
    """Returns a colour (each part from 0 to 1, the hue cyclic) as RGB, float32 [3], 0 to 255."""
    return np.array(colorsys.hsv_to_rgb(hue % 1, saturation, value), np.float32) * 255


def _wave(phase: np.ndarray) -> np.ndarray:
    """Returns a wave of period 1 and height 0 to 1 with steep but smooth flanks."""
    return np.clip(0.5 + 1.5 * np.sin(2 * np.pi * phase), 0, 1)


def _stripes(x: np.ndarray, y: np.ndarray, rng: np.random.Generator, angle: float) -> np.ndarray:
    """Draws stripes whose normal is at about ``angle`` (radians) to the horizontal."""
    angle += rng.uniform(-0.15, 0.15)
    along = x * np.float32(np.cos(angle)) + y * np.float32(np.sin(angle))
    return _wave(along * rng.uniform(5, 10) + rng.random())


def _slanted_stripes(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _stripes(x, y, rng, rng.choice([-1, 1]) * np.pi / 4)


def _checkers(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    frequency = rng.uniform(2, 4)
    across, down = _wave(x * frequency + rng.random()), _wave(y * frequency + rng.random())
    return np.abs(across - down)


def _centre_distance(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple:
    """Returns x and y from a point near the image's centre."""
    return x - x[-1] * rng.uniform(0.35, 0.65), y - y[-1] * rng.uniform(0.35, 0.65)


def _rings(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    right, down = _centre_distance(x, y, rng)
    return _wave(np.hypot(right, down) * rng.uniform(5, 9) + rng.random())


def _spokes(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    right, down = _centre_distance(x, y, rng)
    turns = np.arctan2(down, right) / (2 * np.pi)
    return _wave(turns * int(rng.integers(6, 13)) + rng.random())


def _discs(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mask = np.zeros((y.size, x.size), np.float32)
    for _ in range(rng.integers(3, 7)):
        distance = np.hypot(x - x[-1] * rng.random(), y - y[-1] * rng.random())
        mask = np.maximum(mask, np.clip((rng.uniform(0.12, 0.22) - distance) * 100, 0, 1))
    return mask


def _dots(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    frequency = rng.uniform(9, 14)
    rows, columns = x * frequency + rng.random(), y * frequency + rng.random()
    return np.clip(4 * np.sin(np.pi * rows) ** 2 * np.sin(np.pi * columns) ** 2 - 1.5, 0, 1)


def _mosaic(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws square tiles of random shades."""
    frequency = rng.uniform(8, 14)
    shades = rng.random((32, 32), np.float32)
    return shades[(y * frequency).astype(int), (x * frequency).astype(int)]


def _clouds(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Adds a few slow waves in random directions."""
    total = np.zeros((y.size, x.size), np.float32)
    for _ in range(5):
        right, down = rng.uniform(-2, 2), rng.uniform(-2, 2)
        total += np.sin(np.float32(2 * np.pi) * (x * right + y * down + rng.random()))
    return np.clip(0.5 + 0.25 * total, 0, 1)


_PATTERNS: tuple[Pattern, ...] = (
    functools.partial(_stripes, angle=np.pi / 2),
    functools.partial(_stripes, angle=0),
    _checkers,
    _rings,
    _discs,
    _dots,
    _slanted_stripes,
    _spokes,
    _mosaic,
    _clouds,
)
