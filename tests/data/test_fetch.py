import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathom.data import DataSet, RemoteFile, fetch
from fathom.errors import FathomError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the path says what goes wrong on the way."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        self.server.seen[self.path] = self.server.seen.get(self.path, 0) + 1
        getattr(self, self.path.strip("/"))(self.server.seen[self.path], wanted)

    def answer(self, code, body=b"", length=None, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def good(self, visit, wanted):
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if wanted and start >= len(CONTENT):
            self.answer(416)
        else:
            self.answer(206 if wanted else 200, CONTENT[start:])

    def rangeless(self, visit, wanted):
        self.answer(200, CONTENT)

    def refuses_ranges(self, visit, wanted):
        self.answer(416) if wanted else self.answer(200, CONTENT)

    def cut_once(self, visit, wanted):
        if visit == 1:
            self.answer(200, CONTENT[:400_000], length=len(CONTENT))
        else:
            self.good(visit, wanted)

    def always_cut(self, visit, wanted):
        self.answer(200, CONTENT[:1000], length=len(CONTENT))

    def busy_once(self, visit, wanted):
        self.answer(503) if visit == 1 else self.good(visit, wanted)

    def silent_once(self, visit, wanted):
        if visit > 1:
            self.good(visit, wanted)

    def moved(self, visit, wanted):
        self.answer(302, Location="/good")

    def altered(self, visit, wanted):
        self.answer(200, b"altered" + CONTENT)

    def without_length(self, visit, wanted):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(CONTENT)

    def absent(self, visit, wanted):
        self.answer(404)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(fetch, "PAUSE_S", 0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.seen = [], {}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server, tmp_path):
    """Fetches a data set of one file from the addresses named; returns the file's path."""

    def get(*paths, report=None):
        urls = tuple(f"http://127.0.0.1:{server.server_port}/{path}" for path in paths)
        fetch.fetch(dataset_of(RemoteFile("file.bin", DIGEST, urls)), tmp_path, report)
        return tmp_path / "file.bin"

    return get


def dataset_of(*remote_files):
    class Fetched(DataSet):
        name = "fetched"
        title = "a set of files"
        licence = "CC0"
        home_page = "https://example.org/home"
        layout = "file.bin"
        files = remote_files

        @classmethod
        def load(cls, directory):
            if not (directory / "file.bin").exists():
                raise FathomError("file.bin is missing")

        @classmethod
        def synthesize(cls, directory, seed):
            raise NotImplementedError

    return Fetched


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_fetched_whole(get, tmp_path):
    assert get("good").read_bytes() == CONTENT
    assert names(tmp_path) == ["file.bin"]


def test_a_missing_folder_is_made(server, tmp_path):
    url = f"http://127.0.0.1:{server.server_port}/good"
    directory = tmp_path / "not" / "yet"
    fetch.fetch(dataset_of(RemoteFile("below/file.bin", DIGEST, (url,))), directory)
    assert (directory / "below" / "file.bin").read_bytes() == CONTENT


def test_a_right_file_is_left_alone(get, server, tmp_path):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    get("good")
    assert server.requests == []


def test_an_altered_file_is_fetched_anew(get, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"altered")
    assert get("good").read_bytes() == CONTENT


def test_a_partial_file_is_resumed(get, server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:700_000])
    assert get("good").read_bytes() == CONTENT
    assert server.requests == [("/good", "bytes=700000-")]


@pytest.mark.parametrize(("path", "requests"), [("rangeless", 1), ("refuses_ranges", 2)])
def test_a_server_without_ranges_makes_it_start_again(get, server, tmp_path, path, requests):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:700_000])
    assert get(path).read_bytes() == CONTENT
    assert len(server.requests) == requests


