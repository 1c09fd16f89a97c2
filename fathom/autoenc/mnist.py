"""MNIST (LeCun, Cortes and Burges, 1998): handwritten digits in IDX files."""

import gzip
import hashlib
import io
import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.core.data.dataset import DataSet, Reading, RemoteFile
from fathom.core.data.files import open_unpacked
from fathom.errors import FathomError
from fathom.system.files import atomic_write, exists, list_folder
from fathom.system.memory import require_free_memory

SIDE = 28
CLASSES = 10
_LARGEST_RATIO = 1032  # maximum compression ratio of deflate

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
# Of the unpacked files, by attribute of Mnist: also valid for copies that were unpacked or
# recompressed.
_CONTENT_SHA256 = {
    "train_images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train_labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test_images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test_labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@dataclass(frozen=True, eq=False)
class Mnist(DataSet):
    """The digits in memory."""

    name = "mnist"
    title = "MNIST handwritten digits"
    licence = "CC BY-SA 3.0"
    home_page = "http://yann.lecun.com/exdb/mnist/"
    layout = (
        "{train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with .gz, also in MNIST/raw"
    )
    files = tuple(
        RemoteFile(name, sha256, tuple(mirror + name for mirror in _MIRRORS))
        for sha256, name in map(str.split, _SHA256_SUMS.strip().splitlines())
    )

    train_images: np.ndarray  # uint8 [n, 28, 28], 0 is background and 255 ink
    train_labels: np.ndarray  # uint8 [n], each from 0 to 9
    test_images: np.ndarray  # uint8 [m, 28, 28]
    test_labels: np.ndarray  # uint8 [m]

    @classmethod
    def load(cls, directory: Path) -> "Mnist":
        """Reads the four files, each gzip-compressed or plain.

        Raises:
            FathomError: a file is missing, unreadable or malformed, or images and labels do not
                match; the message names the file.
        """
        folder = _folder(directory)
        return cls(*_load_split(folder, "train"), *_load_split(folder, "t10k"))

    @classmethod
    def verify(cls, directory: Path, options: Reading, everything: bool) -> str:
        """Reads all images and labels, and compares them with the released ones."""
        mnist = cls.load(directory)
        for name, expected in _CONTENT_SHA256.items():
            digest = hashlib.sha256(_idx_bytes(getattr(mnist, name))).hexdigest()
            if digest != expected:
                raise FathomError(
                    f"{directory}: the {name.replace('_', ' ')} can be read but are not MNIST's: "
                    f"SHA-256 {digest} of the unpacked file, expected {expected}"
                )
        return "all images and labels are as its makers released them"

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 2_000, test_size: int = 500
    ) -> None:
        """Writes digits drawn with randomly deformed pen strokes, in MNIST's own format."""
        rng = np.random.default_rng(seed)
        for split, size in (("train", train_size), ("t10k", test_size)):
            labels = rng.integers(CLASSES, size=size, dtype=np.uint8)
            write_idx(directory / f"{split}-images-idx3-ubyte.gz", draw_digits(labels, rng))
            write_idx(directory / f"{split}-labels-idx1-ubyte.gz", labels)


def _folder(directory: Path) -> Path:
    """Returns the folder with the files: this one, or torchvision's below it."""
    for folder in (directory / "raw", directory / "MNIST" / "raw"):
        if exists(folder) and any(path.match("t*-ubyte*") for path in list_folder(folder)):
            return folder
    return directory


