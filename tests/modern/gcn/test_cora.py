"""Graphs in LINQS' format, as a user may have them."""

import dataclasses
import gzip

import numpy as np
import pytest

from fathom.core.data import files
from fathom.errors import FathomError
from fathom.modern.gcn import synthetic
from fathom.modern.gcn.cora import Cora, PowerLaw

SMALL = dataclasses.replace(
    synthetic.CORA, nodes=200, edges=400, words=30, words_per_node=5, validation=20, test=30
)


@pytest.fixture
def folder(tmp_path):
    """Gives the folder of a graph of four papers."""
    files = {
        "cora.content": "p1\t0\t1\tA\np2\t1\t0\tB\np3\t1\t1\tA\np4\t0\t0.5\tB\n",
        "cora.cites": "p1\tp2\np2\tp1\np3\tp1\n",
        "train.index": "p1\np2\n",
        "validation.index": "p3\n",
        "test.index": "p4\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("more", ["", "\n"])
def test_a_graph_is_read_with_each_undirected_edge_once(folder, more):
    for path in folder.iterdir():
        path.write_text(path.read_text() + more)  # a blank line at the end
    graph = Cora.load(folder)
    np.testing.assert_array_equal(graph.features.toarray(), [[0, 1], [1, 0], [1, 1], [0, 0.5]])
    assert graph.class_names == ("A", "B")
    assert graph.classes.tolist() == [0, 1, 0, 1]
    assert graph.edges.tolist() == [[0, 1], [0, 2]]
    assert (graph.train.tolist(), graph.validation.tolist(), graph.test.tolist()) == (
        [0, 1],
        [2],
        [3],
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cora.content", "", "is empty"),
        ("cora.content", "p1\tA\n", "line 1: no features"),
        ("cora.content", "p1\t0\t1\tA\np2\t1\tB\n", "line 2: 1 features, not 2 as before"),
        ("cora.content", "p1\t0\tx\tA\n", "line 1: a feature is not a number"),
        ("cora.content", "p1\t0\tnan\tA\n", "line 1: a feature is negative or not finite"),
        ("cora.content", "p1\t0\t1\tA\np1\t1\t1\tB\n", "line 2: node p1 is there already"),
        ("cora.cites", "p1\tp9\n", "line 1: there is no node p9"),
        ("cora.cites", "p1\n", "line 1: 1 nodes, expected 2"),
        ("cora.cites", "p1\tp2\np3\tp3\n", "line 2: an edge from a node to itself"),
        ("cora.cites", "p3\tp2\np1\tp2\np3\tp2\n", "line 3: the edge is there already"),
        ("test.index", "p4\np7\n", "line 2: there is no node p7"),
        ("test.index", "p1\n", "node p1 is twice in the"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(name, text, message, folder):
    (folder / name).write_text(text)
    with pytest.raises(FathomError, match=message) as error:
        Cora.load(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_or_cut_off_file_is_named(folder):
    content = gzip.compress((folder / "cora.content").read_bytes())
    (folder / "cora.content").unlink()
    with pytest.raises(FathomError, match=r"cora\.content"):
        Cora.load(folder)
    (folder / "cora.content.gz").write_bytes(content)
    assert len(Cora.load(folder).classes) == 4
    (folder / "cora.content.gz").write_bytes(content[:-12])
    with pytest.raises(FathomError, match=r"cora\.content\.gz is damaged"):
        Cora.load(folder)


def test_a_text_that_ends_within_a_number_is_refused(folder):
    text = (folder / "cora.cites").read_bytes()
    assert text.endswith(b"\n")
    (folder / "cora.cites").write_bytes(text[:-1])
    with pytest.raises(FathomError, match=r"cora\.cites ends within a line"):
        Cora.load(folder)


def test_a_file_that_unpacks_to_far_more_than_a_graph_does_is_refused(folder, monkeypatch):
    monkeypatch.setattr(files, "_UNCHECKED_BYTES", 1000)
    (folder / "cora.cites").unlink()
    (folder / "cora.cites.gz").write_bytes(gzip.compress(b"p1\tp2\n" * 10**6))
    with pytest.raises(FathomError, match=r"cora\.cites\.gz unpacks to over 100 times its size"):
        Cora.load(folder)


def test_a_synthetic_graph_is_determined_by_its_seed_and_has_communities(tmp_path):
    graphs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        synthetic.write(tmp_path / name, "cora", SMALL, seed)
        graphs.append(Cora.load(tmp_path / name))
    first, same, other = graphs
    np.testing.assert_array_equal(first.edges, same.edges)
    assert (first.features != same.features).nnz == 0
    assert len(first.edges) == len(other.edges) == 400
    assert not np.array_equal(first.edges, other.edges)
    assert len(first.train) == 20 * 7
    assert np.mean(first.classes[first.edges[:, 0]] == first.classes[first.edges[:, 1]]) > 0.5


def test_degrees_of_a_synthetic_graph_have_a_power_law_tail(tmp_path):
    size = dataclasses.replace(synthetic.POWER_LAW, nodes=2_000, edges=20_000)
    synthetic.write(tmp_path, "powerlaw", size, seed=0)
    graph = PowerLaw.load(tmp_path)
    degrees = np.bincount(graph.edges.ravel(), minlength=2_000)
    assert degrees.mean() == 20
    assert degrees.max() > 10 * degrees.mean()
