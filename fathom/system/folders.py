"""The folders that commands write: nothing in them is lost that the command did not write."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fathom.errors import FathomError
from fathom.system.files import (
    atomic_directory,
    atomic_write,
    exists,
    list_folder,
    make_folder,
    read_file,
    user_path,
)

MARK = ".fathom"  # file in a folder: the command that wrote it and, where it can be replaced, files


def own_folder(text: str | Path) -> Path:
    """Returns the path of a folder that a command writes, named by a user.

    Raises:
        FathomError: as ``user_path``; or it is the working folder, home, or above one of them.
    """
    path = user_path(text)
    place = Path(os.path.realpath(path))
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - a user may have none
    if any(each.is_relative_to(place) for each in (Path.cwd(), home)):
        raise FathomError(
            f"must be a folder of its own, not {text}: the working folder or home is there"
        )
    return path


def new_folder(path: Path, remedy: str = "name a new folder") -> Path:
    """Returns a path where a folder can be made, before time is spent on its contents.

    Raises:
        FathomError: it exists already, or cannot be made.
    """
    if exists(path):
        raise FathomError(f"{path} already exists: {remedy}")
    if path.is_symlink():
        raise FathomError(f"{path} is a link to nothing: remove it, or name another")
    exists(path.with_name(f".{path.name}.12345678.fathom"))  # the temporary one's name is longer
    above = next(each for each in path.absolute().parents if exists(each))
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise FathomError(f"cannot make {path}: {above} is no folder that can be written")
    return path


def claim_folder(path: Path, command: str) -> Path:
    """Makes a folder to which a command adds files, with its mark, and returns it.

    Raises:
        FathomError: it holds other things than this command's, or cannot be written.
    """
    make_folder(path)
    if list_folder(path) and _mark(path).get("command") != command:
        raise FathomError(f"{path} holds files that are not of fathom {command}: name a new folder")
    _write_mark(path, {"command": command})
    return path


@contextlib.contextmanager
def whole_folder(path: Path, command: str, replace: bool) -> Iterator[Path]:
    """Yields a temporary folder, which becomes ``path``, with a mark of its files, when complete.

    Args:
        path: of the folder.
        command: that writes it.
        replace: take the place of an earlier folder.

    Raises:
        FathomError: as ``require_replaceable``, or it cannot be written.
    """
    with atomic_directory(path, replace) as folder:
        yield folder
        _write_mark(folder, {"command": command, "files": _files(folder)})
        require_replaceable(path, command, replace)  # it may have changed meanwhile


def require_replaceable(path: Path, command: str, replace: bool) -> None:
    """Refuses to write a folder in the place of anything but an earlier one of the same command.

    Raises:
        FathomError: ``path`` exists and is not to be replaced, holds files that the command did
            not write, or cannot be made.
    """
    if not exists(path) or not replace:
        new_folder(path, "give another --out, or --force to replace it")
        return
    mark = _mark(path)
    if mark.get("command") != command or "files" not in mark:
        raise FathomError(f"{path} was not written by fathom {command}: remove it, or name another")
    if others := sorted(set(_files(path)) - {MARK, *map(str, mark["files"])}):
        raise FathomError(f"{path} holds {others[0]}, which Fathom did not write: move it away")


def _mark(folder: Path) -> dict[str, Any]:
    """Returns the mark of a folder; an empty one where there is none."""
    try:
        mark = json.loads(read_file(folder / MARK))
    except (FathomError, ValueError):
        return {}
    return mark if isinstance(mark, dict) and isinstance(mark.get("files", []), list) else {}


def _write_mark(folder: Path, mark: dict[str, Any]) -> None:
    with atomic_write(folder / MARK) as temporary:
        temporary.write_text(json.dumps(mark) + "\n")


def _files(folder: Path) -> list[str]:
    """Returns the paths below a folder of all that it holds."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*")]
