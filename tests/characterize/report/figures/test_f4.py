import numpy as np
import pytest
from synthetic_folder import WORKLOADS, op, ops_of, paper_profile, profile

from fathom.characterize.profile import tables
from fathom.characterize.report import published
from fathom.characterize.report.figures import f4

CONVOLUTIONAL = {"residual", "vgg", "alexnet", "deepq"}


def test_the_papers_own_figure_comes_out_of_its_table():
    hierarchy = f4.merges(published.breakdown())
    together = [set(names.split()) for names in hierarchy["workloads together"]]
    assert together[:2] == [{"residual", "vgg"}, {"residual", "vgg", "alexnet"}]
    assert CONVOLUTIONAL in together
    speech, seq2seq, all_four = (
        hierarchy["cosine distance"][together.index(names)]
        for names in (
            {"speech", "autoenc"},
            {"seq2seq", "memnet"},
            {"speech", "autoenc", "seq2seq", "memnet"},
        )
    )
    assert speech < seq2seq  # both sentences stand in section V.C
    assert all_four == pytest.approx(0.4, abs=0.05)


def test_profiles_with_the_papers_shares_give_the_papers_hierarchy():
    ours = tables.shares(ops_of(*map(paper_profile, WORKLOADS)))
    paper = published.breakdown()
    together = "workloads together"
    assert f4.merges(ours)[together].tolist() == f4.merges(paper)[together].tolist()
    distances = [f4.distances(each).set_index("workload") for each in (ours, paper)]
    np.testing.assert_allclose(*distances, atol=1e-9)


def test_op_types_of_one_workload_alone_count_as_absent_in_the_others():
    first = profile([op("MatMul", [1.0]), op("Foo", [1.0])], "memnet")
    shares = tables.shares(ops_of(first, profile([op("MatMul", [1.0])], "speech")))
    assert f4.distances(shares).speech[0] == pytest.approx(1 - 0.5**0.5)
    assert f4.merges(shares).to_dict("list") == {
        "merge": [1],
        "cosine distance": [pytest.approx(1 - 0.5**0.5)],
        "workloads together": ["memnet speech"],
    }


def test_the_papers_dendrogram_stands_beside_ours():
    shares = tables.shares(ops_of(*map(paper_profile, WORKLOADS[:3])))
    ours, theirs = f4.draw(shares).axes
    assert (len(ours.lines), len(theirs.lines)) == (2, 7)
    last = max(max(line.get_xdata()) for line in ours.lines)
    assert last == pytest.approx(f4.merges(shares)["cosine distance"].iloc[-1])
