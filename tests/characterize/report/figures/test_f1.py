import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, long_names, op, ops_of, paper_profile, profile, run

from fathom.characterize.report.figures import f1


def processes(times, n=3, noise=0.002):
    """Equal profiles of one op type each time, whose steps take these times but for some noise."""
    generator = np.random.default_rng(0)
    return [
        profile([op(t, seconds * generator.normal(1, noise, len(seconds))) for t, seconds in times])
        for _ in range(n)
    ]


def statistics(*profiles):
    """The statistics of the heaviest op types, by type."""
    return f1.statistics(f1.follow(ops_of(*profiles))).set_index("op type")


STEPS = np.arange(20)
GROWING = 2 + 0.1 * STEPS
STEADY = 1 + 0.01 * np.where(STEPS % 2, 1, -1)


def test_a_steady_op_does_not_drift_and_a_growing_one_does():
    table = statistics(*processes([("MatMul", STEADY), ("Add", GROWING)]))
    assert list(table.index) == ["Add", "MatMul"]
    assert list(table.drifts) == [True, False]
    assert table.drift["Add"] == pytest.approx(1.9 / np.median(GROWING), rel=0.01)
    assert table["drift from"]["Add"] < table.drift["Add"] < table["drift to"]["Add"]
    assert table["p value"]["Add"] < 1e-3
    assert table.variation["MatMul"] == pytest.approx(0.01 * (20 / 19) ** 0.5, rel=0.1)
    assert table["from"]["MatMul"] < table.variation["MatMul"] < table["to"]["MatMul"]
    found = f1.summary(table.reset_index())
    assert "1 of the 2 heaviest op types vary by less than 10%" in found
    assert "significant in autoenc's Add." in found


def test_a_drift_of_some_processes_alone_is_none():
    each = [processes([("Add", seconds)], 1)[0] for seconds in (GROWING, STEADY, STEADY)]
    table = statistics(*each)
    assert not table.drifts["Add"]
    assert "significant in none" in f1.summary(table.reset_index())


def test_a_significant_but_tiny_change_is_no_drift():
    table = statistics(*processes([("MatMul", 1 + 1e-4 * STEPS)], noise=1e-6))
    assert table["p value"]["MatMul"] < 0.05
    assert not table.drifts["MatMul"]


def test_one_process_has_numbers_and_no_conclusion():
    table = statistics(profile([op("Add", GROWING)]))
    assert table.drift["Add"] > 0.5
    assert table[["from", "to", "drift from", "drift to", "p value"]].isna().all(axis=None)
    assert table.drifts["Add"] is None
    findings = f1.FIGURE.analyse(folder([run(profile=profile([op("Add", GROWING)]))]))
    assert findings.summary == (
        "The coefficient of variation from step to step is 20.1% in the median of the 1 heaviest "
        "op types. One run, no interval."
    )


def test_one_step_alone_has_no_variation_and_no_drift():
    table = statistics(profile([op("MatMul", [1.0])]))
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
