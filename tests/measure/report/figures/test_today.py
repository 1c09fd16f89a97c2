import pytest
from synthetic_folder import folder, op, ops_of, paper_profile, profile, result, run

from fathom.measure.profile import tables
from fathom.measure.report.figures import f2, f3, f4, f5, f6, today

EIGHT = ("residual", "vgg", "alexnet", "speech", "autoenc")


def like(workload, name, threads=1):
    """A profile with the shares of a paper's row and a little time of a type of its own."""
    own = paper_profile(workload)
    return profile([*own.ops, op("SparseTensorDenseMatMul", [0.001] * 6)], name, threads)


def placed(*profiles):
    ops = ops_of(*profiles)
    shares = tables.shares(ops)
    return shares, today.places(shares, f4.processes(ops, shares))


def test_a_workload_joins_the_nearest_of_the_eight():
    _, table = placed(*map(paper_profile, EIGHT), like("speech", "gpt"))
    (row,) = table.to_dict("records")
    assert (row["workload"], row["joins"], row["nearest"]) == ("gpt", "speech", "speech")
    assert 0 < row["cosine distance"] == row["at"] < 0.01


def test_a_workload_between_two_joins_their_cluster():
    half = [
        op(name, [sum(each) / 2] * 6)
        for name, each in {"Conv2D": (1.0, 0.6), "MatMul": (0.6, 1.0)}.items()
    ]
    ends = [
        profile([op("Conv2D", [a] * 6), op("MatMul", [b] * 6)], name)
        for name, a, b in (("vgg", 1.0, 0.6), ("alexnet", 0.6, 1.0))
    ]
    far = profile([op("Add", [1.0] * 6)], "memnet")
    _, table = placed(*ends, far, profile(half, "dlrm"))
    assert table["joins"].tolist() == ["vgg alexnet"]
    assert table["cosine distance"].tolist() == [pytest.approx(0, abs=1e-9)]


def test_further_workloads_do_not_change_the_hierarchy_of_the_eight():
    shares, table = placed(*map(paper_profile, EIGHT), like("vgg", "gcn"))
    eight = shares.drop(index="gcn")
    drawn = today.draw(shares, table)
    blue = [line for line in drawn.axes[0].lines if line.get_label() == "the eight"]
    heights = sorted(max(line.get_xdata()) for line in blue)
    assert heights == pytest.approx(sorted(f4.merges(eight)["cosine distance"]))
    names = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert abs(names.index("gcn") - names.index("vgg")) == 1


def test_the_report_draws_them_or_says_what_is_missing():
    runs = [run(name, profile=paper_profile(name)) for name in EIGHT]
    findings = today.FIGURE.analyse(folder(runs))
    assert findings.plot is None
    assert findings.gaps[-1] == "no workload beside the eight was profiled"
    runs.append(run("gcn", profile=like("vgg", "gcn")))
    findings = today.FIGURE.analyse(folder(runs))
    assert findings.plot is not None
    assert findings.summary.startswith("gcn joins vgg at 0.0")
    (gpt,) = [run("gpt", profile=like("vgg", "gpt"))]
    assert today.FIGURE.analyse(folder([gpt])).gaps[-1] == "at least two of the eight are needed"


@pytest.mark.parametrize("figure", [f2, f3, f4, f5, f6], ids=lambda module: module.FIGURE.id)
def test_the_papers_figures_take_todays_workloads_alone(figure):
    runs = [
        run(name, ("modes",), mode=mode, result=result(0.1, mode))
        for name in ("dlrm", "gcn")
        for mode in ("train", "infer")
    ]
    runs += [
        run(name, ("threads",), threads=threads, profile=like(row, name, threads))
        for name, row in (("dlrm", "autoenc"), ("gcn", "memnet"))
        for threads in (1, 2)
    ]
    findings = figure.FIGURE.analyse(folder(runs))
    assert findings.plot is not None
    assert "gcn" in findings.data.to_csv()
    assert findings.summary.endswith(".")
    assert ": ." not in findings.summary
