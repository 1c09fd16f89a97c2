import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, long_names, op, ops_of, profile, run

from fathom.measure.report.figures import icicle

OPS = [
    op("MatMul", [3.0, 5.0], "fc1"),
    op("_FusedMatMul", [2.0, 2.0], "fc1"),
    op("AddV2", [1.0, 1.0], "fc1", "backward"),
    op("AddV2", [8.0, 10.0], "fc2"),
]


def test_each_part_lies_within_its_parent_and_the_heaviest_come_first():
    table = icicle.partition(ops_of(profile(OPS)))
    by_level = dict(iter(table.groupby("level")))
    assert by_level["layer"].layer.tolist() == ["fc2", "fc1"]
    assert by_level["op type"]["op type"].tolist() == ["Add", "MatMul", "Add"]
    assert by_level["kernel"].kernel.tolist() == ["AddV2", "MatMul", "_FusedMatMul", "AddV2"]
    assert by_level["op type"]["start (ms)"].tolist() == pytest.approx([0, 9e3, 15e3])
    assert by_level["op type"]["time per step (ms)"].tolist() == pytest.approx([9e3, 6e3, 1e3])
    assert by_level["kernel"]["start (ms)"].tolist() == pytest.approx([0, 9e3, 13e3, 15e3])
    assert all(each.share.sum() == pytest.approx(1) for each in by_level.values())


def test_equal_profiles_are_averaged_and_workloads_kept_apart():
    table = icicle.partition(ops_of(profile(OPS), profile(OPS), profile(OPS[:1], "vgg")))
    layers = table[table.level == "layer"]
    assert layers.workload.tolist() == ["autoenc", "autoenc", "vgg"]
    assert layers["time per step (ms)"].tolist() == pytest.approx([9e3, 7e3, 4e3])


def test_the_figure_names_what_has_space_and_leaves_out_the_rest():
    small = op("Neg", [0.001, 0.001], "fc1")
    found = icicle.FIGURE.analyse(folder([run(profile=profile([*OPS, small]))]))
    assert {"fc1", "fc2", "_FusedMatMul", "layer", "kernel"} <= labels_of(found.plot)
    assert "Neg" not in labels_of(found.plot)
    assert "Neg" in set(found.data.kernel)
    assert "autoenc Add of fc2 (56%)" in found.summary
    assert_legible(icicle.draw(icicle.partition(ops_of(long_names("vgg")))))
