"""Files that appear whole or not at all, and where Fathom keeps its own."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from fathom.errors import FathomError


def cache_directory() -> Path:
    """Returns the user's cache folder: ``$FATHOM_CACHE_DIR``, else the platform's convention."""
    return Path(os.environ.get("FATHOM_CACHE_DIR") or platformdirs.user_cache_dir("fathom"))


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside ``path`` that is renamed to it when the block succeeds.

    Raises:
        FathomError: the file cannot be written (no such folder, no permission, disk full).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise FathomError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # a folder that is none is no second error
            temporary.unlink()


@contextlib.contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to ``path`` when the block succeeds.

    Where another process finished the same folder first, its work is kept and ours dropped.

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


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
