"""An image file, and a synthetic picture with structure at several scales."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fathom.core.data import DataSet
from fathom.errors import FathomError
from fathom.imagenet.images import decode
from fathom.system.device import CPU
from fathom.system.files import list_folder, read_file

_SUFFIXES = (".png", ".jpg", ".jpeg")
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_MOST_PIXELS = 2**26
_SIDE = 512  # of the synthetic picture


@dataclass(frozen=True, eq=False)
class Images(DataSet):
    """An image in memory."""

    name = "images"
    title = "an image"
    licence = "that of the image"
    home_page = "none: any image"
    layout = "a PNG or JPEG file; of several the first by name"
    synthesis = 2

    path: Path  # of its file
    pixels: np.ndarray  # uint8 [height, width, 3], RGB

    @classmethod
    def load(cls, directory: Path) -> "Images":
        """Reads the first image of a folder.

        Raises:
            FathomError: there is none, or it cannot be read, is damaged or too large.
        """
        shown = (p for p in list_folder(directory) if not p.name.startswith("."))
        files = [p for p in shown if p.suffix.lower() in _SUFFIXES]
        if not files:
            raise FathomError(f"{directory} has no image: expected {cls.layout}")
        path = min(files)
        encoded = read_file(path)
        try:
            with CPU.placement():
                _check_size(encoded, path)
                return cls(path, decode(tf.constant(encoded)).numpy())
        except tf.errors.InvalidArgumentError as error:
            raise FathomError(f"{path} is damaged: it cannot be decoded") from error

    @classmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads the image."""
        image = cls.load(directory)
        height, width, _ = image.pixels.shape
        return f"{image.path.name}, {width} x {height} pixels"

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a picture of smooth shades, discs and stripes, of sizes from 1 to 256 pixels."""
        import scipy.ndimage  # slow to import, and only this needs it

        rng = np.random.default_rng(seed)
        picture = np.full((_SIDE, _SIDE, 3), 0.5)
        for cells in (2, 4, 8, 16, 32, 64, 128):
            noise = rng.normal(size=(cells, cells, 3))
            zoom = (_SIDE // cells, _SIDE // cells, 1)
            picture += 0.3 / cells**0.7 * scipy.ndimage.zoom(noise, zoom, order=1)
        y, x = np.mgrid[:_SIDE, :_SIDE]
        for radius in np.geomspace(_SIDE / 4, 4, 24):
            row, column = rng.integers(_SIDE, size=2)
            inside = (y - row) ** 2 + (x - column) ** 2 < radius**2
            # Not by the sign of a sine: where it should be 0, processors differ in it.
            stripes = (x + y) / max(3, radius / 4) % 1 < 0.5
            picture[inside] = rng.random(3)
            picture[inside & stripes] = rng.random(3)
        pixels = (255 * picture.clip(0, 1)).astype(np.uint8)
        (directory / "picture.png").write_bytes(tf.io.encode_png(pixels).numpy())


def _check_size(encoded: bytes, path: Path) -> None:
    """Raises FathomError if a file is neither a PNG nor a JPEG, or has too many pixels."""
    if encoded.startswith(_PNG):
        width, height = (int.from_bytes(encoded[i : i + 4], "big") for i in (16, 20))
    elif encoded.startswith(_JPEG):
        height, width, _ = tf.io.extract_jpeg_shape(encoded).numpy().tolist()
    else:
        raise FathomError(f"{path} is neither a PNG nor a JPEG file")
    if width * height > _MOST_PIXELS:
        raise FathomError(f"{path} has {width} x {height} pixels: at most {_MOST_PIXELS:,} fit")
