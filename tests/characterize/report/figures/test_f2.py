import numpy as np
from legibility import labels_of
from synthetic_folder import op, ops_of, paper_profile, profile

from fathom.characterize.report.figures import f2


def test_the_number_of_types_to_90_percent_counts_the_heaviest():
    shares = {"MatMul": 0.5, "Add": 0.3, "Mul": 0.1, "Sub": 0.06, "Pow": 0.04}
    ranks = f2.curves(ops_of(profile([op(name, [share]) for name, share in shares.items()])))
    assert list(ranks["op type"]) == list(shares)
    np.testing.assert_allclose(ranks["cumulative share"], [0.5, 0.8, 0.9, 0.96, 1])
    table = f2.counts(ranks)
    assert table.iloc[0].tolist() == ["autoenc", 5, 3, 5, "MatMul", 0.5]
    assert f2.summary(table) == "3 op types make up 90 % of the time in ops."


def test_a_type_that_two_workloads_share_counts_in_each():
    ops = ops_of(profile([op("Add", [1.0])], "vgg"), profile([op("Add", [3.0])], "memnet"))
    assert f2.counts(f2.curves(ops))["op types"].tolist() == [1, 1]


def test_the_types_to_90_percent_are_named():
    assert "deepq (4 to 90 %)" in labels_of(f2.draw(f2.curves(ops_of(paper_profile("deepq")))))
