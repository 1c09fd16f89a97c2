"""Atomic downloads of data sets with pooch, verified by their SHA-256."""

from pathlib import Path

from fathom.core.data.dataset import DataSet, RemoteFile
from fathom.errors import FathomError

TIMEOUT_S = 10.0  # to connect, and between chunks of a response
_CHUNK_BYTES = 1 << 16


def fetch(dataset: type[DataSet], directory: Path, bar: object | None = None) -> None:
    """Downloads the files of a data set that are missing or different in ``directory``.

    Args:
        dataset: the data set, whose ``files`` are downloaded.
        directory: of the files; created if necessary.
        bar: shows the progress of each file: a progress bar as pooch takes it.

    Raises:
        FathomError: the data set has no download, a file is not available at any of its URLs, or
            ``directory`` cannot be written.
    """
    if not dataset.files:
        raise FathomError(
            f"{dataset.title} (licence: {dataset.licence}) is not downloaded by this command: get "
            f"it from {dataset.home_page} and lay it out in {directory} as {dataset.layout}"
        )
    for file in dataset.files:
        _fetch_file(file, directory, bar)


def _fetch_file(file: RemoteFile, directory: Path, bar: object | None) -> None:
    """Tries a file's URLs in order until one gives the right bytes."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    download = pooch.HTTPDownloader(bar or False, _CHUNK_BYTES, timeout=TIMEOUT_S)
    failures = []
    for url in file.urls:
        try:
            pooch.retrieve(url, file.sha256, file.name, directory, downloader=download)
            return
        except requests.HTTPError as error:
            reason = f"HTTP {str(error).partition(' for url')[0]}"
        except requests.Timeout:
            reason = f"no answer in {TIMEOUT_S:g} s"
        except requests.ConnectionError:
            reason = "no connection, or it broke off"
        except requests.RequestException as error:
            reason = f"the transfer failed ({type(error).__name__})"
        except OSError as error:
            target = directory / file.name
            raise FathomError(f"cannot write {target}: {error.strerror or error}") from error
        except ValueError:
            reason = "wrong SHA-256"
        failures.append(f"{url}: {reason}")
    raise FathomError(
        f"{directory / file.name} cannot be fetched ({'; '.join(failures)}): check the network and "
        f"try again, or get the file elsewhere, SHA-256 {file.sha256}"
    )
