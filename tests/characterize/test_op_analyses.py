import numpy as np
import pytest
from synthetic_folder import WORKLOADS, op, paper_profile, profile

from fathom.characterize.report import analyses, published


def test_ops_of_one_paper_type_count_together():
    fused = op("_MklNativeFusedMatMul", [3, 4], "fc2")
    seconds = analyses.seconds_by_type(profile([op("MatMul", [1, 2]), fused, op("Foo", [9, 9])]))
    assert list(seconds) == ["Foo", "MatMul"]
    np.testing.assert_array_equal(seconds["MatMul"], [4, 6])


def test_shares_add_up_to_1_and_an_unmapped_type_keeps_its_name():
    shares = analyses.shares(profile([op("MatMul", [3.0]), op("Foo", [1.0])]))
    assert shares == {"MatMul": 0.75, "Foo": 0.25}


def test_a_profile_without_op_time_has_no_shares():
    assert analyses.shares(profile([op("MatMul", [0.0])])) == {}


def test_a_steady_op_does_not_drift_and_a_growing_one_does():
    steps = np.arange(20)
    steady = 1 + 0.01 * np.where(steps % 2, 1, -1)
    growing = 2 + 0.1 * steps
    result = analyses.stationarity([profile([op("MatMul", steady), op("Add", growing)])])
    growing_series, steady_series = result.series
    assert growing_series.op_type == "Add"
    assert growing_series.drifts
    assert growing_series.drift == pytest.approx(1.9 / np.median(growing))
    assert growing_series.p_value < 1e-6
    assert not steady_series.drifts
    assert steady_series.mean == pytest.approx(1)
    assert steady_series.variation == pytest.approx(0.01 * (20 / 19) ** 0.5)
    assert "autoenc's Add drifts" in result.summary()


def test_a_significant_but_tiny_change_is_no_drift():
    result = analyses.stationarity([profile([op("MatMul", 1 + 1e-4 * np.arange(20))])])
    assert result.series[0].p_value < 0.01
    assert not result.series[0].drifts


def test_five_steps_do_not_tell_of_a_drift():
    result = analyses.stationarity([profile([op("Add", np.linspace(1, 3, 5))])])
    assert result.series[0].drifts is None
    assert result.summary().endswith("less than 6 steps do not tell of a drift: autoenc.")
    assert analyses.stationarity([profile([op("Add", np.linspace(1, 3, 6))])]).series[0].drifts


def test_one_step_alone_has_no_variation_and_no_drift():
    series = analyses.stationarity([profile([op("MatMul", [1.0])])]).series[0]
    assert np.isnan([series.variation, series.drift, series.p_value]).all()
    assert not series.drifts


def test_only_the_heaviest_types_are_followed():
    ops = [op(op_type, [i + 1.0]) for i, op_type in enumerate(("Add", "Mul", "Sub", "Pow"))]
    result = analyses.stationarity([profile(ops)], heaviest=2)
    assert [series.op_type for series in result.series] == ["Pow", "Sub"]
    assert len(result.steps_table().rows) == 2


def test_the_number_of_types_to_90_percent_counts_the_heaviest():
    shares = {"MatMul": 0.5, "Add": 0.3, "Mul": 0.1, "Sub": 0.06, "Pow": 0.04}
    result = analyses.dominance([profile([op(name, [share]) for name, share in shares.items()])])
    (curve,) = result.curves
    assert curve.op_types == tuple(shares)
    np.testing.assert_allclose(curve.cumulative, [0.5, 0.8, 0.9, 0.96, 1])
    assert [curve.types_to(share) for share in (0.4, 0.5, 0.9, 0.95, 1)] == [1, 1, 3, 4, 5]
    assert result.summary() == "3 op types make up 90 % of the time in ops."


def test_a_profile_with_the_papers_shares_has_no_distance_to_it():
    result = analyses.breakdown(paper_profile(name) for name in WORKLOADS)
    np.testing.assert_allclose(result.distances, 0, atol=1e-9)
    assert result.op_types == published.breakdown().op_types
    np.testing.assert_array_equal(result.paper, published.breakdown().percent)


