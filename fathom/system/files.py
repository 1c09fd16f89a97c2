"""Atomic writes, user paths, and the cache folder."""

import contextlib
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from fathom.errors import FathomError

_LEFTOVER_AFTER_S = 24 * 3600  # longer than writing any temporary folder takes


def cache_directory() -> Path:
    """Returns the user's cache folder: ``$FATHOM_CACHE_DIR``, else the platform's convention."""
    chosen = os.environ.get("FATHOM_CACHE_DIR")
    return user_path(chosen or platformdirs.user_cache_dir("fathom"))


def user_path(text: str | Path) -> Path:
    """Returns the path of a data or checkpoint folder given by a user, with ``~`` expanded.

    Raises:
        FathomError: there is no such home folder, or TensorFlow cannot open files of that name.
    """
    try:
        path = Path(text).expanduser()
        str(path).encode()
    except RuntimeError as error:
        raise FathomError(f"{text}: the home folder is not known: write the whole path") from error
    except UnicodeEncodeError as error:
        raise FathomError(
            f"{os.fsencode(text)!r} is not valid UTF-8 in this locale, and TensorFlow opens no such"
            " files: rename the folder, or set LC_ALL=C.UTF-8"
        ) from error
    return path


def make_folder(folder: Path) -> Path:
    """Creates a folder, unless it exists, and returns it.

    Raises:
        FathomError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FathomError(f"cannot make {folder}: {error.strerror}") from error
    return folder


def make_cache_folder(folder: Path, otherwise: str = "") -> None:
    """Creates a folder of the cache.

    Raises:
        FathomError: the folder cannot be created or written.
    """
    reason = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = "no permission"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise FathomError(
            f"cannot write {folder}: {reason}; set FATHOM_CACHE_DIR to a folder that can be "
            f"written{otherwise}"
        )


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to ``path`` that is renamed to it when the block succeeds.

    A symbolic link is kept, and its target replaced. If ``path`` is a pipe or a device, which must
    not be replaced, ``path`` itself is yielded.

    Raises:
        FathomError: the file cannot be written (no such folder, no permission, disk full).
    """
    temporary = None
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise FathomError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):  # ignore cleanup errors
                temporary.unlink()


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to ``path`` when the block succeeds.

    If another process completes the same folder first, its version is kept.

    Raises:
        FathomError: the folder cannot be written (no permission, disk full).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise FathomError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    except OSError as error:
        raise FathomError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Removes leftovers of ``atomic_directory`` in killed processes from a cache folder."""
    for path in folder.glob(".*"):
        with contextlib.suppress(OSError):
            if path.is_dir() and time.time() - path.stat().st_mtime > _LEFTOVER_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)


def require_regular(path: Path) -> None:
    """Refuses anything but a regular file: a pipe could block forever.

    Raises:
        FathomError: it is something else or inaccessible.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FathomError(f"{path} is not a regular file: replace or remove it")
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error


def open_file(path: Path) -> io.BufferedReader:
    """Opens a data file for reading.

    Raises:
        FathomError: it cannot be opened, or is not a regular file.
    """
    require_regular(path)
    try:
        return path.open("rb")
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error


def read_file(path: Path) -> bytes:
    """Returns the bytes of a data file.

    Raises:
        FathomError: it cannot be read, or is not a regular file.
    """
    with open_file(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise FathomError(f"cannot read {path}: {error.strerror}") from error


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        FathomError: it cannot be read, or is not a regular file.
    """
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
