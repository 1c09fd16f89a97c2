import argparse

import numpy as np
import pytest
import synthetic_folder
from rich.console import Console
from synthetic_folder import MACHINE, op, profile, result, run

from fathom.characterize.report import analyses, compare
from fathom.errors import FathomError


def steps_of(seconds, call=(), **changes):
    """A run whose counted steps take these times, after one that is not counted."""
    document = result(**changes)
    document["steps"] = synthetic_folder.steps([9.0, *seconds], call=call)
    return run(result=document)


def around(seconds, noise=0.01, steps=30, seed=0):
    return seconds * np.random.default_rng(seed).normal(1, noise, steps)


def compared(first, second):
    return analyses.compare((first, []), (second, []))


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
    (ratio,) = compared([steps_of(around(0.2))], [steps_of(around(0.1, seed=1))]).ratios
    assert ratio.ratio == pytest.approx(0.5, rel=0.02)
    assert ratio.low < ratio.ratio < ratio.high < 0.52
    assert ratio.verdict == "faster"
    assert ratio.basis == "30 and 30 calls of one run"


def test_the_same_measurement_is_within_the_noise():
    steps = [steps_of(around(0.2, 0.1))]
    (ratio,) = compared(steps, steps).ratios
    assert ratio.ratio == 1
    assert ratio.low < 1 < ratio.high
    assert ratio.verdict == "within the noise"


def test_repeated_runs_that_differ_among_themselves_hide_a_small_difference():
    first = [steps_of(around(seconds)) for seconds in (0.9, 1.0, 1.1)]
    second = [steps_of(around(seconds)) for seconds in (1.0, 1.1, 1.2)]
    (ratio,) = compared(first, second).ratios
    assert ratio.basis == "3 and 3 runs"
    assert ratio.verdict == "within the noise"
    # From the steps of one run alone, the difference would look certain.
    assert compared(first[:1], second[:1]).ratios[0].verdict == "slower"


def test_the_interval_of_repeated_runs_is_welchs():
    logs_a, logs_b = np.log([1.0, 1.1, 1.2]), np.log([2.0, 2.1, 2.2, 2.4])
    first = [steps_of([float(np.exp(x))] * 5) for x in logs_a]
    second = [steps_of([float(np.exp(x))] * 5) for x in logs_b]
    (ratio,) = compared(first, second).ratios
    variances = logs_a.var(ddof=1) / 3, logs_b.var(ddof=1) / 4
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 3)
    student = {3: 3.182, 4: 2.776}  # 97.5 % points
    half_widths = [student[n] * sum(variances) ** 0.5 for n in (4, 3)]
    centre = logs_b.mean() - logs_a.mean()
    assert 3 < freedom < 4
    assert half_widths[0] < np.log(ratio.high) - centre < half_widths[1]
    assert ratio.ratio == pytest.approx(np.exp(centre))


def test_with_few_steps_the_noise_is_unknown():
    (ratio,) = compared([steps_of([0.1] * 4)], [steps_of([0.2] * 4)]).ratios
    assert np.isnan(ratio.low)
    assert ratio.verdict == "unknown: too few steps"


def test_steps_that_run_in_one_call_are_one_measurement():
    calls = around(0.1, 0.1, 6), around(0.1, 0.1, 8, seed=1)
    in_blocks = [
        steps_of(
            np.repeat(seconds, 20).tolist(),
            call=[0, *np.repeat(1 + 20 * np.arange(len(seconds)), 20).tolist()],
        )
        for seconds in calls
    ]
    (ratio,) = compared(in_blocks[:1], in_blocks[1:]).ratios
    (of_calls,) = compared(*([steps_of(seconds)] for seconds in calls)).ratios
    assert (ratio.low, ratio.high) == (of_calls.low, of_calls.high)
    assert ratio.basis == "6 and 8 calls of one run"


@pytest.mark.parametrize("steps", [7, 15, 50])
def test_a_ratio_lies_in_its_interval(steps):
    generator = np.random.default_rng(steps)
    for _ in range(100):
        (ratio,) = compared(*([steps_of(generator.exponential(size=steps))] for _ in "AB")).ratios
        assert ratio.low <= ratio.ratio <= ratio.high


