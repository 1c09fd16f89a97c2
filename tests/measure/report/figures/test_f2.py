import numpy as np
from legibility import labels_of
from synthetic_folder import op, ops_of, paper_profile, profile

from fathom.measure.report.figures import f2


def test_the_number_of_types_to_90_percent_counts_the_heaviest():
    shares = {"MatMul": 0.5, "Add": 0.3, "Mul": 0.1, "Sub": 0.06, "Pow": 0.04}
    ranks = f2.curves(ops_of(profile([op(name, [share]) for name, share in shares.items()])))
    assert list(ranks["op type"]) == list(shares)
    np.testing.assert_allclose(ranks["cumulative share"], [0.5, 0.8, 0.9, 0.96, 1])
    table = f2.counts(ranks)
    first = table.iloc[0]
    assert first[["op types", "types to 90 %", "types to 99 %"]].tolist() == [5, 3, 5]
    assert first[["heaviest", "its share"]].tolist() == ["MatMul", 0.5]
    assert first[["90 % from", "99 % to"]].isna().all()
    assert f2.summary(table).endswith("90 % of the time in ops: autoenc 3.")


def test_the_number_of_types_has_the_interval_of_the_cumulative_share():
    shares = [(0.7, 0.22, 0.08), (0.7, 0.21, 0.09), (0.7, 0.19, 0.11)]
    profiles = [
        profile([op(t, [s]) for t, s in zip(("MatMul", "Add", "Mul"), each, strict=True)])
        for each in shares
    ]
    ranks = f2.curves(ops_of(*profiles))
    np.testing.assert_allclose(ranks.loc[0, ["from", "to"]].astype(float), [0.7, 0.7])
    assert ranks["from"][1] < 0.9 < ranks["cumulative share"][1] < ranks["to"][1]
    table = f2.counts(ranks)
    assert table[["types to 90 %", "90 % from", "90 % to"]].iloc[0].tolist() == [2, 2, 3]
    assert f2.summary(table).endswith("autoenc 2 (2 to 3).")


def test_a_type_that_two_workloads_share_counts_in_each():
    ops = ops_of(profile([op("Add", [1.0])], "vgg"), profile([op("Add", [3.0])], "memnet"))
    assert f2.counts(f2.curves(ops))["op types"].tolist() == [1, 1]


def test_the_types_to_90_percent_are_named():
    assert "deepq (4 to 90 %)" in labels_of(f2.draw(f2.curves(ops_of(paper_profile("deepq")))))
