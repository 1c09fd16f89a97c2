"""Folders that commands write: what they did not write themselves is never lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.errors import FathomError
from fathom.system.folders import (
    MARK,
    claim_folder,
    new_folder,
    own_folder,
    require_replaceable,
    whole_folder,
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Is a working folder that is empty, two below ``tmp_path``."""
    folder = tmp_path / "above" / "here"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def contents(folder):
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def export(folder, text, replace=True):
    with whole_folder(folder, "export", replace) as new:
        (new / "below").mkdir()
        (new / "below" / "file").write_text(text)


@pytest.mark.parametrize("name", [".", "..", "/", "~", "../here", "new/..", "../../above"])
def test_the_working_folder_home_and_all_above_are_refused(name, place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    (tmp_path / "home" / "me").mkdir(parents=True)
    with pytest.raises(FathomError, match="must be a folder of its own, not "):
        own_folder(name)
    with pytest.raises(FathomError, match="must be a folder of its own"):
        own_folder(tmp_path / "home")
    (place / "link").symlink_to("..")
    with pytest.raises(FathomError, match="must be a folder of its own"):
        own_folder("link")
    assert own_folder("~/results") == tmp_path / "home" / "me" / "results"


def test_a_user_without_a_home_may_name_a_folder(place, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert own_folder("results") == Path("results")


@pytest.mark.parametrize("name", ["here", "file", "link", "file/below", "x" * 250])
def test_a_new_folder_is_refused_where_none_can_be_made(name, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    with pytest.raises(FathomError):
        new_folder(tmp_path / name)
    assert new_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert contents(tmp_path) == {"here", "file", "link"}


def test_a_new_folder_is_refused_below_one_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FathomError, match="no folder that can be written"):
        new_folder(tmp_path / "a" / "b")


def test_a_command_adds_to_a_folder_that_is_empty_or_its_own(tmp_path):
    folder = tmp_path / "a" / "b"
    claim_folder(folder, "profile")
    (folder / "profile.json").touch()
    claim_folder(folder, "profile")
    with pytest.raises(FathomError, match="not of fathom report: name a new folder"):
        claim_folder(folder, "report")
    (folder / MARK).unlink()
    with pytest.raises(FathomError, match="not of fathom profile"):
        claim_folder(folder, "profile")
    assert contents(folder) == {"profile.json"}


@pytest.mark.parametrize("mark", ["", "[]", "{", '{"command": "export"}', '{"files": 3}'])
def test_a_folder_with_another_mark_is_not_replaced(mark, tmp_path):
    (tmp_path / MARK).write_text(mark)
    with pytest.raises(FathomError, match="was not written by fathom export"):
        require_replaceable(tmp_path, "export", replace=True)


def test_a_link_to_nothing_is_not_replaced(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "gone")
    with pytest.raises(FathomError, match="is a link to nothing: remove it"):
        require_replaceable(tmp_path / "out", "export", replace=True)


def test_a_whole_folder_replaces_one_of_the_same_command(tmp_path):
    folder = tmp_path / "out"
    export(folder, "old")
    with pytest.raises(FathomError, match="or --force to replace it"):
        export(folder, "new", replace=False)
    assert (folder / "below" / "file").read_text() == "old"
    export(folder, "new")
    assert (folder / "below" / "file").read_text() == "new"
    assert contents(tmp_path) == {"out", f"out/{MARK}", "out/below", "out/below/file"}


@pytest.mark.parametrize("name", ["mine", "below/mine", "folder"])
def test_a_folder_that_also_holds_something_else_is_not_replaced(name, tmp_path):
    folder = tmp_path / "out"
    export(folder, "old")
    (folder / name).mkdir() if name == "folder" else (folder / name).touch()
    with pytest.raises(FathomError, match=f"holds {name}, which Fathom did not write"):
        export(folder, "new")
    assert (folder / name).exists()
    assert contents(tmp_path) == {"out", *(f"out/{each}" for each in contents(folder))}


def test_a_link_stays_and_the_folder_that_it_leads_to_is_replaced(tmp_path):
    export(tmp_path / "out", "old")
    (tmp_path / "link").symlink_to("out")
    export(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out" / "below" / "file").read_text() == "new"


_EXPORT = """
import os, pathlib, signal, sys
from fathom.system.folders import whole_folder

rename = pathlib.Path.rename
def rename_and_end(self, target):
    renamed = rename(self, target)
    if self.name == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return renamed
pathlib.Path.rename = rename_and_end
with whole_folder(pathlib.Path("out"), "export", True) as new:
    (new / "file").write_text("new")
    if sys.argv[1] == "block":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("last", "left", "text"),
    [("block", {"out"}, "old"), ("out", set(), "old"), ("new", {"out"}, "new")],
)
def test_a_process_killed_while_it_replaces_a_folder_loses_nothing(last, left, text, place):
    with whole_folder(place / "out", "export", replace=True) as new:
        (new / "file").write_text("old")
    subprocess.run([sys.executable, "-c", _EXPORT, last], check=False, timeout=60)
    assert {each.name for each in place.iterdir() if each.name[0] != "."} == left
    assert len(list(place.iterdir())) == len(left) + 1
    with whole_folder(place / "other", "export", replace=False):
        pass
    assert (place / "out" / "file").read_text() == text
    assert {each.name for each in place.iterdir()} == {"out", "other"}


def test_an_old_folder_is_put_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    export(folder, "old")
    rename = type(folder).rename

    def fail(self, target):
        if self.name == "new":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(type(folder), "rename", fail)
    with pytest.raises(FathomError, match=r"cannot write .*: Permission denied"):
        export(folder, "new")
    assert (folder / "below" / "file").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
