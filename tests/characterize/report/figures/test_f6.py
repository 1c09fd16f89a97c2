import numpy as np
from legibility import assert_legible, labels_of
from synthetic_folder import long_names, op, ops_of, paper_profile, profile

from fathom.characterize.report.figures import f6


def test_op_times_are_compared_over_threads_with_the_layers_they_serve():
    one = [op("MatMul", [4.0, 6.0], "fc1"), op("MatMul", [1.0, 1.0], "fc2"), op("Add", [1.0, 1.0])]
    two = [op("MatMul", [2.0, 4.0], "fc1"), op("Add", [1.0, 1.0])]
    table = f6.scaling(ops_of(profile(two, threads=2), profile(one, threads=1)))
    assert table.threads.tolist() == [1, 2, 1, 2]
    assert table["op type"].tolist() == ["MatMul", "MatMul", "Add", "Add"]
    assert table.role.tolist() == ["fc1, fc2", "fc1, fc2", "fc1", "fc1"]
    np.testing.assert_array_equal(table["time per step (s)"], [6, 3, 1, 1])
    np.testing.assert_allclose(table["share of time in ops"], [6 / 7, 3 / 4, 1 / 7, 1 / 4])
    found = f6.summary(table)
    assert "MatMul becomes 2.00 times as fast" in found
    assert "the share of Add goes from 14.3% to 25.0%" in found


def test_a_type_that_emerges_with_more_threads_is_shown():
    names = ["MatMul", "Add", "Mul", "Sub", "Sum", "Tile", "Pad"]
    one = [op(name, [8.0]) for name in names] + [op("Transpose", [1.0])]
    four = [op(name, [2.0]) for name in names] + [op("Transpose", [9.0])]
    table = f6.scaling(ops_of(profile(one), profile(four, threads=4)))
    assert table["op type"].iloc[-1] == "Transpose"
    assert table["time per step (s)"].tolist()[-2:] == [1, 9]


def test_a_type_that_takes_no_time_on_few_threads_does_not_break_the_summary():
    table = f6.scaling(ops_of(profile([op("Add", [1.0])]), profile([op("Pad", [1.0])], threads=2)))
    assert "the share of Pad goes from 0.0% to 100.0%" in f6.summary(table)


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
