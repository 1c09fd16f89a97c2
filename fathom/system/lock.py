"""Exclusive locks of folders."""

import fcntl
import os
import weakref
from pathlib import Path

from fathom.errors import FathomError


class FolderLock:
    """Prevents other processes from writing to a folder while this object exists: ``lock_folder``.

    The kernel releases the lock when the process ends in any way. On a file system without locks
    there is no protection.
    """

    def __init__(self, folder: Path) -> None:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FathomError(
                f"another process is writing to {folder}: wait for it, or use another folder"
            ) from error
        except OSError:  # a file system without locks
            pass


_held: "weakref.WeakValueDictionary[Path, FolderLock]" = weakref.WeakValueDictionary()


def lock_folder(folder: Path) -> FolderLock:
    """Returns this process's lock of an existing folder, held while the object is referenced.

    Raises:
        FathomError: another process holds the lock.
        OSError: the file ``.lock`` cannot be created in it.
    """
    path = folder.resolve()
    lock = _held.get(path)
    if lock is None:
        lock = _held[path] = FolderLock(path)
    return lock
