"""MNIST (LeCun, Cortes and Burges, 1998): handwritten digits in IDX files."""

import gzip
import itertools
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.data.dataset import DataSet, RemoteFile
from fathom.errors import FathomError
from fathom.system.files import atomic_write

SIDE = 28
CLASSES = 10

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_SHA256_SUMS = """
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
"""


@dataclass(frozen=True, eq=False)
class Mnist(DataSet):
    """The digits in memory.

    Attributes:
        train_images: uint8 [n, 28, 28], 0 is background and 255 ink.
        train_labels: uint8 [n], each from 0 to 9.
        test_images: uint8 [m, 28, 28].
        test_labels: uint8 [m].
    """

    name = "mnist"
    title = "MNIST handwritten digits"
    licence = "CC BY-SA 3.0"
    home_page = "http://yann.lecun.com/exdb/mnist/"
    layout = "{train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with .gz"
    files = tuple(
        RemoteFile(name, sha256, tuple(mirror + name for mirror in _MIRRORS))
        for sha256, name in map(str.split, _SHA256_SUMS.strip().splitlines())
    )

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @classmethod
    def load(cls, directory: Path) -> "Mnist":
        """Reads the four files, each gzip-compressed or plain.

        Raises:
            FathomError: a file is missing, unreadable or malformed, or images and labels do not
                belong together; the message names the file.
        """
        return cls(*_load_split(directory, "train"), *_load_split(directory, "t10k"))

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 2_000, test_size: int = 500
    ) -> None:
        """Writes digits that are drawn with a randomly deformed pen, in MNIST's own format."""
        rng = np.random.default_rng(seed)
        for split, size in (("train", train_size), ("t10k", test_size)):
            labels = rng.integers(CLASSES, size=size, dtype=np.uint8)
            write_idx(directory / f"{split}-images-idx3-ubyte.gz", draw_digits(labels, rng))
            write_idx(directory / f"{split}-labels-idx1-ubyte.gz", labels)


