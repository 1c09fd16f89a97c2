import os

import pytest

from fathom.core.data import DataSet, RemoteFile, choose, find, locate
from fathom.core.data.dataset import DataSource, state
from fathom.errors import FathomError


class Notes(DataSet):
    """A set of one text file, which counts how often it was made."""

    name = "notes"
    title = "some notes"
    licence = "CC0"
    home_page = "https://example.org"
    layout = "notes.txt"
    created = 0

    @classmethod
    def load(cls, directory):
        return (directory / "notes.txt").read_text()

    @classmethod
    def synthesize(cls, directory, seed):
        cls.created += 1
        (directory / "notes.txt").write_text(f"seed {seed}")

    @classmethod
    def verify(cls, directory, options, everything):
        return cls.load(directory)


class Sketches(Notes):
    """A second set of the workload that reads notes."""

    name = "sketches"
    nested = "notes/sketches"

    @classmethod
    def recognizes(cls, directory):
        return (directory / "sketches.txt").exists()


class Letters(Sketches):
    name = "letters"
    nested = None

    @classmethod
    def recognizes(cls, directory):
        return (directory / "letters.txt").exists()


class Remote(Notes):
    name = "remote"
    files = tuple(RemoteFile(name, "", ()) for name in ("notes.txt", "more.txt"))


class Unmakable(Notes):
    name = "unmakable"

    @classmethod
    def synthesize(cls, directory, seed):
        super().synthesize(directory, seed)
        raise KeyError("fault")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FATHOM_DATA_DIR", raising=False)
    monkeypatch.setattr(Notes, "created", 0)
    return tmp_path / "cache"


@pytest.fixture
def places(cache, monkeypatch, tmp_path):
    """All the places at once, from the first to be looked at to the last."""
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path / "environment"))
    folders = {
        "given": tmp_path / "given",
        "environment": tmp_path / "environment" / "notes",
        "fetched": cache / "data" / "notes",
        "synthetic": cache / "synthetic" / "notes" / "v1-seed-0",
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
    return folders


def test_the_places_are_looked_at_in_order(places, monkeypatch, tmp_path):
    def check(kind, directory, words, data_dir=None):
        source = find(Notes, data_dir, 0)
        assert (source.kind, source.directory) == (kind, directory)
        assert str(source) == f"{directory}{words}"

    check("given", places["given"], "", places["given"])
    check("environment", places["environment"], ", from $FATHOM_DATA_DIR")
    places["environment"].rmdir()
    check("fetched", places["fetched"], ", fetched")
    places["fetched"].rmdir()
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "packaged", lambda: tmp_path / "library")
        check("packaged", tmp_path / "library", ", packaged with an installed library")
    monkeypatch.delenv("FATHOM_DATA_DIR")
    remedy = "use --data-dir or $FATHOM_DATA_DIR for real data"
    check("synthetic", places["synthetic"], f", synthetic: {remedy}")


def test_a_fetch_that_was_interrupted_is_passed_over_and_the_source_says_how_it_goes_on(cache):
    fetched = cache / "data" / "remote"
    fetched.mkdir(parents=True)
    (fetched / "notes.txt").touch()
    (fetched / "more.txt.part").touch()
    source = locate(Remote, None, 0)
    assert source.kind == "synthetic"
    message = f"{fetched} lacks files: python -m fathom data fetch remote resumes"
    assert str(source) == f"{source.directory}, synthetic: {message}"
    (fetched / "more.txt").touch()
    assert find(Remote, None, 0).kind == "fetched"


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_an_environment_variable_that_names_no_folder_is_an_error(tmp_path, monkeypatch, name):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path / name))
    with pytest.raises(
        FathomError, match=rf"\$FATHOM_DATA_DIR is .*{name}, which is not a folder: correct"
    ):
        find(Notes, None, 0)
    (tmp_path / "given").mkdir()
    assert find(Notes, tmp_path / "given", 0).kind == "given"


def test_the_source_says_that_the_environments_folder_has_no_such_set(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path))
    source = find(Notes, None, 0)
    assert str(source) == f"{source.directory}, synthetic: $FATHOM_DATA_DIR has no notes"


def test_an_empty_environment_variable_is_none(places, monkeypatch):
    monkeypatch.setenv("FATHOM_DATA_DIR", "")
    assert find(Notes, None, 0).kind == "fetched"


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_given_folder_that_is_none_is_an_error(tmp_path, name):
    (tmp_path / "file").touch()
    message = rf"{name} is not a folder; some notes .* notes\.txt.*use \$FATHOM_DATA_DIR, or synth"
    with pytest.raises(FathomError, match=message):
        locate(Notes, tmp_path / name, 0)
    assert Notes.created == 0


