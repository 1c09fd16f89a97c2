"""The data-set interface, and data-set resolution: which one a run reads, and from where."""

import abc
import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fathom.errors import FathomError
from fathom.options import Origin, unknown_option
from fathom.system.files import (
    atomic_directory,
    cache_directory,
    make_cache_folder,
    open_file,
    user_path,
)

_FINGERPRINTED, _BEGINNING = 1000, 2**16  # files of a fingerprint, and bytes of each

Report = Callable[[int, int], None]
"""Called with the number of examples done and their total number."""

Conversion = Callable[[Path, Path, int | None, Report], None]
"""Writes a folder's data set in another format: (source, target, shards, report).

``target`` is a new folder. ``shards`` is the number of files; None: the default.
"""


@dataclass(frozen=True)
class RemoteFile:
    """A file that can be fetched.

    Attributes:
        name: path below the data set's folder, with forward slashes.
        sha256: hexadecimal digest of the file's bytes.
        urls: of the file, tried in order.
    """

    name: str
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """The options of a data set's reader; subclasses add fields."""


class DataSet(abc.ABC):
    """A data set: its description, origin, layout, reader and synthesis.

    A subclass sets the class attributes and defines two class methods. ``load`` reads a folder in
    the data set's own format; ``synthesize`` writes such a folder, so that synthetic data is read
    by the loader of real data.

    Attributes:
        name: short name: the folder below ``$FATHOM_DATA_DIR`` and the name on the command line.
        title: human-readable name.
        licence: the licence as the source states it.
        home_page: of its authors.
        layout: the expected files below the folder, in one line, for messages and documentation.
        synthesis: version of ``synthesize``; increment it to rebuild cached sets.
        files: downloaded by ``fathom data fetch``; empty if there is no download.
        nested: another folder below ``$FATHOM_DATA_DIR`` that may hold it.
        Options: the dataclass of the options of ``verify``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    licence: ClassVar[str]
    home_page: ClassVar[str]
    layout: ClassVar[str]
    synthesis: ClassVar[int] = 1
    files: ClassVar[tuple[RemoteFile, ...]] = ()
    nested: ClassVar[str | None] = None
    Options: ClassVar[type[Reading]] = Reading

    @classmethod
    @abc.abstractmethod
    def load(cls, directory: Path, *args: Any, **kwargs: Any) -> Any:
        """Returns the data set in ``directory``, an object of the subclass.

        Raises:
            FathomError: a file is missing, unreadable or malformed; the message names it.
        """

    @classmethod
    @abc.abstractmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a small learnable imitation, determined by ``seed`` alone, to ``directory``."""

    @classmethod
    def recognizes(cls, directory: Path) -> bool:
        """Returns whether a folder holds this data set, among those that a workload can read."""
        return True

    @classmethod
    @abc.abstractmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads the data that training reads.

        Args:
            directory: the data set's folder.
            options: an object of the data set's ``Options``.
            everything: read all of a large data set, otherwise a sample.

        Returns:
            a description of the verified data.

        Raises:
            FathomError: data that training reads is missing, damaged or altered.
        """

    @classmethod
    def conversions(cls) -> Mapping[str, Conversion]:
        """Returns the formats that the data set can be converted to, by name."""
        return {}

    @classmethod
    def packaged(cls) -> Path | None:
        """Returns the folder of the set in an installed library; None if there is none.

        Such a set is used instead of an imitation unless the user gives another.
        """
        return None


@dataclass(frozen=True)
class DataSource:
    """The source of a run's data.

    Attributes:
        directory: read by the loader.
        kind: ``"given"`` (``--data-dir``), ``"environment"`` (``$FATHOM_DATA_DIR``),
            ``"fetched"`` (``fathom data fetch``, all files), ``"packaged"`` (with a library) or
            ``"synthetic"``.
        reason: for synthetic data, why there is no other, with the remedy.
    """

    directory: Path
    kind: Origin
    reason: str = ""

    def __str__(self) -> str:
        origin = {
            "given": "",
            "environment": ", from $FATHOM_DATA_DIR",
            "fetched": ", fetched",
            "packaged": ", packaged with an installed library",
            "synthetic": f", synthetic: {self.reason}",
        }[self.kind]
        return f"{self.directory}{origin}"

    def fingerprint(self) -> str:
        """Returns a digest of the data: of names, sizes and beginnings of the first 1,000 files.

        Of synthetic data, which the seed determines, it is their kind.
        """
        if self.kind == "synthetic":
            return self.kind
        digest = hashlib.sha256()
        for path in itertools.islice(_files(self.directory), _FINGERPRINTED):
            digest.update(os.fsencode(path.relative_to(self.directory)))
            digest.update(f" {path.stat().st_size} ".encode())
            with open_file(path) as file:
                digest.update(file.read(_BEGINNING))
        return digest.hexdigest()[:12]


def _files(folder: Path) -> Iterator[Path]:
    """Yields the regular files below a folder by their names, unless it must not be read."""
    try:
        paths = sorted(folder.iterdir())
    except PermissionError:
        return
    for path in paths:
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def choose(
    datasets: Sequence[type[DataSet]], name: str | None, data_dir: str | Path | None
) -> type[DataSet]:
    """Returns the data set that a run reads.

    Args:
        datasets: supported by the workload.
        name: given by the user; None: the first found in the folders, else the first.
        data_dir: given by the user.

    Raises:
        FathomError: no data set of this name, or as ``find``.
    """
    known = {dataset.name: dataset for dataset in datasets}
    if name is not None:
        if name not in known:
            raise unknown_option("data set", name, known)
        return known[name]
    if len(datasets) == 1:
        return datasets[0]
    for dataset in datasets:
        source = find(dataset, data_dir, seed=0)
        if source.kind != "synthetic" and dataset.recognizes(source.directory):
            return dataset
    return datasets[0]


def _environment_directory(dataset: type[DataSet]) -> Path | None:
    root = os.environ.get("FATHOM_DATA_DIR")
    if not root:
        return None
    folders = [user_path(root) / name for name in (dataset.name, dataset.nested) if name]
    return next(filter(_is_folder, folders), folders[0])


def fetched_directory(dataset: type[DataSet]) -> Path:
    """Returns the default folder of ``fathom data fetch``."""
    return _environment_directory(dataset) or cache_directory() / "data" / dataset.name


def _is_folder(path: Path) -> bool:
    """Returns whether a folder exists; an unreadable one is an error."""
    with contextlib.suppress(PermissionError):
        if not path.is_dir():
            return False
    if not os.access(path, os.R_OK | os.X_OK):
        raise FathomError(f"{path} cannot be read: check its permissions")
    return True


def find(dataset: type[DataSet], data_dir: str | Path | None, seed: int) -> DataSource:
    """Returns the current source of a run's data, without creating it.

    The order: ``data_dir``, ``$FATHOM_DATA_DIR/<name>``, fetched data, an installed library, the
    synthetic set.

    Raises:
        FathomError: ``data_dir`` or ``$FATHOM_DATA_DIR`` is not a folder, or a folder cannot be
            read.
    """
    if data_dir is not None:
        directory = user_path(data_dir)
        if not _is_folder(directory):
            raise FathomError(
                f"{directory} is not a folder; {dataset.title} is expected there as "
                f"{dataset.layout}. Omit --data-dir to use $FATHOM_DATA_DIR, or synthetic data"
            )
        return DataSource(directory, "given")
    folder = _environment_directory(dataset)
    if folder and not _is_folder(folder.parent):
        raise FathomError(
            f"$FATHOM_DATA_DIR is {folder.parent}, which is not a folder: correct or unset it"
        )
    if folder and _is_folder(folder):
        return DataSource(folder, "environment")
    fetched = cache_directory() / "data" / dataset.name
    begun = _is_folder(fetched)
    if begun and all((fetched / file.name).is_file() for file in dataset.files):
        return DataSource(fetched, "fetched")
    if packaged := dataset.packaged():
        return DataSource(packaged, "packaged")
    reason = "use --data-dir or $FATHOM_DATA_DIR for real data"
    if folder:
        reason = f"$FATHOM_DATA_DIR has no {dataset.name}"
    elif begun:
        reason = f"{fetched} lacks files: python -m fathom data fetch {dataset.name} resumes"
    version = f"v{dataset.synthesis}-seed-{seed}"
    return DataSource(cache_directory() / "synthetic" / dataset.name / version, "synthetic", reason)


def state(dataset: type[DataSet]) -> str:
    """Returns the kind of a data set's current source, or the error of finding it, for a table."""
    try:
        source = find(dataset, None, seed=0)
        if source.kind == "synthetic" or dataset.recognizes(source.directory):
            return source.kind
        return f"none of its files in {source.directory}"
    except FathomError as error:
        return str(error)


def locate(dataset: type[DataSet], data_dir: str | Path | None, seed: int) -> DataSource:
    """Finds a run's data like ``find``, and writes the synthetic set on first use.

    Raises:
        FathomError: ``data_dir`` or ``$FATHOM_DATA_DIR`` is not a folder, a folder cannot be read,
            the cache cannot be written, or ``synthesize`` writes nothing.
    """
    source = find(dataset, data_dir, seed)
    if source.kind != "synthetic":
        return source
    if not _is_folder(source.directory):
        make_cache_folder(source.directory.parent, otherwise=", or use --data-dir")
        with atomic_directory(source.directory) as temporary:
            dataset.synthesize(temporary, seed)
            if not any(temporary.iterdir()):
                raise FathomError(f"{dataset.__name__}.synthesize writes no file")
    return source
