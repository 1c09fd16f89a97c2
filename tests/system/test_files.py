import ast
import errno
import hashlib
import os
from pathlib import Path

import pytest

import fathom
from fathom.errors import FathomError
from fathom.system.files import (
    atomic_directory,
    atomic_write,
    cache_directory,
    exists,
    named_path,
    open_file,
    read_file,
    remove_leftovers,
    sha256,
    user_path,
)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    assert cache_directory() == tmp_path / "cache"


def test_the_cache_is_the_users_own_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("FATHOM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory().name == "fathom"


def test_a_tilde_in_the_caches_folder_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", "~/cache")
    assert cache_directory() == Path.home() / "cache"


def test_a_home_folder_that_is_not_known_is_an_error(monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", "~nobody-of-this-name/cache")
    with pytest.raises(FathomError, match=r"~nobody-of-this-name/cache: the home folder"):
        cache_directory()


def test_a_file_appears_when_the_block_succeeds(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file"]


FULL = OSError(errno.ENOSPC, "No space left on device")


def write(path, error=None):
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        if error:
            raise error


def write_folder(path, error=None):
    with atomic_directory(path) as temporary:
        (temporary / "file").write_text("new")
        if error:
            raise error


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyError):
        write(path, KeyError("fault"))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("write_one", [write, write_folder])
def test_a_full_disk_is_an_error_and_leaves_nothing(write_one, tmp_path):
    with pytest.raises(FathomError, match=r"cannot write .*one: No space left on device"):
        write_one(tmp_path / "one", FULL)
    assert names(tmp_path) == []


@pytest.mark.parametrize("parent", ["nowhere", "occupied"])
def test_a_file_below_no_folder_is_an_error(tmp_path, parent):
    (tmp_path / "occupied").touch()
    with pytest.raises(FathomError, match=rf"cannot write .*{parent}/file"):
        write(tmp_path / parent / "file")
    assert names(tmp_path) == ["occupied"]


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # so that the writer need not wait for one
    with atomic_write(pipe) as target:
        target.write_text("new")
    assert os.read(reader, 100) == b"new"
    os.close(reader)
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_a_symbolic_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    for name in ("file", "not-yet"):
        link = tmp_path / f"link-to-{name}"
        link.symlink_to(Path("folder") / name)
        with atomic_write(link) as temporary:
            temporary.write_text("new")
        assert link.is_symlink()
        assert (tmp_path / "folder" / name).read_text() == "new"
    assert names(tmp_path / "folder") == ["file", "not-yet"]


def test_a_folder_in_a_files_place_is_an_error_and_stays(tmp_path):
    with pytest.raises(FathomError, match=r"cannot write .*: Is a directory"):
        write(tmp_path)
    assert names(tmp_path) == []


def test_a_folder_appears_when_the_block_succeeds(tmp_path):
    path = tmp_path / "below" / "folder"
    with atomic_directory(path) as temporary:
        (temporary / "file").write_text("new")
        assert not path.exists()
    assert (path / "file").read_text() == "new"
    assert names(path.parent) == ["folder"]


def test_a_folder_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError):
        write_folder(tmp_path / "folder", KeyError("fault"))
    assert names(tmp_path) == []


def test_a_folder_that_another_finished_first_is_kept(tmp_path):
    path = tmp_path / "folder"
    with atomic_directory(path) as temporary:
        (temporary / "file").write_text("second")
        path.mkdir()
        (path / "file").write_text("first")
    assert (path / "file").read_text() == "first"
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("path", ["occupied", "occupied/folder"])
def test_a_folder_in_the_place_of_a_file_is_an_error(tmp_path, path):
    (tmp_path / "occupied").touch()
    with pytest.raises(FathomError, match="cannot write"):
        write_folder(tmp_path / path)
    assert names(tmp_path) == ["occupied"]


def test_the_digest_is_that_of_all_bytes(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_a_pipe_in_the_place_of_data_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (open_file, read_file, sha256):
        with pytest.raises(FathomError, match="pipe is not a regular file"):
            read(tmp_path / "pipe")


def test_data_that_is_missing_is_refused_by_name(tmp_path):
    with pytest.raises(FathomError, match=r"cannot read .*none: No such file"):
        read_file(tmp_path / "none")


def test_a_file_that_is_too_large_is_refused_and_not_read(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FathomError, match="has more than 1,073,741,824 bytes"):
        read_file(tmp_path / "file")


def test_folders_that_killed_processes_left_are_removed_and_those_in_use_stay(tmp_path):
    with atomic_directory(tmp_path / "in-use"):
        for name in (".v1.abcdefgh.fathom", ".v2.fathom", ".mine", "mine.fathom"):
            (tmp_path / name / "new").mkdir(parents=True)
        remove_leftovers(tmp_path)
        assert names(tmp_path)[1:] == [".mine", ".v2.fathom", "mine.fathom"]
        assert names(tmp_path)[0].startswith(".in-use.")
    assert names(tmp_path) == [".mine", ".v2.fathom", "in-use", "mine.fathom"]


def test_a_folder_has_the_permissions_that_the_user_chose(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_directory(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name is empty"),
        ("x" * 256, "File name too long"),
        ("a\0b", "embedded null (byte|character)"),
        ("~nobody-of-this-name", "home folder is not known"),
    ],
)
def test_a_name_that_no_file_can_have_is_an_error(name, message):
    for read in (named_path, user_path):
        with pytest.raises(FathomError, match=message):
            read(name)


def test_a_name_below_a_folder_that_cannot_be_entered_is_an_error(tmp_path, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    for ask in (named_path, exists, read_file, sha256):
        with pytest.raises(FathomError, match=r"cannot read .*file.*: Permission denied"):
            ask(tmp_path / "file")


_OPENED_ELSEWHERE = {
    "cli/launch.py": "its workers' logs",
    "cli/new.py": "the template",
    "cli/template/fathom_newcomer/points.py": "what open_file opened",
    "cli/terminal.py": "the null device",
    "exports/keras.py": "an archive that it has just written",
    "exports/program.py": "sources of the package, and what a compiler has just written",
    "exports/saved_model.py": "a graph that it has just written",
    "hardware/accelerators/machine.py": "machines of the package",
    "hardware/networks/tensorflow.py": "files of a model, after their size was checked",
    "hardware/traces/instructions.py": "what Callgrind has just written",
    "imagenet/tfrecord.py": "records without a buffer, after require_regular",
    "measure/report/figures/accesses.py": "what read_file has read",
    "measure/report/page.py": "style and script of the package",
    "measure/report/published/__init__.py": "figures of the package",
    "measure/serving/loadgen.py": "the log that it has just written",
    "results/document.py": "the documentation, for developers",
    "system/cgroups.py": "the kernel's",
    "system/energy.py": "the kernel's",
    "system/environment.py": "its own and the workload's source",
    "system/files.py": "open_file itself",
    "system/inspection.py": "the kernel's",
    "system/lock.py": "a lock, read and written, which does not wait for a pipe",
    "system/memory.py": "the kernel's",
    "system/processes.py": "its children's logs",
    "system/processor.py": "the kernel's",
    "testing/conformance.py": "files that the test has written",
}
_OPENS = {"open", "fdopen", "read_text", "read_bytes", "loadtxt", "genfromtxt", "read_csv"}


def opens_for_reading(path):
    """Returns whether a module opens a file other than by the functions of ``files``."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
            if name in _OPENS and not any(str(mode)[0] in "wa" for mode in modes):
                return True
    return False


def test_one_function_opens_what_users_name():
    package = Path(fathom.__file__).parent
    found = {str(p.relative_to(package)) for p in package.rglob("*.py") if opens_for_reading(p)}
    assert found == set(_OPENED_ELSEWHERE)
