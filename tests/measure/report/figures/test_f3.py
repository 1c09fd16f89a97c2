import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import WORKLOADS, folder, op, ops_of, paper_profile, profile, run

from fathom.measure.report import published
from fathom.measure.report.figures import f3


def distance(*profiles):
    """Cosine distance and the limits of its interval of equal profiles of autoenc."""
    return f3.distances(ops_of(*(profile([op(t, [s]) for t, s in p]) for p in profiles))).iloc[0]


def noisy(*shares, noise=0.1, processes=4):
    """Equal profiles whose op types have about these times, by process."""
    generator = np.random.default_rng(0)
    return [
        [(t, s * np.exp(generator.normal(0, noise))) for t, s in shares] for _ in range(processes)
    ]


def test_a_profile_with_the_papers_shares_has_no_distance_to_it():
    ops = ops_of(*map(paper_profile, WORKLOADS))
    np.testing.assert_allclose(f3.distances(ops)["cosine distance"], 0, atol=1e-9)
    assert list(f3.heat_map(ops).columns) == list(published.breakdown().columns)


def test_types_above_1_percent_get_a_column_after_the_papers():
    ops = ops_of(
        profile(
            [op("MatMul", [0.9]), op("Foo", [0.05]), op("Concat", [0.045]), op("Slice", [0.005])]
        )
    )
    percent = f3.heat_map(ops)
    assert list(percent.columns[22:]) == ["Concat", "Foo"]
    assert percent.to_numpy().sum() == pytest.approx(99.5)
    distance = f3.distances(ops)
    measured, paper = f3.table(percent, distance).to_dict("records")
    assert measured["others"] == pytest.approx(0.5)
    assert measured["cosine distance"] == distance["cosine distance"]["autoenc"]
    assert (paper["workload"], paper[""], paper["MatMul"]) == ("autoenc", "paper", 58)
    assert np.isnan(paper["cosine distance"])


def test_classes_add_up_to_100_percent_with_those_of_no_class():
    table = f3.classes(ops_of(profile([op("AddV2", [1.0]), op("Relu", [1.0]), op("Foo", [2.0])])))
    assert table.columns.tolist() == ["workload", "class", "share (%)", "from", "to"]
    shares = table.set_index("class")["share (%)"]
    assert shares.to_dict() == {"A Elementwise Arithmetic": 50, "none": 50}


def test_shares_have_intervals_between_processes():
    ops = ops_of(*(profile([op("Add", [s]), op("Pow", [1 - s])]) for s in (0.5, 0.6, 0.7)))
    table = f3.op_types(ops).set_index("op type")
    assert table["share (%)"].tolist() == pytest.approx([60, 40])
    half_width = 4.303 * 10 / 3**0.5  # Student's 97.5 % point for 2 degrees of freedom
    np.testing.assert_allclose(table["to"] - table["share (%)"], half_width, rtol=1e-3)
    one = f3.op_types(ops[ops.run == "0"])
    assert one[["from", "to"]].isna().all(axis=None)


def test_a_distance_has_an_interval_between_processes():
    value, low, high = distance(*noisy(("MatMul", 1.0), ("ApplyAdam", 1.0)))
    assert low < value < high
    steady = distance(*noisy(("MatMul", 1.0), ("Add", 1.0), noise=0.0))
    np.testing.assert_allclose(steady[1:], steady.iloc[0])
    assert distance([("MatMul", 1.0)])[1:].isna().all()


def test_one_process_has_no_interval_whatever_its_steps():
    noise = np.random.default_rng(0).normal(1, 0.2, 30)
    ops = ops_of(profile([op("MatMul", noise), op("Add", 1 / noise)]))
    assert f3.distances(ops)[["from", "to"]].isna().all(axis=None)


def test_the_interval_of_a_distance_ends_at_0():
    row = published.breakdown().loc["autoenc"]
    _, low, high = distance(*noisy(*row.items(), noise=0.3))
    assert low == 0 < high


