"""Fetching data sets: resumed, checked against their SHA-256, and whole or not at all."""

import http.client
import lzma
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from fathom.data.dataset import DataSet, RemoteFile
from fathom.errors import FathomError
from fathom.system.files import atomic_directory, sha256

Report = Callable[[str, int, int | None], None]

ATTEMPTS = 5
PAUSE_S = 1.0
TIMEOUT_S = 30.0
BLOCK_BYTES = 1 << 18

# What the archive modules raise for bytes that they cannot make sense of.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
)


class _TransferError(Exception):
    """What the network or the server did wrong.

    Attributes:
        lasting: asking the same address again would not help.
    """

    def __init__(self, message: str, lasting: bool = False):
        super().__init__(message)
        self.lasting = lasting


def fetch(dataset: type[DataSet], directory: Path, report: Report | None = None) -> None:
    """Downloads the files of a data set that are not yet, or not rightly, in ``directory``.

    A download grows in ``<name>.part`` beside its target and is renamed when its SHA-256 is
    right. What an interrupted one left is resumed.

    Args:
        dataset: the data set, whose ``files`` are fetched.
        directory: where the files go; made if need be.
        report: called during each download with the file's name, the bytes that are there, and
            the bytes in all (None where the server does not say).

    Raises:
        FathomError: the data set is licensed and has to be got by hand, a file cannot be had from
            any of its addresses, or ``directory`` cannot be written.
    """
    if not dataset.files:
        raise FathomError(
            f"{dataset.title} is licensed ({dataset.licence}) and is never fetched: get it from "
            f"{dataset.home_page} and lay it out in {directory} as {dataset.layout}"
        )
    for file in dataset.files:
        target = directory / file.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (target.is_file() and sha256(target) == file.sha256):
                _fetch_file(file, target, report or (lambda name, done, total: None))
        except OSError as error:  # of the disk: those of the network are _TransferErrors
            raise FathomError(f"cannot write {target}: {error.strerror or error}") from error


def _fetch_file(file: RemoteFile, target: Path, report: Report) -> None:
    """Tries a file's addresses in turn until one gives the right bytes."""
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in file.urls:
        try:
            _download(url, file, part, report)
        except _TransferError as error:
            failures.append(f"{url}: {error}")
        else:
            part.replace(target)
            return
    raise FathomError(
        f"{target} cannot be fetched ({'; '.join(failures)}): try again later, or get the file "
        f"elsewhere, SHA-256 {file.sha256}"
    )


def _download(url: str, file: RemoteFile, part: Path, report: Report) -> None:
    """Fills ``part`` from one address, in several attempts if need be, and checks its digest."""
    for attempt in range(1, ATTEMPTS + 1):
        resumed = part.exists()
        try:
            _transfer(url, file.name, part, report)
            digest = sha256(part)
            if digest == file.sha256:
                return
            part.unlink()
            # The fault may lie in what an earlier attempt left: only a fresh copy tells.
            raise _TransferError(f"wrong SHA-256 {digest}", lasting=not resumed)
        except _TransferError as error:
            if error.lasting or attempt == ATTEMPTS:
                raise
        time.sleep(PAUSE_S)


def _transfer(url: str, name: str, part: Path, report: Report) -> None:
    """Makes one request, for what ``part`` still lacks, and appends the answer to it."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fathom"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if done and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is left to send: the digest tells whether the part is the file
        lasting = 400 <= error.code < 500
        raise _TransferError(f"HTTP {error.code} {error.reason}", lasting) from error
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(_describe(error)) from error
    with response:
        resumes = response.status == http.HTTPStatus.PARTIAL_CONTENT
        done = done if resumes else 0
        total = None if response.length is None else done + response.length
        with part.open("ab" if resumes else "wb") as output:
            while block := _read(response):
                output.write(block)
                done += len(block)
                report(name, done, total)
    if total is not None and done < total:
        raise _TransferError(f"cut off after {done} of {total} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(BLOCK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(_describe(error)) from error


def _describe(error: Exception) -> str:
    return str(getattr(error, "reason", error)) or type(error).__name__


def verify(dataset: type[DataSet], directory: Path) -> list[str]:
    """Checks a data set on disk; one that has no list of files is loaded instead.

    Returns:
        One line for each file that is missing, unreadable or altered; empty if all is right.

    Raises:
        FathomError: a data set without a list of files cannot be loaded.
    """
    if not dataset.files:
        dataset.load(directory)
        return []
    problems = []
    for file in dataset.files:
        path = directory / file.name
        try:
            digest = sha256(path)
        except FileNotFoundError:
            problems.append(f"{path} is missing")
        except OSError as error:
            problems.append(f"{path} cannot be read: {error.strerror}")
        else:
            if digest != file.sha256:
                problems.append(f"{path} is altered: SHA-256 {digest}, expected {file.sha256}")
    return problems


def extract(archive: Path, directory: Path) -> None:
    """Unpacks a tar (plain, gzip, bzip2 or xz) or zip archive into a new folder.

    Args:
        archive: the archive; its content decides its kind, not its name.
        directory: a folder that does not exist or is empty; it appears whole or not at all.

    Raises:
        FathomError: the archive is unreadable or damaged, a member would land outside
            ``directory``, or that is in use or cannot be written.
    """
    if directory.is_dir() and any(directory.iterdir()):
        raise FathomError(f"{directory} is not empty: remove it to extract {archive} anew")
    try:
        file = archive.open("rb")
    except OSError as error:
        raise FathomError(f"cannot read {archive}: {error.strerror}") from error
    with file, atomic_directory(directory) as temporary:
        try:
            _unpack(file, temporary)
        except tarfile.FilterError as error:
            raise FathomError(f"{archive} is unsafe, nothing was extracted: {error}") from error
        except _DAMAGE as error:
            cause = str(error).partition("\n")[0].rstrip(":")
            raise FathomError(f"{archive} is damaged, encrypted or no archive: {cause}") from error
        except OSError as error:
            if error.errno is None:  # gzip and bz2 report damage so
                raise FathomError(f"{archive} is damaged: {error}") from error
            raise


def _unpack(file: BinaryIO, directory: Path) -> None:
    if not zipfile.is_zipfile(file):
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            tar.extractall(directory, filter=_inside)
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if _leads_outside(name):
                raise FathomError(f"{file.name} is unsafe, nothing was extracted: member {name!r}")
        archive.extractall(directory)


def _inside(member: tarfile.TarInfo, directory: str) -> tarfile.TarInfo | None:
    """Refuses absolute names, which the ``data`` filter would make relative, then as that does."""
    if _leads_outside(member.name):
        raise tarfile.OutsideDestinationError(member, member.name)
    return tarfile.data_filter(member, directory)


def _leads_outside(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
