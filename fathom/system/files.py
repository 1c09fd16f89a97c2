"""Atomic writes, user paths, and the cache folder."""

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import platformdirs

from fathom.errors import FathomError

Content = TypeVar("Content")

_LARGEST = 2**30  # bytes of a file that is read whole
_TEMPORARY = ".fathom"  # at the end of the names of temporary folders
_NEW, _OLD = "new", "old"  # folders in them


def cache_directory() -> Path:
    """Returns the user's cache folder: ``$FATHOM_CACHE_DIR``, else the platform's convention."""
    chosen = os.environ.get("FATHOM_CACHE_DIR")
    return user_path(chosen or platformdirs.user_cache_dir("fathom"))


def named_path(text: str | Path) -> Path:
    """Returns the path of a file or folder named by a user, with ``~`` expanded.

    Raises:
        FathomError: the name is empty or not allowed, its home folder is not known, or a folder on
            the way to it cannot be read.
    """
    if not os.fspath(text):
        raise FathomError("the name is empty: name a file or folder, such as . for this folder")
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise FathomError(f"{text}: the home folder is not known: write the whole path") from error
    exists(path)
    return path


def user_path(text: str | Path) -> Path:
    """Returns the path of a data or checkpoint folder given by a user, as ``named_path``.

    Raises:
        FathomError: as ``named_path``, or TensorFlow cannot open files of that name.
    """
    path = named_path(text)
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise FathomError(
            f"{os.fsencode(text)!r} is not valid UTF-8 in this locale, and TensorFlow opens no such"
            " files: rename the folder, or set LC_ALL=C.UTF-8"
        ) from error
    return path


def exists(path: Path) -> bool:
    """Returns whether a file or folder exists.

    Raises:
        FathomError: a folder on the way to it cannot be read, or the name is too long.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # ValueError: it has a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise FathomError(f"cannot read {str(path)!r}: {reason}") from error
    return True


def list_folder(folder: Path) -> list[Path]:
    """Returns what a folder holds, in order of the names.

    Raises:
        FathomError: it cannot be read, or is not a folder.
    """
    with _errors_for_user("read", folder):
        return sorted(folder.iterdir())


def make_folder(folder: Path) -> Path:
    """Creates a folder, unless it exists, and returns it.

    Raises:
        FathomError: it cannot be created.
    """
    with _errors_for_user("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_cache_folder(folder: Path, otherwise: str = "") -> None:
    """Creates a folder of the cache.

    Raises:
        FathomError: the folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError("no permission")
    except OSError as error:
        raise FathomError(
            f"cannot write {folder}: {error.strerror or error}; set FATHOM_CACHE_DIR to a folder "
            f"that can be written{otherwise}"
        ) from error


@contextlib.contextmanager
def _errors_for_user(action: str, path: Path) -> Iterator[None]:
    """Raises the operating system's errors in the block as FathomError."""
    try:
        yield
    except OSError as error:
        raise FathomError(f"cannot {action} {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to ``path`` that is renamed to it when the block succeeds.

    A symbolic link is kept, and its target replaced. If ``path`` is a pipe or a device, which must
    not be replaced, ``path`` itself is yielded.

    Raises:
        FathomError: the file cannot be written (no such folder, no permission, disk full).
    """
    with _errors_for_user("write", path):
        if path.exists() and not path.is_file():
            yield path
            return
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):  # ignore cleanup errors
                temporary.unlink()


@contextlib.contextmanager
def atomic_directory(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to ``path`` when the block succeeds.

    Args:
        path: of the folder; a symbolic link is kept, and its target written.
        replace: an earlier folder is removed, once the new one has taken its place. Otherwise the
            folder of another process that completes it first is kept.

    Raises:
        FathomError: the folder cannot be written (no permission, disk full).
    """
    target = Path(os.path.realpath(path))
    with _errors_for_user("write", path):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent)
        with _temporary_directory(target) as temporary:
            new, old = temporary / _NEW, temporary / _OLD
            new.mkdir()
            yield new
            if replace and target.is_dir():
                target.rename(old)
            try:
                new.rename(target)
            except OSError:
                if old.exists() or not target.is_dir():
                    raise


@contextlib.contextmanager
def _temporary_directory(target: Path) -> Iterator[Path]:
    """Yields a folder beside another, locked until it is removed at the end of the block."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    lock = os.open(temporary, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        temporary = temporary.rename(f"{temporary}{_TEMPORARY}")  # locked before it can be found
        yield temporary
    finally:
        _remove_temporary(temporary)
        os.close(lock)


def _remove_temporary(temporary: Path) -> None:
    """Removes a temporary folder; first puts back the old folder if no new one is in its place."""
    target = temporary.with_name(temporary.name[1:].removesuffix(_TEMPORARY).rpartition(".")[0])
    if (temporary / _OLD).exists() and not target.exists():
        (temporary / _OLD).rename(target)
    shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Removes from a folder what ``atomic_directory`` left there in killed processes."""
    for temporary in folder.glob(f".*.{8 * '?'}{_TEMPORARY}"):
        with contextlib.suppress(OSError):  # it is locked, of another user or gone
            lock = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_temporary(temporary)
            finally:
                os.close(lock)


def require_regular(path: Path) -> None:
    """Refuses anything but a regular file: a pipe could block forever.

    Raises:
        FathomError: it is something else or inaccessible.
    """
    with _errors_for_user("read", path):
        if not stat.S_ISREG(path.stat().st_mode):
            raise FathomError(f"{path} is not a regular file: replace or remove it")


def open_file(path: Path) -> io.BufferedReader:
    """Opens a file that a user named, or that lies in a folder of the user's, for reading.

    Raises:
        FathomError: it cannot be opened, or is not a regular file.
    """
    require_regular(path)
    with _errors_for_user("read", path):
        return path.open("rb")


def read_file(path: Path, most: int = _LARGEST) -> bytes:
    """Returns the bytes of a file, as ``open_file``.

    Args:
        path: of the file.
        most: bytes that it may have.

    Raises:
        FathomError: it cannot be read, is not a regular file, or is larger.
    """
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise FathomError(f"{path} has more than {most:,} bytes: replace or remove it")
        with _errors_for_user("read", path):
            return file.read()


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        FathomError: it cannot be read, or is not a regular file.
    """
    digest = hashlib.sha256()
    with open_file(path) as file, _errors_for_user("read", path):
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cached(path: Path, make: Callable[[], bytes], read: Callable[[bytes], Content]) -> Content:
    """Returns the content of a file of the cache, which is made if there is none.

    Args:
        path: of the file.
        make: returns its bytes.
        read: returns the content of its bytes; a RuntimeError means that they are damaged.

    Raises:
        FathomError: the file cannot be read or written.
    """
    if exists(path):
        with contextlib.suppress(RuntimeError):
            return read(read_file(path))
    content = make()
    make_cache_folder(path.parent)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
    return read(content)
