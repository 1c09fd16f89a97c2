"""Synthetic graphs in LINQS' format: communities that share words, and degrees by a power law."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_SAME_COMMUNITY = 0.81  # share of edges within a class, as in Cora
_OWN_WORDS = 0.4  # share of a node's words that are typical of its class
_PER_CLASS = 20  # training nodes


@dataclass(frozen=True)
class Size:
    """The size of a graph, of which ``words_per_node`` are drawn, some of them twice."""

    nodes: int
    edges: int
    words: int
    words_per_node: int
    classes: int
    validation: int
    test: int


CORA = Size(2_708, 5_278, 1_433, 19, 7, 500, 1_000)
POWER_LAW = Size(100_000, 1_000_000, 64, 8, 16, 500, 1_000)


def write(directory: Path, name: str, size: Size, seed: int) -> None:
    """Writes ``<name>.content.gz``, ``<name>.cites`` and the split of a random graph."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(size.classes, size=size.nodes)
    words = _draw_words(classes, size, rng)
    edges = _draw_edges(classes, size, rng)
    lines = np.full((size.nodes, 2 * size.words), ord("\t"), np.uint8)
    lines[:, ::2] = words + ord("0")
    content = b"".join(
        b"%d\t%sclass%d\n" % (node, lines[node].tobytes(), classes[node])
        for node in range(size.nodes)
    )
    (directory / f"{name}.content.gz").write_bytes(gzip.compress(content, 6, mtime=0))
    _write_rows(directory / f"{name}.cites", edges)
    train, rest = _draw_training(classes, size, rng)
    for split, nodes in (
        ("train", train),
        ("validation", rest[: size.validation]),
        ("test", rest[size.validation : size.validation + size.test]),
    ):
        _write_rows(directory / f"{split}.index", nodes[:, None])


def _write_rows(path: Path, rows: np.ndarray) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))


def _draw_words(classes: np.ndarray, size: Size, rng: np.random.Generator) -> np.ndarray:
    """Returns which words each node has, bool [nodes, words]."""
    shape = (size.nodes, size.words_per_node)
    per_class = size.words // size.classes
    own = classes[:, None] * per_class + rng.integers(per_class, size=shape)
    drawn = np.where(rng.random(shape) < _OWN_WORDS, own, rng.integers(size.words, size=shape))
    words = np.zeros((size.nodes, size.words), bool)
    np.put_along_axis(words, drawn, True, axis=1)
    return words


def _draw_edges(classes: np.ndarray, size: Size, rng: np.random.Generator) -> np.ndarray:
    """Returns undirected edges [edges, 2], each once and none from a node to itself.

    The i-th node of a random order is drawn with a probability in proportion to i^-1/2: degrees
    then have a power-law tail with exponent 3 (Chung and Lu 2002).
    """
    weights = rng.permutation(np.arange(1, size.nodes + 1) ** -0.5)
    everyone = np.arange(size.nodes)
    members = [everyone[classes == c] for c in range(size.classes)]
    found = np.empty((0, 2), np.int64)
    while len(found) < size.edges:
        wanted = size.edges - len(found) + 100
        left = _draw(everyone, weights, wanted, rng)
        right = _draw(everyone, weights, wanted, rng)
        within = rng.random(wanted) < _SAME_COMMUNITY
        for c, nodes in enumerate(members):
            chosen = np.flatnonzero(within & (classes[left] == c))
            right[chosen] = _draw(nodes, weights[nodes], len(chosen), rng)
        pairs = np.sort(np.stack([left, right], 1)[left != right], axis=1)
        found = np.unique(np.concatenate([found, pairs]), axis=0)
    return found[np.sort(rng.choice(len(found), size.edges, replace=False))]


def _draw(
    nodes: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns nodes drawn with probabilities in proportion to their weights."""
    cumulative = np.cumsum(weights)
    return nodes[np.searchsorted(cumulative, rng.random(count) * cumulative[-1])]


def _draw_training(
    classes: np.ndarray, size: Size, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training nodes, as many of each class, and the others in random order."""
    order = rng.permutation(size.nodes)
    train = np.concatenate([order[classes[order] == c][:_PER_CLASS] for c in range(size.classes)])
    return train, order[~np.isin(order, train)]
