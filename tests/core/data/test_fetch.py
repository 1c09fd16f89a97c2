import hashlib
import http.server
import threading

import pytest

from fathom.core.data import DataSet, RemoteFile, fetch
from fathom.errors import FathomError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the path says what goes wrong on the way."""

    def do_GET(self):
        self.server.requests.append(self.path)
        getattr(self, self.path.strip("/"))()

    def answer(self, code, body=b"", length=None, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def good(self):
        self.answer(200, CONTENT)

    def cut(self):
        self.answer(200, CONTENT[:400_000], length=len(CONTENT))

    def busy(self):
        self.answer(503)

    def silent(self):
        self.server.over.wait()

    def stalled(self):
        self.cut()
        self.server.over.wait()

    def mute(self):
        """Closes the connection without an answer."""

    def moved(self):
        self.answer(302, Location="/good")

    def endless(self):
        self.answer(302, Location="/endless")

    def altered(self):
        self.answer(200, b"altered" + CONTENT)

    def absent(self):
        self.answer(404)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.over = [], threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server, tmp_path, monkeypatch):
    """Fetches a data set of one file from the addresses named; returns the file's path."""

    def get(*paths, bar=None):
        waits = {"silent", "stalled"} & set(paths)
        monkeypatch.setattr(fetch, "TIMEOUT_S", 1.0 if waits else 60.0)
        urls = tuple(f"http://127.0.0.1:{server.server_port}/{path}" for path in paths)
        fetch.fetch(dataset_of(RemoteFile("file.bin", DIGEST, urls)), tmp_path, bar)
        return tmp_path / "file.bin"

    return get


def dataset_of(*remote_files):
    class Fetched(DataSet):
        name = "fetched"
        title = "a set of files"
        licence = "CC BY 4.0"
        home_page = "https://example.org/home"
        layout = "file.bin"
        files = remote_files

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


def test_an_altered_file_is_fetched_again(get, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"altered")
    assert get("good").read_bytes() == CONTENT


def test_a_redirection_is_followed(get):
    assert get("moved").read_bytes() == CONTENT


FAILURES = {
    "altered": "wrong SHA-256",
    "absent": "HTTP 404 Client Error: Not Found",
    "busy": "HTTP 503 Server Error: Service Unavailable",
    "cut": "no connection, or it broke off|the transfer failed",
    "silent": "no answer in 1 s",
    "stalled": "no connection, or it broke off|the transfer failed|no answer",
    "mute": "no connection, or it broke off",
    "endless": r"the transfer failed \(TooManyRedirects\)",
}


@pytest.mark.parametrize("first", FAILURES)
def test_the_second_address_serves_where_the_first_fails(get, first):
    assert get(first, "good").read_bytes() == CONTENT


@pytest.mark.parametrize(("path", "reason"), FAILURES.items())
def test_a_file_that_cannot_be_had_is_an_error_and_leaves_nothing(get, tmp_path, path, reason):
    with pytest.raises(FathomError, match=rf"file\.bin cannot be fetched.*({reason})") as caught:
        get(path)
    assert "\n" not in str(caught.value)
    assert DIGEST in str(caught.value)
    assert names(tmp_path) == []


def test_an_existing_file_stays_if_it_cannot_be_fetched(get, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"altered")
    with pytest.raises(FathomError):
        get("absent")
    assert (tmp_path / "file.bin").read_bytes() == b"altered"


def test_a_server_that_is_not_there_is_an_error(tmp_path):
    remote = RemoteFile("file.bin", DIGEST, ("http://127.0.0.1:1/",))
    with pytest.raises(FathomError, match=r"127\.0\.0\.1:1/: no connection.*check the network"):
        fetch.fetch(dataset_of(remote), tmp_path)


class Bar:
    """Keeps what it is told."""

    def __init__(self):
        self.total, self.done, self.closed = 0, 0, False

    def update(self, n):
        self.done += n

    def reset(self):
        self.done = 0

    def close(self):
        self.closed = True


def test_progress_is_reported_up_to_the_whole(get):
    bar = Bar()
    get("good", bar=bar)
    assert (bar.total, bar.done, bar.closed) == (len(CONTENT), len(CONTENT), True)


def test_a_set_that_is_not_downloaded_says_where_it_is_and_its_licence(tmp_path):
    with pytest.raises(FathomError, match=r"CC BY 4\.0.*https://example\.org/home.*file\.bin"):
        fetch.fetch(dataset_of(), tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(server, tmp_path):
    (tmp_path / "file").touch()
    remote = RemoteFile("file.bin", DIGEST, (f"http://127.0.0.1:{server.server_port}/good",))
    with pytest.raises(FathomError, match="cannot write"):
        fetch.fetch(dataset_of(remote), tmp_path / "file")


def test_a_full_disk_is_an_error(get, tmp_path, monkeypatch):
    import pooch

    def fill(self, url, output_file, pooch, check_only=False):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fill)
    with pytest.raises(FathomError, match=r"cannot write .*file\.bin: No space left"):
        get("good")
