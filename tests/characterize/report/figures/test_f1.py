import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import long_names, op, ops_of, paper_profile, profile

from fathom.characterize.report.figures import f1


def statistics(*ops, **changes):
    """The statistics of the heaviest op types of one profile, by type."""
    return f1.statistics(f1.follow(ops_of(profile(ops, **changes)))).set_index("op type")


def test_a_steady_op_does_not_drift_and_a_growing_one_does():
    steps = np.arange(20)
    growing = 2 + 0.1 * steps
    table = statistics(op("MatMul", 1 + 0.01 * np.where(steps % 2, 1, -1)), op("Add", growing))
    assert list(table.index) == ["Add", "MatMul"]
    assert list(table.drifts) == [True, False]
    assert table.drift["Add"] == pytest.approx(1.9 / np.median(growing))
    assert table["p value"]["Add"] < 1e-6
    assert table["mean (s)"]["MatMul"] == pytest.approx(1)
    assert table.variation["MatMul"] == pytest.approx(0.01 * (20 / 19) ** 0.5)
    assert "autoenc's Add drifts" in f1.summary(table.reset_index())


def test_a_significant_but_tiny_change_is_no_drift():
    table = statistics(op("MatMul", 1 + 1e-4 * np.arange(20)))
    assert table["p value"]["MatMul"] < 0.01
    assert not table.drifts["MatMul"]


def test_five_steps_do_not_tell_of_a_drift():
    table = statistics(op("Add", np.linspace(1, 3, 5)))
    assert table.drifts["Add"] is None
    found = f1.summary(table.reset_index())
    assert found.endswith("less than 6 steps do not tell of a drift: autoenc.")
    assert statistics(op("Add", np.linspace(1, 3, 6))).drifts["Add"]


def test_one_step_alone_has_no_variation_and_no_drift():
    table = statistics(op("MatMul", [1.0]))
    assert table[["variation", "drift", "p value"]].isna().all(axis=None)
    assert not table.drifts["MatMul"]


def test_only_the_heaviest_types_are_followed():
    ops = [op(op_type, [i + 1.0]) for i, op_type in enumerate(("Add", "Mul", "Sub", "Pow"))]
    followed = f1.follow(ops_of(profile(ops)), heaviest=2)
    assert list(followed["op type"]) == ["Pow", "Sub"]


def test_there_is_one_panel_a_workload_with_room_for_long_names():
    profiles = [paper_profile("memnet"), paper_profile("speech"), long_names("seq2seq")]
    plot = f1.draw(f1.follow(ops_of(*profiles)))
    assert_legible(plot)
    assert {"memnet", "speech", "seq2seq"} <= labels_of(plot)