def test_where_a_side_has_one_run_the_first_of_the_other_side_is_compared_with_it():
    one, others = steps_of(around(1.0)), [steps_of(around(seconds)) for seconds in (1.2, 5.0)]
    assert compared([one], others) == compared([one], others[:1])


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_from_steps_has_the_true_ratio(seed):
    first, second = around(1.0, 0.1, 200, seed), around(1.3, 0.1, 200, seed + 100)
    (ratio,) = compared([steps_of(first)], [steps_of(second)]).ratios
    assert ratio.low < 1.3 < ratio.high


def test_different_batch_sizes_are_not_compared():
    comparison = compared([steps_of([1.0])], [steps_of([1.0], batch_size=16)])
    assert comparison.ratios == ()
    assert comparison.refused == ("autoenc train cpu: batch_size 8 against 16",)


def test_what_only_one_folder_has_is_named():
    comparison = compared([run("vgg")], [run("vgg", mode="infer")])
    assert comparison.refused == ("vgg train cpu: only in A", "vgg infer cpu: only in B")


def test_a_workload_that_only_one_folder_profiled_is_named():
    profiles = [profile([op("Add", [1.0] * 5)], name) for name in ("vgg", "speech")]
    comparison = analyses.compare(([], profiles[:1]), ([], profiles[1:]))
    assert comparison.shares == ()
    assert comparison.refused == ("vgg profile: only in A", "speech profile: only in B")


def test_a_workload_whose_ops_took_no_time_is_named():
    some, none = profile([op("Add", [1.0] * 5)]), profile([op("Add", [0.0] * 5)])
    for first, second, where in ((some, none, "B"), (none, some, "A"), (none, none, "A and B")):
        comparison = analyses.compare(([], [first]), ([], [second]))
        assert comparison.shares == ()
        assert comparison.refused == (f"autoenc profile: ops took no time in {where}",)


def test_with_few_steps_a_changes_noise_is_unknown():
    few, enough = (profile([op("Add", [1.0] * steps)]) for steps in (4, 5))
    (change,) = analyses.compare(([], [few]), ([], [enough])).shares
    assert np.isnan([change.low, change.high]).all()
    assert change.verdict == "unknown: too few steps"


def test_a_share_that_moved_is_told_from_noise():
    steady = around(1.0, 0.01)
    first = profile([op("MatMul", steady), op("Add", 1 - 0.5 * steady)])
    second = profile([op("MatMul", steady), op("Add", 3 * steady), op("Pow", 1e-3 * steady)])
    comparison = analyses.compare(([], [first]), ([], [second]))
    changes = {change.op_type: change for change in comparison.shares}
    assert set(changes) == {"MatMul", "Add"}  # Pow is under 1 % on both sides
    assert changes["Add"].change == pytest.approx(0.75 - 1 / 3, abs=0.01)
    assert changes["Add"].low < changes["Add"].change < changes["Add"].high
    assert (changes["Add"].verdict, changes["MatMul"].verdict) == ("more", "less")
    same = analyses.compare(([], [first]), ([], [first]))
    assert {change.verdict for change in same.shares} == {"within the noise"}


def test_profiles_on_different_threads_are_not_compared():
    first, second = (profile([op("Add", [1.0] * 5)], threads=threads) for threads in (1, 2))
    comparison = analyses.compare(([], [first]), ([], [second]))
    assert comparison.shares == ()
    assert comparison.refused == ("autoenc profile: batch 8 on 1 threads against batch 8 on 2",)


def test_the_command_shows_ratios_shares_and_what_differs_of_the_machines(tmp_path, capsys):
    other = MACHINE.environment.model_copy(update={"python": "3.13"})
    machine = MACHINE.model_copy(update={"environment": other})
    runs = [run(), run(profile=profile([op("Add", [1.0] * 5)]))]
    command(tmp_path, runs, runs, machine)
    shown = capsys.readouterr().out
    assert "python" in shown
    assert "3.13" in shown
    assert shown.count("within the noise") == 2
    assert "the noise from run to run is not in the interval" in shown
    assert "Each share comes from one profile a side, taken in one process" in shown


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