def test_a_partial_file_that_is_too_long_is_started_again(get, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert get("good").read_bytes() == CONTENT


def test_a_partial_file_that_is_complete_needs_no_second_transfer(get, server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert get("good").read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_partial_file_of_wrong_bytes_is_started_again(get, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"wrong" * 1000)
    assert get("good").read_bytes() == CONTENT


def test_a_transfer_that_is_cut_off_is_resumed_where_it_stopped(get, server):
    assert get("cut_once").read_bytes() == CONTENT
    assert server.requests == [("/cut_once", None), ("/cut_once", "bytes=400000-")]


@pytest.mark.parametrize("path", ["busy_once", "silent_once"])
def test_a_server_that_fails_once_is_asked_again(get, path):
    assert get(path).read_bytes() == CONTENT


def test_a_redirection_is_followed_and_keeps_the_range(get, server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:10])
    assert get("moved").read_bytes() == CONTENT
    assert server.requests == [("/moved", "bytes=10-"), ("/good", "bytes=10-")]


def test_a_server_that_tells_no_length_is_enough(get):
    assert get("without_length").read_bytes() == CONTENT


@pytest.mark.parametrize("first", ["altered", "absent", "always_cut"])
def test_the_second_address_serves_where_the_first_fails(get, first):
    assert get(first, "good").read_bytes() == CONTENT


def test_a_wrong_digest_everywhere_is_an_error_and_leaves_nothing(get, tmp_path):
    with pytest.raises(FathomError, match=r"file\.bin cannot be fetched.*wrong SHA-256") as caught:
        get("altered", "altered")
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_missing_file_is_asked_for_once_at_each_address(get, server, tmp_path):
    with pytest.raises(FathomError, match=r"/absent: HTTP 404 Not Found"):
        get("absent", "absent")
    assert len(server.requests) == 2
    assert names(tmp_path) == []


def test_a_transfer_that_never_ends_is_an_error_and_keeps_what_came(get, tmp_path):
    with pytest.raises(FathomError, match="cut off after 1000 of 1048576 bytes"):
        get("always_cut")
    assert names(tmp_path) == ["file.bin.part"]


def test_a_server_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "PAUSE_S", 0)
    remote = RemoteFile("file.bin", DIGEST, ("http://127.0.0.1:1/",))
    with pytest.raises(FathomError, match=r"127\.0\.0\.1:1/: .*refused"):
        fetch.fetch(dataset_of(remote), tmp_path)


def test_progress_is_reported_up_to_the_whole(get, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:500_000])
    reports = []
    get("good", report=lambda *report: reports.append(report))
    assert {(name, total) for name, _, total in reports} == {("file.bin", len(CONTENT))}
    done = [done for _, done, _ in reports]
    assert done == sorted(done)
    assert done[0] > 500_000
    assert done[-1] == len(CONTENT)


