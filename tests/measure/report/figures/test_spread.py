import pytest
from legibility import assert_legible
from synthetic_folder import folder, long_names, op, ops_of, profile, run

from fathom.measure.report.figures import spread


def test_each_op_has_its_time_in_every_step_of_all_processes():
    even = profile([op("MatMul", [2.0] * 4), op("AddV2", [1.0, 2.0, 3.0, 4.0], "fc2")])
    uneven = profile([op("MatMul", [2.0] * 4), op("AddV2", [5.0] * 4, "fc2")])
    followed = spread.by_step(ops_of(even, uneven))
    table = spread.quantiles(followed).set_index("type")
    assert list(table.index) == ["Add", "MatMul"]  # the heaviest first
    assert table.steps.tolist() == [8, 8]
    assert table.loc["Add", ["least", "median", "largest"]].tolist() == [1e3, 4.5e3, 5e3]
    assert table.loc["MatMul", ["25 %", "75 %"]].tolist() == [2e3, 2e3]
    assert spread.summary(table.reset_index()).endswith(": autoenc Add of fc2 (82%).")


def test_the_same_type_of_two_layers_is_two_ops():
    both = [op("MatMul", [1.0] * 2, "fc1"), op("MatMul", [2.0] * 2, "fc2")]
    assert spread.by_step(ops_of(profile(both))).layer.unique().tolist() == ["fc2", "fc1"]


def test_ten_ops_with_long_names_are_legible():
    found = spread.FIGURE.analyse(folder([run("vgg", profile=long_names("vgg"))]))
    assert len(found.tables["quantiles"]) == 10
    assert_legible(found.plot)
    assert found.data["time (ms)"].max() == pytest.approx(1e3)
