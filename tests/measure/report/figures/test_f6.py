import numpy as np
from legibility import assert_legible, labels_of
from synthetic_folder import folder, long_names, op, ops_of, paper_profile, profile, run

from fathom.measure.report.figures import f6


def test_op_times_are_compared_over_threads_with_the_layers_they_serve():
    one = [op("MatMul", [4.0, 6.0], "fc1"), op("MatMul", [1.0, 1.0], "fc2"), op("Add", [1.0, 1.0])]
    two = [op("MatMul", [2.0, 4.0], "fc1"), op("Add", [1.0, 1.0])]
    table = f6.scaling(ops_of(profile(two, threads=2), profile(one, threads=1)))
    assert table.threads.tolist() == [1, 2, 1, 2]
    assert table["op type"].tolist() == ["MatMul", "MatMul", "Add", "Add"]
    assert table.role.tolist() == ["fc1, fc2", "fc1, fc2", "fc1", "fc1"]
    np.testing.assert_array_equal(table["time per step (s)"], [6, 3, 1, 1])
    np.testing.assert_allclose(table["share of time in ops"], [6 / 7, 3 / 4, 1 / 7, 1 / 4])
    found = f6.summary(f6.changes(ops_of(profile(two, threads=2), profile(one, threads=1))))
    assert "MatMul 2.00 times as fast; the share of Add 14.3%, then 25.0%" in found


def several(*seconds_by_threads):
    """Profiles of one op type that takes these times by process, on 1, 2, ... threads."""
    return [
        profile([op("MatMul", [s]), op("Add", [1.0])], threads=threads)
        for threads, each in enumerate(seconds_by_threads, 1)
        for s in each
    ]


def test_a_speed_up_has_an_interval_and_may_be_within_the_noise():
    for times, noise in (((1.0, 1.1, 1.2), True), ((4.0, 4.1, 4.2), False)):
        ops = ops_of(*several(times, (1.0, 1.1, 1.3)))
        row = f6.changes(ops).set_index("op type").loc["MatMul"]
        assert row["from"] < row["times as fast"] < row["to"]
        assert row["change from"] < row["change"] < row["change to"]
        assert ("times as fast (within the noise)" in f6.summary(f6.changes(ops))) == noise
        table = f6.scaling(ops)
        assert (table["from"] < table["time per step (s)"]).sum() == 2


def test_one_run_a_side_has_no_interval():
    runs = [run(profile=each) for each in several((2.0,), (1.0,))]
    findings = f6.FIGURE.analyse(folder(runs))
    assert findings.tables["changes"][["from", "to"]].isna().all(axis=None)
    assert findings.summary.endswith("One run, no interval.")
    assert "(" not in findings.summary


def test_a_type_that_emerges_with_more_threads_is_shown():
    names = ["MatMul", "Add", "Mul", "Sub", "Sum", "Tile", "Pad"]
    one = [op(name, [8.0]) for name in names] + [op("Transpose", [1.0])]
    four = [op(name, [2.0]) for name in names] + [op("Transpose", [9.0])]
    table = f6.scaling(ops_of(profile(one), profile(four, threads=4)))
    assert table["op type"].iloc[-1] == "Transpose"
    assert table["time per step (s)"].tolist()[-2:] == [1, 9]


def test_a_type_that_takes_no_time_on_few_threads_does_not_break_the_summary():
    ops = ops_of(profile([op("Add", [1.0])]), profile([op("Pad", [1.0])], threads=2))
    assert "2 threads: the share of Pad 0.0%, then 100.0%" in f6.summary(f6.changes(ops))


def test_one_number_of_threads_shows_no_scaling():
    assert f6.scaling(ops_of(profile([op("Add", [1.0])]))).empty


def test_a_number_of_threads_keeps_its_look_where_a_profile_is_missing():
    threads = {"deepq": (1, 2, 4), "vgg": (1, 4)}
    profiles = [paper_profile(name, n) for name, each in threads.items() for n in each]
    deepq, vgg = f6.draw(f6.scaling(ops_of(*profiles))).axes
    looks = {bars.get_label(): bars[0].get_hatch() for bars in deepq.containers}
    assert {bars.get_label(): bars[0].get_hatch() for bars in vgg.containers} == {
        "1 thread": looks["1 thread"],
        "4 threads": looks["4 threads"],
    }


def test_the_role_of_each_type_is_named():
    table = f6.scaling(ops_of(*(paper_profile("deepq", threads) for threads in (1, 2, 4))))
    labels = labels_of(f6.draw(table))
    assert {"ApplyRMSProp\noptimizer", "1 thread", "4 threads"} <= labels


def test_long_names_are_shortened():
    ops = ops_of(long_names("seq2seq"), long_names("seq2seq", threads=2))
    assert_legible(f6.draw(f6.scaling(ops)))