def test_an_empty_name_is_an_error_and_not_the_working_folder():
    with pytest.raises(FathomError, match="the name is empty"):
        find(Notes, "", 0)


@pytest.mark.parametrize("kind", ["given", "environment"])
def test_a_folder_that_cannot_be_read_is_an_error_and_not_skipped(places, monkeypatch, kind):
    monkeypatch.setattr(os, "access", lambda path, mode: path != places[kind])
    with pytest.raises(FathomError, match="cannot be read: check its permissions"):
        find(Notes, places[kind] if kind == "given" else None, 0)


def test_finding_makes_nothing(cache):
    assert find(Notes, None, 0).kind == "synthetic"
    assert not cache.exists()


def test_the_synthetic_set_is_made_once(cache):
    first, second = locate(Notes, None, 3), locate(Notes, None, 3)
    assert first == second
    assert Notes.load(first.directory) == "seed 3"
    assert Notes.created == 1
    assert [path.name for path in (cache / "synthetic" / "notes").iterdir()] == ["v1-seed-3"]


def test_two_seeds_have_two_folders():
    assert Notes.load(locate(Notes, None, 1).directory) == "seed 1"
    assert Notes.load(locate(Notes, None, 2).directory) == "seed 2"


def test_a_synthetic_set_that_fails_half_way_leaves_nothing_to_be_found(cache):
    with pytest.raises(KeyError):
        locate(Unmakable, None, 0)
    assert list((cache / "synthetic" / "unmakable").iterdir()) == []


def test_a_synthesis_that_writes_nothing_is_an_error_and_leaves_nothing(cache):
    class Empty(Notes):
        name = "empty"

        @classmethod
        def synthesize(cls, directory, seed):
            pass

    with pytest.raises(FathomError, match=r"Empty\.synthesize writes no file"):
        locate(Empty, None, seed=0)
    assert not list(cache.rglob("v1-seed-0"))


def test_a_cache_that_cannot_be_written_is_an_error(cache):
    cache.touch()
    with pytest.raises(
        FathomError, match=r"cannot write .*; set FATHOM_CACHE_DIR .*, or use --data-dir$"
    ):
        locate(Notes, None, 0)


def test_a_cache_without_permission_to_write_is_an_error(cache, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(FathomError, match="no permission; set FATHOM_CACHE_DIR"):
        locate(Notes, None, 0)
    assert Notes.created == 0


def test_a_folder_that_a_killed_synthesis_left_is_removed(cache):
    left = cache / "synthetic" / "notes" / ".v1-seed-0.abcdefgh.fathom"
    left.mkdir(parents=True)
    locate(Notes, None, 0)
    assert [path.name for path in left.parent.iterdir()] == ["v1-seed-0"]


BOTH = (Letters, Sketches)


def test_the_data_set_that_is_named_is_taken():
    assert choose(BOTH, "sketches", None) is Sketches
    with pytest.raises(FathomError, match="unknown data set 'sketch': did you mean sketches"):
        choose(BOTH, "sketch", None)


def test_the_first_data_set_is_the_default():
    assert choose(BOTH, None, None) is Letters
    assert choose((Sketches,), None, None) is Sketches


def test_the_data_set_that_the_given_folder_holds_is_taken(tmp_path):
    assert choose(BOTH, None, tmp_path) is Letters
    (tmp_path / "sketches.txt").touch()
    assert choose(BOTH, None, tmp_path) is Sketches
    assert choose(BOTH, "letters", tmp_path) is Letters


@pytest.mark.parametrize("place", ["sketches", "notes/sketches"])
def test_the_data_set_that_the_environment_holds_is_taken(tmp_path, monkeypatch, place):
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path))
    (tmp_path / "letters").mkdir()
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "sketches.txt").touch()
    assert choose(BOTH, None, None) is Sketches
    assert find(Sketches, None, 0).directory == tmp_path / place


def test_a_fingerprint_tells_data_apart(tmp_path):
    def fingerprint(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "part").mkdir(parents=True)
        for name, text in files.items():
            (folder / "part" / name).write_text(text)
        return DataSource(folder, "given").fingerprint()

    usual = fingerprint(a="one", b="two")
    assert fingerprint(b="two", a="one") == usual
    others = [fingerprint(a="one", b="too"), fingerprint(a="one", c="two"), fingerprint(a="one")]
    assert len({usual, *others}) == 4
    assert DataSource(tmp_path, "synthetic").fingerprint() == "synthetic"
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    assert len(DataSource(tmp_path, "given").fingerprint()) == 12


def test_the_state_tells_a_folder_of_other_files(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_DATA_DIR", str(tmp_path))
    folder = tmp_path / "letters"
    folder.mkdir()
    assert state(Letters) == f"none of its files in {folder}"
    (folder / "letters.txt").touch()
    assert state(Letters) == "environment"
