import numpy as np
import pytest
from legibility import labels_of
from synthetic_folder import folder, op, paper_profile, profile, run, runs_of

from fathom.measure.report.figures import v_a


def table_of(*profiles):
    return v_a.outside_ops(runs_of(*(run(profile=each) for each in profiles)))


def test_time_outside_ops_is_a_share_of_the_profiled_steps():
    table = v_a.outside_ops(
        runs_of(
            run(profile=profile([op("MatMul", [1.0, 3.0])])),
            run("vgg", profile=paper_profile("vgg")),
        )
    )
    np.testing.assert_allclose(table["share outside ops"], 0.2)
    np.testing.assert_allclose(table["profiler's overhead"], 0.1)
    assert table.workload.tolist() == ["autoenc", "vgg"]
    assert table.steps.tolist() == [2, 6]
    assert {"20.0", "1-2 % (the paper)"} <= labels_of(v_a.draw(table))


def test_without_unprofiled_steps_the_overhead_is_unknown():
    table = table_of(profile([op("Add", [1.0])], unprofiled_step_seconds=np.array([])))
    assert table["profiler's overhead"].isna().all()


def test_a_share_has_an_interval_between_processes():
    profiles = [profile([op("Add", [1.0])], outside_seconds=np.array([s])) for s in (0.1, 0.11)]
    findings = v_a.FIGURE.analyse(
        folder([run(profile=p, repeat=i) for i, p in enumerate(profiles)])
    )
    (row,) = findings.data.to_dict("records")
    assert row["processes"] == "2"
    assert row["share outside ops"] == pytest.approx(0.084)
    assert row["from"] < 0.084 < row["to"]
    assert findings.summary.endswith("autoenc 8.4 (3.3 to 13.5). Under 2 % in 0, over in 1.")
    one = v_a.FIGURE.analyse(folder([run(profile=profiles[0])]))
    assert one.summary.endswith("autoenc 8.0. One run, no interval.")


def test_the_overhead_is_that_of_steps_in_turn_with_its_interval():
    ratios = np.array([1.1, 1.2, 1.15, 1.1, 1.12, 1.18])
    pairs = {"traced_step_seconds": 2 * ratios, "unprofiled_step_seconds": np.full(6, 2.0)}
    (row,) = table_of(profile([op("Add", [5.0])], **pairs)).to_dict("records")
    middle, low, high = (
        row[name] for name in ("profiler's overhead", "overhead from", "overhead to")
    )
    np.testing.assert_allclose([low, high], [0.1, 0.2])  # from the least to the largest of six
    assert low < middle < high


def test_few_pairs_have_no_interval():
    pair = {"traced_step_seconds": [1.1], "unprofiled_step_seconds": [1.0]}
    (row,) = table_of(profile([op("Add", [5.0])], **pair)).to_dict("records")
    assert np.isclose(row["profiler's overhead"], 0.1)
    assert np.isnan(row["overhead from"])


def test_the_profile_on_the_fewest_threads_is_the_one_analysed():
    runs = [run("vgg", ("threads",), profile=paper_profile("vgg", threads=n)) for n in (4, 1)]
    assert v_a.FIGURE.analyse(folder(runs)).data.threads.tolist() == [1]
