"""What files of several data sets have in common: gzip, and what is known of a synthetic set."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fathom.errors import FathomError
from fathom.system.files import exists, list_folder, open_file, read_file

_LARGEST_RATIO = 100  # of an unpacked file to its gzip file, usually 3 to 50
_UNCHECKED_BYTES = 1 << 26  # up to which the ratio is not checked
_LARGEST = 1e6  # of log-odds and entropies


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[io.BufferedReader]:
    """Opens a file for reading; one that is of gzip, whatever its name, is unpacked.

    Raises:
        FathomError: it cannot be read, is damaged, or unpacks to far more than its size.
    """
    with open_file(path) as file:
        try:
            compressed = file.peek(2)[:2] == b"\x1f\x8b"
            yield io.BufferedReader(_Unpacked(file, path), 1 << 16) if compressed else file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FathomError(f"{path} is damaged: {error}") from error
        except OSError as error:
            raise FathomError(f"cannot read {path}: {error.strerror}") from error


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, whose size it limits."""

    def __init__(self, file: io.BufferedReader, path: Path) -> None:
        self._stream, self._path = gzip.GzipFile(fileobj=file), path
        self._left = max(_UNCHECKED_BYTES, _LARGEST_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        """Says that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads some bytes, and returns their number."""
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise FathomError(f"{self._path} unpacks to over {_LARGEST_RATIO} times its size")
        return count


def folders_below(directory: Path, levels: int) -> Iterator[Path]:
    """Yields a folder and those below it, level by level, in order of the names.

    Raises:
        FathomError: one cannot be read. Below ``directory`` it is raised after all others were
            yielded: where what is sought is in another, it does not matter.
    """
    yield directory
    denied: list[FathomError] = []
    level = list_folder(directory)
    for _ in range(levels):
        below: list[Path] = []
        for path in level:
            try:
                if not (exists(path) and path.is_dir()):
                    continue
                below += list_folder(path)
            except FathomError as error:
                denied.append(error)
            else:
                yield path
        level = below
    if denied:
        raise denied[0]


def read_known(path: Path, count: int) -> np.ndarray | None:
    """Returns what the synthesis of a data set knew of it: float64 [count]; None: no such file.

    Raises:
        FathomError: the file is not of so many numbers, a line each.
    """
    if not exists(path):
        return None
    try:
        numbers = np.array(read_file(path).splitlines(), np.float64)
    except ValueError:
        numbers = np.array([])
    if len(numbers) != count or not (np.abs(numbers) < _LARGEST).all():
        raise FathomError(
            f"expected a number a line in {path}, {count:,} in all: delete it, or synthesize anew"
        )
    return numbers