def test_types_above_1_percent_get_a_column_after_the_papers():
    ops = [op("MatMul", [0.9]), op("Foo", [0.05]), op("Concat", [0.045]), op("Slice", [0.005])]
    result = analyses.breakdown([profile(ops)])
    assert result.op_types[22:] == ("Concat", "Foo")
    assert result.classes[22:] == ("G", "")
    assert result.percent.sum() == pytest.approx(99.5)
    measured, paper = result.table().rows
    assert measured[-4:-2] == (pytest.approx(0.5), pytest.approx(result.distances[0]))
    assert paper[:2] == ("autoenc", "paper")


def test_classes_add_up_to_100_percent_with_those_of_no_class():
    ops = [op("AddV2", [1.0]), op("Relu", [1.0]), op("Foo", [2.0])]
    table = analyses.breakdown([profile(ops)]).classes_table()
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["A Elementwise Arithmetic (%)"] == 50
    assert row["none (%)"] == 50


def test_a_distance_has_an_interval_from_its_steps():
    noise = np.random.default_rng(0).normal(1, 0.2, 30)
    result = analyses.breakdown([profile([op("MatMul", noise), op("ApplyAdam", 1 / noise)])])
    low, high = result.intervals[0]
    assert low < result.distances[0] < high
    steady = analyses.breakdown([profile([op("MatMul", [1.0] * 30), op("Add", [1.0] * 30)])])
    np.testing.assert_allclose(steady.intervals[0], steady.distances[0])
    few = analyses.breakdown([profile([op("MatMul", [1.0] * 4)])])
    assert np.isnan(few.intervals).all()


def test_a_workload_that_the_paper_has_not_has_no_distance():
    result = analyses.breakdown([profile([op("MatMul", [1.0])], "transformer")])
    assert np.isnan(result.distances).all()
    assert len(result.table().rows) == 1


def test_the_parts_of_a_distance_add_up_and_name_the_largest_first():
    ops = [op("_FusedMatMul", [0.8], "fc2", count=3), op("Relu", [0.2])]
    result = analyses.differences(profile(ops, "memnet"), heaviest=100)
    vector = {"MatMul": 0.8, "Relu": 0.2}
    paper = published.breakdown().row("memnet")
    types = list({**paper, **vector})
    a, b = (np.array([row.get(name, 0) for name in types], float) for row in (vector, paper))
    half_square = ((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2).sum() / 2
    assert result.distance == pytest.approx(half_square)
    assert sum(part.part for part in result.parts) == pytest.approx(1)
    assert [part.op_type for part in result.parts[:2]] == ["Mul", "MatMul"]
    assert result.parts[0].reason == "no such op runs in this step"
    parts = {part.op_type: part for part in result.parts}
    matmul, relu = parts["MatMul"], parts["Relu"]
    assert (matmul.kernels, matmul.layers, matmul.count) == (("_FusedMatMul",), ("fc2",), 3)
    assert matmul.reason == "6.7 times the paper's share"
    assert relu.reason == "not in the paper's table"


def test_time_outside_ops_is_a_share_of_the_profiled_steps():
    result = analyses.outside([profile([op("MatMul", [1.0, 3.0])]), paper_profile("vgg")])
    np.testing.assert_allclose(result.share, 0.2)
    np.testing.assert_allclose(result.overhead, 0.1)
    assert result.workloads == ("autoenc", "vgg")


def test_without_unprofiled_steps_the_overhead_is_unknown():
    result = analyses.outside([profile([op("Add", [1.0])], unprofiled_step_seconds=np.array([]))])
    assert np.isnan(result.overhead).all()


def test_layers_have_their_forward_and_backward_time():
    ops = [
        op("MatMul", [1.0, 3.0], "fc1"),
        op("MatMul", [4.0, 4.0], "fc1", "backward"),
        op("ResourceApplyAdam", [1.0, 1.0], "optimizer", "optimizer"),
        op("Foo", [1.0, 1.0], "unknown", "other"),
    ]
    result = analyses.layers([profile(ops)])
    (times,) = result.workloads
    assert times.layers == ("fc1", "optimizer", "unknown")
    np.testing.assert_array_equal(times.seconds[0], [2, 4, 0, 0])
    assert times.ascribed == pytest.approx(7 / 8)
    np.testing.assert_allclose(times.phase_shares, [2 / 8, 4 / 8, 1 / 8, 1 / 8])
    assert "87.5%" in result.summary()
