import argparse
import itertools

import numpy as np
import pytest
import synthetic_folder
from rich.console import Console
from synthetic_folder import MACHINE, folder, op, profile, result, run

from fathom.characterize.report import compare, comparison
from fathom.errors import FathomError

NUMBERS = itertools.count()


def steps_of(seconds, workload="autoenc", call=(), **changes):
    """A run whose counted steps take these times, after one that is not counted."""
    document = result(**changes)
    document["steps"] = synthetic_folder.steps([9.0, *seconds], call=call)
    return run(workload, id=f"run{next(NUMBERS)}", result=document)


def around(seconds, noise=0.01, steps=30, seed=0):
    return seconds * np.random.default_rng(seed).normal(1, noise, steps)


def compared(first, second):
    return comparison.compare(folder(first), folder(second))


def the_ratio(first, second):
    """The one ratio of the step times of two lists of runs."""
    (row,) = compared(first, second).ratios.to_dict("records")
    return row


def compared_profiles(first, second):
    """Compares folders of these profiles alone."""
    return compared(
        *([run(each.workload, profile=each) for each in side] for side in (first, second))
    )


def command(tmp_path, first, second, machine=MACHINE):
    folders = {"first": (first, MACHINE), "second": (second, machine)}
    chosen = argparse.Namespace(
        **{
            name: synthetic_folder.write(tmp_path / name, runs, its_machine)
            for name, (runs, its_machine) in folders.items()
        }
    )
    compare.run(chosen, Console(width=200))


def test_a_ratio_far_from_1_is_larger_than_the_noise():
    ratio = the_ratio([steps_of(around(0.2))], [steps_of(around(0.1, seed=1))])
    assert ratio["B/A"] == pytest.approx(0.5, rel=0.02)
    assert ratio["from"] < ratio["B/A"] < ratio["to"] < 0.52
    assert ratio["B is"] == "faster"
    assert ratio["noise from"] == "30 and 30 calls of one run"


def test_the_same_measurement_is_within_the_noise():
    steps = [steps_of(around(0.2, 0.1))]
    ratio = the_ratio(steps, steps)
    assert ratio["B/A"] == 1
    assert ratio["from"] < 1 < ratio["to"]
    assert ratio["B is"] == "within the noise"


def test_repeated_runs_that_differ_among_themselves_hide_a_small_difference():
    first = [steps_of(around(seconds)) for seconds in (0.9, 1.0, 1.1)]
    second = [steps_of(around(seconds)) for seconds in (1.0, 1.1, 1.2)]
    ratio = the_ratio(first, second)
    assert ratio["noise from"] == "3 and 3 runs"
    assert ratio["B is"] == "within the noise"
    # From the steps of one run alone, the difference would look certain.
    assert the_ratio(first[:1], second[:1])["B is"] == "slower"


def test_the_interval_of_repeated_runs_is_welchs():
    logs_a, logs_b = np.log([1.0, 1.1, 1.2]), np.log([2.0, 2.1, 2.2, 2.4])
    first = [steps_of([float(np.exp(x))] * 5) for x in logs_a]
    second = [steps_of([float(np.exp(x))] * 5) for x in logs_b]
    ratio = the_ratio(first, second)
    variances = logs_a.var(ddof=1) / 3, logs_b.var(ddof=1) / 4
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 3)
    student = {3: 3.182, 4: 2.776}  # 97.5 % points
    half_widths = [student[n] * sum(variances) ** 0.5 for n in (4, 3)]
    centre = logs_b.mean() - logs_a.mean()
    assert 3 < freedom < 4
    assert half_widths[0] < np.log(ratio["to"]) - centre < half_widths[1]
    assert ratio["B/A"] == pytest.approx(np.exp(centre))


def test_with_few_steps_the_noise_is_unknown():
    ratio = the_ratio([steps_of([0.1] * 4)], [steps_of([0.2] * 4)])
    assert np.isnan(ratio["from"])
    assert ratio["B is"] == "unknown: too few steps"


def test_steps_that_run_in_one_call_are_one_measurement():
    calls = around(0.1, 0.1, 6), around(0.1, 0.1, 8, seed=1)
    in_blocks = [
        steps_of(
            np.repeat(seconds, 20).tolist(),
            call=[0, *np.repeat(1 + 20 * np.arange(len(seconds)), 20).tolist()],
        )
        for seconds in calls
    ]
    ratio = the_ratio(in_blocks[:1], in_blocks[1:])
    of_calls = the_ratio(*([steps_of(seconds)] for seconds in calls))
    assert (ratio["from"], ratio["to"]) == (of_calls["from"], of_calls["to"])
    assert ratio["noise from"] == "6 and 8 calls of one run"


@pytest.mark.parametrize("steps", [7, 15, 50])
def test_a_ratio_lies_in_its_interval(steps):
    generator = np.random.default_rng(steps)
    sides = [
        [steps_of(generator.exponential(size=steps), workload=f"w{i}") for i in range(100)]
        for _ in "AB"
    ]
    ratios = compared(*sides).ratios
    assert len(ratios) == 100
    assert ratios["B/A"].between(ratios["from"], ratios["to"]).all()


