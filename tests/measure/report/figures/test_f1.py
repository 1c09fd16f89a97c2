import numpy as np
import pandas as pd
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, life, long_names, op, ops_of, paper_profile, profile, run

from fathom.measure.report.figures import f1


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


@pytest.mark.parametrize("seconds", [[1.0], [1.0, 1.1, 1.2]])
def test_one_step_alone_has_no_variation_and_no_drift(seconds):
    profiles = [profile([op("MatMul", [each])]) for each in seconds]
    table = statistics(*profiles)
    assert table[["variation", "drift", "p value"]].isna().all(axis=None)
    assert table.drifts["MatMul"] is None
    runs = [run(repeat=i, profile=each) for i, each in enumerate(profiles)]
    assert f1.FIGURE.analyse(folder(runs)).summary.startswith(
        "One profiled step shows neither variation nor drift."
    )


def test_only_the_heaviest_types_are_followed():
    ops = [op(op_type, [i + 1.0]) for i, op_type in enumerate(("Add", "Mul", "Sub", "Pow"))]
    followed = f1.follow(ops_of(profile(ops)), heaviest=2)
    assert list(followed["op type"]) == ["Pow", "Sub"]


def test_there_is_one_panel_a_workload_with_room_for_long_names():
    profiles = [paper_profile("memnet"), paper_profile("speech"), long_names("seq2seq")]
    plot = f1.draw(f1.follow(ops_of(*profiles)))
    assert_legible(plot)
    assert {"memnet", "speech", "seq2seq"} <= labels_of(plot)


WINDOWS = [step for window in range(6) for step in (100 * window + 1, 100 * window + 2)]


def followed_run(**seconds):
    """What F1 has of a profile whose consecutive steps are even, with windows of these times."""
    ops = [op(name, [1.0] * 6) for name in seconds]
    runs = [run(profile=profile(ops, life=life(WINDOWS, work=2.0, **seconds)))]
    return f1.FIGURE.analyse(folder([*runs, run("vgg", profile=profile(ops, "vgg"))]))


def test_a_drift_over_a_whole_run_shows_where_consecutive_steps_are_even():
    growing = np.repeat(np.linspace(1, 2, 6), 2)
    found = followed_run(Add=growing, MatMul=np.ones(12))
    table = found.tables["whole_run_op_types"].set_index("op type")
    add = table.loc["Add"]
    assert (add.steps, add.windows) == (12, 6)
    assert add["mean (s)"] == pytest.approx(1.5)  # of a unit of work
    assert add.drift == pytest.approx(1 / 1.5)
    assert add["p value"] < 0.01
    assert table.drift["MatMul"] == 0
    assert (found.tables["op_types"].drift == 0).all()
    assert set(found.tables["whole_run"].step) == set(WINDOWS)
    assert "the 2 op types vary by" in found.summary
    assert "vgg: no windows over a whole run" in found.gaps
    assert_legible(found.plot)
    assert {"autoenc, consecutive steps", "autoenc, a whole run"} <= labels_of(found.plot)


def test_noise_that_lasts_as_long_as_a_window_is_no_drift():
    slow_windows = np.repeat([1.0, 1.0, 1.0, 1.0, 1.3, 1.0], 2)
    (row,) = followed_run(Add=slow_windows).tables["whole_run_op_types"].to_dict("records")
    assert row["p value"] > 0.1


def lines(**seconds):
    """The values of the drawn lines of a workload's windows."""
    panel = followed_run(**seconds).plot.axes[1]
    assert panel.get_title() == "autoenc, a whole run"
    return panel, [np.asarray(line.get_ydata()) for line in panel.lines]


def test_a_line_ends_where_no_step_was_measured():
    _, (line,) = lines(Add=np.ones(12))
    assert np.flatnonzero(~np.isnan(line)).tolist() == [step - 1 for step in WINDOWS]


def test_one_spike_does_not_set_the_scale_and_is_told():
    panel, _ = lines(Add=np.where(np.arange(12) == 4, 12.0, 1.0))
    assert panel.get_ylim()[1] == 2
    assert [text.get_text() for text in panel.texts] == ["↑6.3"]
    panel, _ = lines(Add=np.linspace(1, 9, 12))
    assert not panel.texts


def test_the_summary_speaks_of_other_op_types_only_if_there_are_some():
    row = {"workload": "vgg", "op type": "Add", "processes": 3, "drifts": False}
    steady = {**row, "variation": 0.02, "from": 0.01, "to": 0.03}
    unknown = {**row, "variation": 0.1, "from": 0.05, "to": 0.2}
    text = f1.summary(pd.DataFrame([steady]))
    assert "1 of the 1 heaviest op types vary by less than 10%" in text
    assert "intervals" not in text
    text = f1.summary(pd.DataFrame([steady, unknown]))
    assert "0 by more; the intervals of the other 1 include 10%." in text