def _load_split(directory: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and matching labels of one split."""
    images_path = _present(directory, f"{split}-images", "idx3-ubyte")
    labels_path = _present(directory, f"{split}-labels", "idx1-ubyte")
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


def _present(directory: Path, name: str, kind: str) -> Path:
    """Returns a file under one of its usual names, preferably compressed."""
    usual = directory / f"{name}-{kind}.gz"
    for path in (
        usual,
        directory / f"{name}.{kind}.gz",
        usual.with_suffix(""),
        directory / f"{name}.{kind}",
    ):
        if exists(path):
            return path
    raise FathomError(
        f"{usual} is missing; MNIST is expected as {Mnist.layout}: get what is missing by "
        f"python -m fathom data fetch mnist --data-dir {directory}"
    )


def read_idx(path: Path) -> np.ndarray:
    """Reads an IDX file of unsigned bytes, gzip-compressed or plain, detected by its content.

    The format is a magic number (two zero bytes, the element type, the number of dimensions), one
    big-endian uint32 for each dimension, then the elements, the last dimension varying fastest.

    Returns:
        uint8 array of the header's shape, read-only.

    Raises:
        FathomError: the file is missing, unreadable, damaged, empty, not IDX, not of unsigned
            bytes, of more than three dimensions, or its header does not match its length.
    """
    with open_unpacked(path) as stream:
        shape = _read_header(stream, path)
        expected = math.prod(shape)
        most = min(expected, path.stat().st_size * _LARGEST_RATIO)  # no file unpacks to more
        require_free_memory(most, f"{path}", "is it MNIST?")
        content = stream.read(most + 1)
    if len(content) != expected:
        size = f"{len(content)}" if len(content) < expected else f"more than {expected}"
        raise FathomError(f"{path} has {size} bytes of data, but its header says {_product(shape)}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_header(stream: io.BufferedReader, path: Path) -> tuple[int, ...]:
    """Reads the header; returns the shape of the elements."""
    magic = stream.read(4)
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
    rank = magic[3]
    if not 1 <= rank <= 3:
        raise FathomError(f"{path} has {rank} dimensions, expected 1 to 3: it is not of MNIST")
    sizes = stream.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise FathomError(f"{path} is truncated in its header, after {4 + len(sizes)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    if 0 in shape:
        raise FathomError(f"{path} is empty: its header says {_product(shape)}")
    return shape


def _product(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} = {math.prod(shape)}"


def write_idx(path: Path, array: np.ndarray) -> None:
    """Writes uint8 of one to three dimensions as an IDX file, compressed if it is named ``.gz``.

    The same array gives the same bytes.

    Raises:
        FathomError: the file cannot be written.
    """
    if array.dtype != np.uint8:
        raise TypeError(f"an IDX file holds uint8 here, not {array.dtype}")
    content = _idx_bytes(array)
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def _idx_bytes(array: np.ndarray) -> bytes:
    header = bytes((0, 0, 0x08, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    return header + array.tobytes()


# A digit is one pen stroke: the control points "xy" of a quadratic B-spline on a 10 x 10 grid, y
# downwards. A repeated point makes a corner or an end.
_STROKES = [
    [[int(point[0]), int(point[1])] for point in stroke.split()]
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
    """Draws one digit per label, each with random distortion, size, slant, rotation, place and pen.

    Args:
        labels: uint8 [n], each from 0 to 9.
        rng: the source of all variation.

    Returns:
        uint8 [n, 28, 28], 0 is background and 255 ink.
    """
    images = np.empty((len(labels), SIDE, SIDE), np.uint8)
    for start in range(0, len(labels), 100):  # few enough to stay in the cache
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
    """Scales, slants, rotates and shifts each path: float [n, points, 2], x and y in pixels."""
    count = len(paths)
    width, height = rng.uniform(4.5, 8, count), rng.uniform(8, 10, count)
    slant, turn = rng.normal(0.15, 0.2, count), rng.normal(0, 0.1, count)
    x, y = paths[..., 0].T * width, paths[..., 1].T * height
    x = x - slant * y
    x, y = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    centre = (SIDE - 1) / 2 + rng.uniform(-1.5, 1.5, (2, count))
    return np.stack([x + centre[0], y + centre[1]], -1).swapaxes(0, 1)


def _distances(paths: np.ndarray) -> np.ndarray:
    """Returns the distance of each pixel's centre from the path: float [n, 28, 28], in pixels."""
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
