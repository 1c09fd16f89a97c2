import numpy as np
import pytest
from synthetic_folder import WORKLOADS, folder, op, ops_of, paper_profile, profile, run

from fathom.measure.profile import tables
from fathom.measure.report import published
from fathom.measure.report.figures import f4

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


def processes(noise, *profiles):
    """A frame of three processes of each profile, given as a workload and shares."""
    generator = np.random.default_rng(0)
    return ops_of(
        *(
            profile([op(t, [s * np.exp(generator.normal(0, noise))]) for t, s in ops], workload)
            for workload, ops in profiles
            for _ in range(3)
        )
    )


MEMNET = ("memnet", [("MatMul", 1.0), ("Add", 1.0)])
SPEECH = ("speech", [("MatMul", 1.0), ("Add", 1.2)])
VGG = ("vgg", [("Conv2D", 1.0), ("Add", 0.3)])


def test_the_closest_two_are_told_where_the_noise_allows_it():
    for noise, third, words in (
        (0.02, VGG, "The closest two are memnet and speech at 0.0"),
        (0.5, ("vgg", SPEECH[1]), "Which two are closest is within the noise"),
    ):
        ops = processes(noise, MEMNET, SPEECH, third)
        shares = tables.shares(ops)
        by_process = f4.processes(ops, shares)
        table = f4.merges(shares, by_process)
        assert f4.summary(table, by_process).startswith(words)
        assert (table["from"] <= table["cosine distance"]).all()
        assert (table["cosine distance"] <= table["to"]).all()


def test_of_one_process_each_nothing_is_concluded():
    runs = [
        run(name, profile=profile([op(t, [s]) for t, s in o], name)) for name, o in (MEMNET, VGG)
    ]
    findings = f4.FIGURE.analyse(folder(runs))
    assert findings.data[["from", "to"]].isna().all(axis=None)
    assert findings.summary.startswith("The first merge is of memnet and vgg at 0.")
    assert findings.summary.endswith("One run, no interval.")


def test_the_papers_dendrogram_stands_beside_ours():
    shares = tables.shares(ops_of(*map(paper_profile, WORKLOADS[:3])))
    ours, theirs = f4.draw(shares).axes
    assert (len(ours.lines), len(theirs.lines)) == (2, 7)
    last = max(max(line.get_xdata()) for line in ours.lines)
    assert last == pytest.approx(f4.merges(shares)["cosine distance"].iloc[-1])