def test_where_a_side_has_one_run_the_first_of_the_other_side_is_compared_with_it():
    one, others = steps_of(around(1.0)), [steps_of(around(seconds)) for seconds in (1.2, 5.0)]
    assert the_ratio([one], others) == the_ratio([one], others[:1])


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_from_steps_has_the_true_ratio(seed):
    first, second = around(1.0, 0.1, 200, seed), around(1.3, 0.1, 200, seed + 100)
    ratio = the_ratio([steps_of(first)], [steps_of(second)])
    assert ratio["from"] < 1.3 < ratio["to"]


def test_different_batch_sizes_are_not_compared():
    both = compared([steps_of([1.0])], [steps_of([1.0], batch_size=16)])
    assert both.ratios.empty
    assert both.refused == ("autoenc train cpu: batch_size 8 against 16",)


def test_what_only_one_folder_has_is_named():
    both = compared([run("vgg")], [run("vgg", mode="infer")])
    assert both.refused == ("vgg train cpu: only in A", "vgg infer cpu: only in B")


def test_a_workload_that_only_one_folder_profiled_is_named():
    profiles = [profile([op("Add", [1.0] * 5)], name) for name in ("vgg", "speech")]
    both = compared_profiles(profiles[:1], profiles[1:])
    assert both.shares.empty
    assert both.refused == ("vgg profile: only in A", "speech profile: only in B")


def test_a_workload_whose_ops_took_no_time_is_named():
    some, none = profile([op("Add", [1.0] * 5)]), profile([op("Add", [0.0] * 5)])
    for first, second, where in ((some, none, "B"), (none, some, "A"), (none, none, "A and B")):
        both = compared_profiles([first], [second])
        assert both.shares.empty
        assert both.refused == (f"autoenc profile: ops took no time in {where}",)


def test_with_few_steps_a_changes_noise_is_unknown():
    few, enough = (profile([op("Add", [1.0] * steps)]) for steps in (4, 5))
    (change,) = compared_profiles([few], [enough]).shares.to_dict("records")
    assert np.isnan([change["from"], change["to"]]).all()
    assert change["B has"] == "unknown: too few steps"


def test_a_share_that_moved_is_told_from_noise():
    steady = around(1.0, 0.01)
    first = profile([op("MatMul", steady), op("Add", 1 - 0.5 * steady)])
    second = profile([op("MatMul", steady), op("Add", 3 * steady), op("Pow", 1e-3 * steady)])
    changes = compared_profiles([first], [second]).shares.set_index("op type")
    assert set(changes.index) == {"MatMul", "Add"}  # Pow is under 1 % on both sides
    add = changes.loc["Add"]
    assert add["B - A"] == pytest.approx(75 - 100 / 3, abs=1)
    assert add["from"] < add["B - A"] < add["to"]
    assert changes["B has"].to_dict() == {"Add": "more", "MatMul": "less"}
    same = compared_profiles([first], [first]).shares
    assert set(same["B has"]) == {"within the noise"}


def test_profiles_on_different_threads_are_not_compared():
    first, second = (profile([op("Add", [1.0] * 5)], threads=threads) for threads in (1, 2))
    both = compared_profiles([first], [second])
    assert both.shares.empty
    assert both.refused == ("autoenc profile: batch 8 on 1 threads against batch 8 on 2",)


def test_the_command_shows_ratios_shares_and_what_differs_of_the_machines(tmp_path, capsys):
    other = MACHINE.environment.model_copy(update={"python": "3.13"})
    machine = MACHINE.model_copy(update={"environment": other})
    runs = [run(), run(profile=profile([op("Add", [1.0] * 5)]))]
    command(tmp_path, runs, runs, machine)
    shown = capsys.readouterr().out
    assert "python" in shown
    assert "3.13" in shown
    assert shown.count("within the noise") == 2
    assert "a single run do not include the variation from run to run" in shown
    assert "Each share comes from one profile per side, taken in one process" in shown


def test_the_command_names_a_workload_whose_ops_took_no_time(tmp_path, capsys):
    runs = [[run(), run(profile=profile([op("Add", [time] * 5)]))] for time in (1.0, 0.0)]
    command(tmp_path, *runs)
    shown = capsys.readouterr().out
    assert "not compared: autoenc profile: ops took no time in B" in shown
    assert "Each share comes from" not in shown


def test_two_folders_without_like_runs_are_refused(tmp_path, capsys):
    with pytest.raises(FathomError, match="no like runs"):
        command(tmp_path, [run("vgg")], [run("speech")])
    assert "not compared: vgg train cpu: only in A" in capsys.readouterr().out


def test_warm_up_runs_are_not_compared(tmp_path, capsys):
    warmup = run(purpose=("warmup",), repeat=-1)
    command(tmp_path, [run(), warmup], [run(), run(purpose=("repeats",), repeat=1)])
    assert "9 and 9 calls of one run" in capsys.readouterr().out