def _load_split(directory: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and the labels of one split, which belong together."""
    images_path = _present(directory / f"{split}-images-idx3-ubyte")
    labels_path = _present(directory / f"{split}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    for path, array, rank in ((images_path, images, 3), (labels_path, labels, 1)):
        if array.ndim != rank:
            raise FathomError(f"{path} has {array.ndim} dimensions, expected {rank}")
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise FathomError(f"{images_path} has images of {height} x {width}, expected 28 x 28")
    if len(images) != len(labels):
        raise FathomError(
            f"{labels_path} has {len(labels)} labels for the {len(images)} images of "
            f"{images_path.name}"
        )
    if labels.max() >= CLASSES:
        position = int(labels.argmax())
        raise FathomError(
            f"{labels_path} has label {labels[position]} at position {position}, expected 0 to 9"
        )
    return images, labels


def _present(plain: Path) -> Path:
    """Returns the file, or else its compressed twin."""
    twin = plain.with_name(f"{plain.name}.gz")
    for path in (twin, plain):
        if path.exists():
            return path
    raise FathomError(
        f"{twin} is missing; MNIST is expected as {Mnist.layout}: get what is missing by python -m "
        f"fathom data fetch mnist --data-dir {plain.parent}"
    )


def read_idx(path: Path) -> np.ndarray:
    """Reads an IDX file of unsigned bytes, gzip-compressed or plain; its content decides which.

    The format is a magic number (two zero bytes, the element type, the number of dimensions), one
    big-endian uint32 for each dimension, then the elements, the last dimension varying fastest.

    Returns:
        uint8 array of the header's shape, read-only.

    Raises:
        FathomError: the file is missing, unreadable, damaged, empty, not IDX, not of unsigned
            bytes, of more than three dimensions, or its header does not match its length.
    """
    content = _read_bytes(path)
    magic = content[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise FathomError(
            f"{path} is not an IDX file: magic number 0x{magic.hex()}, expected 0x000008 and the "
            f"number of dimensions"
        )
    if magic[2] != 0x08:
        raise FathomError(
            f"{path} has elements of IDX type 0x{magic[2]:02x}, only unsigned bytes (0x08) are "
            f"read: magic number 0x{magic.hex()}"
        )
    rank, start = magic[3], 4 + 4 * magic[3]
    if not 1 <= rank <= 3:
        raise FathomError(f"{path} has {rank} dimensions, expected 1 to 3: it is not of MNIST")
    if len(content) < start:
        raise FathomError(f"{path} is cut off in its header, after {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", rank, offset=4))
    if 0 in shape:
        raise FathomError(f"{path} is empty: its header says {_product(shape)}")
    if len(content) - start != math.prod(shape):
        raise FathomError(
            f"{path} has {len(content) - start} bytes of data, but its header says "
            f"{_product(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _product(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} = {math.prod(shape)}"


def _read_bytes(path: Path) -> bytes:
    """Returns the content of a file, decompressed if it is gzip."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise FathomError(f"{path} is cut off: its gzip stream has no end") from error
    except (OSError, zlib.error) as error:
        raise FathomError(f"{path} is damaged: {error}") from error


def write_idx(path: Path, array: np.ndarray) -> None:
    """Writes an IDX file; the same array gives the same bytes.

    Args:
        path: the file; compressed where its name ends in ``.gz``.
        array: uint8, of one to three dimensions.

    Raises:
        FathomError: the file cannot be written.
    """
    if array.dtype != np.uint8:
        raise TypeError(f"an IDX file holds uint8 here, not {array.dtype}")
    header = bytes((0, 0, 0x08, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
                stream.write(header + array.tobytes())
        else:
            file.write(header + array.tobytes())


# A digit is one stroke of a pen: the control points "xy" of a quadratic B-spline on a grid of
# 10 x 10, y downwards. A repeated point makes a corner, or an end.
_STROKES = [
    [[int(x), int(y)] for x, y in stroke.split()]
    for stroke in (
        "50 10 04 07 39 69 97 93 80 40 10",
        "33 33 50 50 59 59",
        "12 12 20 60 82 74 37 09 09 99 99",
        "11 11 40 80 82 64 34 34 65 97 79 39 07 07",
        "30 30 06 06 95 95 72 72 79 79",
        "90 90 20 20 14 14 43 83 97 79 39 07 07",
        "70 70 41 04 08 29 79 97 84 44 07 07",
        "01 01 90 90 54 39 39",
        "50 20 02 34 65 97 79 29 06 34 74 92 80 40 20 12",
        "83 91 60 20 03 15 55 83 90 90 87 59 59",
    )
]


def draw_digits(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws one digit a label, each with its own shake, size, slant, turn, place and pen.

    Args:
        labels: uint8 [n], each from 0 to 9.
        rng: the source of all variation.

    Returns:
        uint8 [n, 28, 28], 0 is background and 255 ink.
    """
    images = np.empty((len(labels), SIDE, SIDE), np.uint8)
    for start in range(0, len(labels), 100):  # few enough to stay in the processor's cache
        block = slice(start, start + 100)
        count = len(labels[block])
        radius = rng.uniform(0.7, 1.5, (count, 1, 1))  # pixels
        distance = _distances(_place(_pen_paths(labels[block], rng), rng))
        images[block] = 255 * np.clip(radius + 0.5 - distance, 0, 1)
    return images


def _pen_paths(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the pen's path for each label: float [n, points, 2], x and y from -1 to 1."""
    longest = max(map(len, _STROKES))
    control = np.array([stroke + stroke[-1:] * (longest - len(stroke)) for stroke in _STROKES])
    points = control[labels] / 4.5 - 1 + rng.normal(0, 0.06, (len(labels), longest, 2))
    before, at, after = points[:, :-2], points[:, 1:-1], points[:, 2:]
    pieces = [
        (1 - t) ** 2 * (before + at) / 2 + 2 * t * (1 - t) * at + t**2 * (at + after) / 2
        for t in (0, 1 / 3, 2 / 3)
    ]
    return np.stack(pieces, 2).reshape(len(labels), -1, 2)


def _place(paths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sizes, slants, turns and shifts each path: float [n, points, 2], x and y in pixels."""
    count = len(paths)
    width, height = rng.uniform(4.5, 8, count), rng.uniform(8, 10, count)
    slant, turn = rng.normal(0.15, 0.2, count), rng.normal(0, 0.1, count)
    x, y = paths[..., 0].T * width, paths[..., 1].T * height
    x = x - slant * y
    x, y = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    centre = (SIDE - 1) / 2 + rng.uniform(-1.5, 1.5, (2, count))
    return np.stack([x + centre[0], y + centre[1]], -1).swapaxes(0, 1)


def _distances(paths: np.ndarray) -> np.ndarray:
    """Returns how far each pixel's centre is from the path: float [n, 28, 28], in pixels."""
    pixel_y, pixel_x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    corners = paths.astype(np.float32)[..., None, None]  # [n, points, 2, 1, 1]
    nearest = np.full((len(paths), SIDE, SIDE), np.inf, np.float32)
    for begin, end in itertools.pairwise(corners.swapaxes(0, 1)):
        along_x, along_y = end[:, 0] - begin[:, 0], end[:, 1] - begin[:, 1]
        from_x, from_y = pixel_x - begin[:, 0], pixel_y - begin[:, 1]
        length = np.maximum(along_x**2 + along_y**2, 1e-6)
        share = np.clip((from_x * along_x + from_y * along_y) / length, 0, 1)
        square = (from_x - share * along_x) ** 2 + (from_y - share * along_y) ** 2
        np.minimum(nearest, square, out=nearest)
    return np.sqrt(nearest)
