"""Cora (Sen et al. 2008) in LINQS' text format: papers, their words and citations."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.core.data import DataSet
from fathom.core.data.files import open_unpacked
from fathom.errors import FathomError
from fathom.modern.gcn import synthetic
from fathom.system.files import exists

if TYPE_CHECKING:
    import scipy.sparse

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Cora(DataSet):
    """A graph in memory."""

    name = "cora"
    title = "Cora citation graph"
    licence = "none stated; for research"
    home_page = "https://linqs.org/datasets/#cora"
    layout = (
        "cora.content (node, features, class), cora.cites (pairs), each plain or with .gz; "
        "train.index, validation.index, test.index (a node a line)"
    )

    features: "scipy.sparse.csr_array"  # float32 [nodes, words]
    classes: np.ndarray  # int32 [nodes], each the place of its name in ``class_names``
    class_names: tuple[str, ...]  # in alphabetical order
    edges: np.ndarray  # int64 [edges, 2], undirected: each once, the smaller node first, in order
    train: np.ndarray  # int32, as ``validation`` and ``test``: the nodes of a part of the split
    validation: np.ndarray
    test: np.ndarray

    @classmethod
    def load(cls, directory: Path) -> "Cora":
        """Reads the graph.

        Raises:
            FathomError: a file is missing, unreadable or malformed; the message names the line.
        """
        content, cites = (directory / f"{cls.name}.{kind}" for kind in ("content", "cites"))
        numbers, features, names = _read_nodes(content)
        class_names = tuple(sorted(set(names)))
        place = {name: i for i, name in enumerate(class_names)}
        splits = [_read_split(directory / f"{split}.index", numbers) for split in SPLITS]
        together, counts = np.unique(np.concatenate(splits), return_counts=True)
        if counts.max() > 1:
            node = list(numbers)[together[counts.argmax()]]
            raise FathomError(f"{directory}: node {_text(node)} is twice in the *.index files")
        classes = np.array([place[name] for name in names], np.int32)
        edges = _read_edges(cites, numbers)
        return cls(features, classes, class_names, edges, *splits)

    @classmethod
    def verify(cls, directory: Path, options: Any, everything: bool) -> str:
        """Reads the whole graph."""
        graph = cls.load(directory)
        nodes, words = graph.features.shape
        parts = " / ".join(str(len(getattr(graph, split))) for split in SPLITS)
        return (
            f"{nodes:,} nodes, {len(graph.edges):,} edges, {words:,} features, "
            f"{len(graph.class_names)} classes, split {parts}"
        )

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a graph with communities, of Cora's size."""
        synthetic.write(directory, cls.name, synthetic.CORA, seed)


class PowerLaw(Cora):
    """A synthetic graph of 100,000 nodes and a million edges, for measurements of speed."""

    name = "powerlaw"
    title = "power-law graph"
    licence = "CC0"
    home_page = "none: it is synthetic"
    layout = Cora.layout.replace("cora", "powerlaw")

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Writes a graph with communities whose degrees follow a power law."""
        synthetic.write(directory, cls.name, synthetic.POWER_LAW, seed)


def _lines(path: Path) -> list[bytes]:
    """Returns the lines of a text file, or of the same with ``.gz``.

    Raises:
        FathomError: it is empty, or ends within a line: a number that is cut may be another node's.
    """
    compressed = path.with_name(f"{path.name}.gz")
    source = compressed if exists(compressed) and not exists(path) else path
    with open_unpacked(source) as stream:
        content = stream.read()
    if not content.strip():
        raise FathomError(f"{source} is empty")
    if not content.endswith(b"\n"):
        raise FathomError(f"{source} ends within a line: is it cut off?")
    return content.rstrip(b"\r\n").splitlines()


def _read_nodes(path: Path) -> "tuple[dict[bytes, int], scipy.sparse.csr_array, list[str]]":
    """Returns the number of each node by its name, the features, and the names of the classes."""
    import scipy.sparse  # takes longer to import than all else that lists the workloads

    numbers: dict[bytes, int] = {}
    names, columns, values, ends = [], [], [], [0]
    width = -1
    for number, line in enumerate(_lines(path), 1):
        node, _, rest = line.partition(b"\t")
        text, _, name = rest.rpartition(b"\t")
        row = _features(text, f"{path}, line {number}")
        if len(row) != width and numbers:
            raise FathomError(f"{path}, line {number}: {len(row)} features, not {width} as before")
        if node in numbers:
            raise FathomError(f"{path}, line {number}: node {_text(node)} is there already")
        width, numbers[node] = len(row), len(numbers)
        names.append(_text(name))
        columns.append(np.flatnonzero(row))
        values.append(row[columns[-1]])
        ends.append(ends[-1] + len(columns[-1]))
    parts = (np.concatenate(values), np.concatenate(columns), np.array(ends))
    return numbers, scipy.sparse.csr_array(parts, shape=(len(numbers), width)), names


def _features(text: bytes, place: str) -> np.ndarray:
    """Returns the features of a line, float32."""
    if not text:
        raise FathomError(
            f"{place}: no features, expected node, features and class with tabs between"
        )
    letters = np.frombuffer(text, np.uint8)
    digits = letters[::2] - ord("0")
    if len(text) % 2 and (letters[1::2] == ord("\t")).all() and (digits <= 1).all():
        return digits.astype(np.float32)  # as in Cora; several times as fast
    try:
        row = np.array(text.split(b"\t"), np.float32)
    except ValueError as error:
        raise FathomError(f"{place}: a feature is not a number") from error
    if not (np.isfinite(row) & (row >= 0)).all():
        raise FathomError(f"{place}: a feature is negative or not finite")
    return row


def _read_edges(path: Path, numbers: dict[bytes, int]) -> np.ndarray:
    """Returns the undirected edges; two papers that cite each other have one."""
    pairs = []
    for number, line in enumerate(_lines(path), 1):
        nodes = line.split()
        if len(nodes) != 2:
            raise FathomError(f"{path}, line {number}: {len(nodes)} nodes, expected 2")
        pairs.append(_numbers(nodes, numbers, f"{path}, line {number}"))
    directed = np.array(pairs, np.int64)
    itself = np.flatnonzero(directed[:, 0] == directed[:, 1])
    if len(itself):
        raise FathomError(f"{path}, line {itself[0] + 1}: an edge from a node to itself")
    first = np.unique(directed, axis=0, return_index=True)[1]
    if len(first) < len(directed):
        repeated = np.setdiff1d(np.arange(len(directed)), first)[0]
        raise FathomError(f"{path}, line {repeated + 1}: the edge is there already")
    return np.unique(np.sort(directed, axis=1), axis=0)


def _read_split(path: Path, numbers: dict[bytes, int]) -> np.ndarray:
    """Returns the nodes of one part of the split."""
    nodes = [
        _numbers([line.strip()], numbers, f"{path}, line {number}")[0]
        for number, line in enumerate(_lines(path), 1)
    ]
    return np.array(nodes, np.int32)


def _numbers(nodes: Iterable[bytes], numbers: dict[bytes, int], place: str) -> list[int]:
    try:
        return [numbers[node] for node in nodes]
    except KeyError as error:
        raise FathomError(f"{place}: there is no node {_text(error.args[0])}") from error


def _text(name: bytes) -> str:
    """Returns a name for a message or a picture."""
    return name.decode(errors="backslashreplace")