def test_a_licensed_set_is_not_fetched_and_the_error_says_where_it_is(tmp_path):
    with pytest.raises(FathomError, match=r"licensed.*https://example\.org/home.*file\.bin"):
        fetch.fetch(dataset_of(), tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(server, tmp_path):
    (tmp_path / "file").touch()
    remote = RemoteFile("file.bin", DIGEST, (f"http://127.0.0.1:{server.server_port}/good",))
    with pytest.raises(FathomError, match="cannot write"):
        fetch.fetch(dataset_of(remote), tmp_path / "file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error(get, tmp_path):
    (tmp_path / "file.bin.part").symlink_to("/dev/full")
    with pytest.raises(FathomError, match=r"cannot write .*No space left"):
        get("good")


def test_verify_finds_nothing_wrong_with_right_files(tmp_path):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    assert fetch.verify(dataset_of(RemoteFile("file.bin", DIGEST, ())), tmp_path) == []


def test_verify_names_each_missing_altered_or_unreadable_file(tmp_path):
    (tmp_path / "altered").write_bytes(b"altered")
    (tmp_path / "folder").mkdir()
    remotes = [RemoteFile(name, DIGEST, ()) for name in ("altered", "folder", "missing")]
    altered, folder, missing = fetch.verify(dataset_of(*remotes), tmp_path)
    assert "altered is altered" in altered
    assert "folder cannot be read" in folder
    assert "missing is missing" in missing


def test_verify_loads_a_set_that_has_no_list_of_files(tmp_path):
    with pytest.raises(FathomError, match="missing"):
        fetch.verify(dataset_of(), tmp_path)
    (tmp_path / "file.bin").touch()
    assert fetch.verify(dataset_of(), tmp_path) == []


def tar_of(path, *members, mode="w:gz"):
    """Writes an archive of members, each a name and its content, or a TarInfo."""
    with tarfile.open(path, mode) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                name, content = member
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_archive_is_extracted(tmp_path, mode):
    archive = tar_of(tmp_path / "archive", ("a/b.txt", b"text"), ("c.txt", b""), mode=mode)
    fetch.extract(archive, tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"text"
    assert names(tmp_path / "out") == ["a", "c.txt"]


def test_a_zip_archive_is_extracted(tmp_path):
    archive = zip_of(tmp_path / "archive", ("a/b.txt", b"text"))
    fetch.extract(archive, tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"text"


def test_a_link_inside_the_folder_is_extracted(tmp_path):
    archive = tar_of(tmp_path / "archive", ("a.txt", b"text"), link("b.txt", "a.txt"))
    fetch.extract(archive, tmp_path / "out")
    assert (tmp_path / "out/b.txt").read_bytes() == b"text"


@pytest.mark.parametrize(
    "member",
    [
        ("../outside.txt", b"text"),
        ("a/../../outside.txt", b"text"),
        ("/outside.txt", b"text"),
        link("link", "../../outside.txt"),
        link("link", "/outside.txt"),
        link("link", "../outside.txt", tarfile.LNKTYPE),
        link("pipe", "", tarfile.FIFOTYPE),
    ],
    ids=lambda member: getattr(member, "linkname", member[0] if isinstance(member, tuple) else ""),
)
def test_a_tar_member_that_leads_outside_is_refused_and_nothing_is_written(tmp_path, member):
    archive = tar_of(tmp_path / "archive", ("good.txt", b"text"), member)
    with pytest.raises(FathomError, match="archive is unsafe, nothing was extracted"):
        fetch.extract(archive, tmp_path / "in" / "out")
    assert names(tmp_path) == ["archive", "in"]
    assert names(tmp_path / "in") == []


def test_a_member_below_a_link_that_leads_outside_is_refused(tmp_path):
    archive = tar_of(tmp_path / "archive", link("door", ".."), ("door/outside.txt", b"text"))
    with pytest.raises(FathomError, match="archive is unsafe"):
        fetch.extract(archive, tmp_path / "in" / "out")
    assert names(tmp_path / "in") == []


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt"])
def test_a_zip_member_that_leads_outside_is_refused_and_nothing_is_written(tmp_path, name):
    archive = zip_of(tmp_path / "archive", ("good.txt", b"text"), (name, b"text"))
    with pytest.raises(FathomError, match=r"unsafe.*outside\.txt"):
        fetch.extract(archive, tmp_path / "in" / "out")
    assert names(tmp_path / "in") == []


def test_a_link_to_nothing_makes_the_archive_an_error(tmp_path):
    archive = tar_of(tmp_path / "archive", link("a.txt", "nothing.txt", tarfile.LNKTYPE))
    with pytest.raises(FathomError, match="archive is damaged"):
        fetch.extract(archive, tmp_path / "out")
    assert names(tmp_path) == ["archive"]


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"no archive", mtime=0)])
def test_a_file_that_is_no_archive_is_an_error(tmp_path, content):
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    with pytest.raises(FathomError, match="archive is damaged, encrypted or no archive") as caught:
        fetch.extract(archive, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["archive"]


def test_a_missing_archive_is_an_error(tmp_path):
    with pytest.raises(FathomError, match=r"cannot read .*archive"):
        fetch.extract(tmp_path / "archive", tmp_path / "out")


def test_a_folder_in_use_is_not_overwritten(tmp_path):
    archive = tar_of(tmp_path / "archive", ("a.txt", b"new"))
    fetch.extract(archive, tmp_path / "out")
    with pytest.raises(FathomError, match="out is not empty"):
        fetch.extract(archive, tmp_path / "out")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["w", "w:gz", "w:bz2", "w:xz", "zip"]), st.data())
def test_a_damaged_archive_is_extracted_or_an_error_and_never_half(tmp_path, kind, data):
    archive = tmp_path / "archive"
    members = ("a.txt", b"text" * 50), ("b/c.txt", bytes(range(200)))
    zip_of(archive, *members) if kind == "zip" else tar_of(archive, *members, mode=kind)
    content = bytearray(archive.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= data.draw(st.integers(1, 255))
    else:
        del content[position:]
    archive.write_bytes(content)
    directory = tmp_path / hashlib.sha256(content).hexdigest()
    if not directory.exists():
        try:
            fetch.extract(archive, directory)
        except FathomError:
            assert not directory.exists()