def test_the_interval_of_a_distance_ends_at_1():
    value, _, high = distance([("Foo", 1.0), ("MatMul", 9.0)], [("Foo", 9.0), ("MatMul", 0.1)])
    assert value < high == 1


def test_a_workload_that_the_paper_has_not_has_no_distance():
    ops = ops_of(profile([op("MatMul", [1.0])], "transformer"))
    assert f3.distances(ops).isna().all(axis=None)
    assert len(f3.table(f3.heat_map(ops), f3.distances(ops))) == 1
    assert "transformer" in labels_of(f3.draw(f3.heat_map(ops), f3.distances(ops)))


def test_the_parts_of_a_distance_add_up_and_name_the_largest_first():
    ops = ops_of(profile([op("_FusedMatMul", [0.8], "fc2", count=3), op("Relu", [0.2])], "memnet"))
    table = f3.differences(ops, heaviest=100)
    assert table["part of distance"].sum() == pytest.approx(1)
    assert table["op type"].tolist()[:2] == ["Mul", "MatMul"]
    rows = table.set_index("op type")
    assert rows.why["Mul"] == "no such op runs in this step"
    matmul = rows.loc["MatMul", ["kernels", "layers", "calls/step", "why"]].tolist()
    assert matmul == ["_FusedMatMul", "fc2", 3, "6.7 times the paper's share"]
    assert rows.why["Relu"] == "not in the paper's table"


def test_a_share_whose_interval_has_the_papers_is_not_called_different():
    profiles = [[op("Mul", [s]), op("MatMul", [1 - s])] for s in (0.3, 0.35)]
    rows = f3.differences(ops_of(*(profile(each, "memnet") for each in profiles)))
    rows = rows.set_index("op type")
    assert rows.why["Mul"] == "the paper's share is in the interval"
    assert rows["from"]["Mul"] < 33 < rows["to"]["Mul"]
    assert rows.why["MatMul"].endswith("times the paper's share")


def test_a_part_is_the_difference_of_the_rows_scaled_to_length_1():
    table = f3.differences(ops_of(profile([op("MatMul", [1.0])], "speech")), heaviest=100)
    paper = published.breakdown().loc["speech"]
    parts = (paper / np.linalg.norm(paper) - (paper.index == "MatMul")) ** 2
    ours = table.set_index("op type")["part of distance"]
    np.testing.assert_allclose(ours, (parts / parts.sum())[ours.index])


def test_ours_stand_above_the_papers_and_zeros_are_empty():
    ops = ops_of(*map(paper_profile, WORKLOADS))
    labels = labels_of(f3.draw(f3.heat_map(ops), f3.distances(ops)))
    assert {"A", "G", "Conv2DBackFilter", "deepq   0.000", "deepq", "89", "90"} <= labels
    assert "0" not in labels


def test_there_is_room_for_types_and_workloads_of_its_own():
    strange = profile([op(f"StrangeOp{i}", [1.0]) for i in range(10)], "transformer")
    ops = ops_of(strange, paper_profile("seq2seq"))
    plot = f3.draw(f3.heat_map(ops), f3.distances(ops))
    assert_legible(plot)
    assert {"transformer", "none", "StrangeOp9"} <= labels_of(plot)


def test_a_profile_far_from_the_paper_is_explained_op_by_op():
    ops = [op("MatMul", [3.0] * 5), op("Mul", [1.0] * 5)]
    findings = f3.FIGURE.analyse(folder([run("seq2seq", profile=profile(ops, "seq2seq"))]))
    assert "no such op runs in this step" in findings.tables["differences_seq2seq"].why.tolist()


def test_a_batch_size_that_was_given_is_named():
    findings = f3.FIGURE.analyse(folder([run("vgg", profile=paper_profile("vgg"), batch_size=4)]))
    assert findings.summary.endswith("depend on the batch size, which was given for vgg 4.")
    assert "One run, no interval." in findings.summary
