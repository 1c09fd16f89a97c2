import itertools

import numpy as np
import pandas as pd
import pytest
import synthetic_folder
from rich.console import Console
from synthetic_folder import ENVIRONMENT, MACHINE, folder, op, profile, result, run

from fathom.errors import FathomError
from fathom.measure.report import compare, comparison
from fathom.results.records import Processor

NUMBERS = itertools.count()


def steps_of(seconds, workload="autoenc", call=(), **changes):
    """A run whose counted steps take these times, after one that is not counted."""
    document = result(**changes)
    document["steps"] = synthetic_folder.steps([9.0, *seconds], call=call)
    return run(workload, id=f"run{next(NUMBERS)}", result=document)


def around(seconds, noise=0.01, steps=30, seed=0):
    return seconds * np.random.default_rng(seed).normal(1, noise, steps)


def compared(first, *others):
    return comparison.compare(folder(first), [folder(each) for each in others])


def the_ratio(first, second):
    """The one ratio of the step times of two lists of runs."""
    (row,) = compared(first, second).ratios.to_dict("records")
    return row


def compared_profiles(*sides):
    """Compares folders of these profiles alone."""
    return compared(*([run(each.workload, profile=each) for each in side] for side in sides))


def command(tmp_path, *sides, machine=MACHINE):
    """Runs the command on folders of these runs, the last one of another machine."""
    machines = [MACHINE] * (len(sides) - 1) + [machine]
    paths = [
        synthetic_folder.write(tmp_path / f"folder{i}", *each)
        for i, each in enumerate(zip(sides, machines, strict=True))
    ]
    compare.compare_folders(paths, Console(width=200, soft_wrap=True))


def same_program(generator, processes, workloads=8, noise=0.03):
    """Runs of one program in processes that differ by some noise, and their steps by less."""
    return [
        steps_of(np.exp(generator.normal(0, noise)) * generator.normal(1, 0.005, 10), f"w{i}")
        for i in range(workloads)
        for _ in range(processes)
    ]


@pytest.mark.parametrize("processes", [(1, 1), (1, 3), (3, 1)])
def test_one_run_on_either_side_gives_no_verdict(processes):
    generator = np.random.default_rng(0)
    ratios = compared(*(same_program(generator, n) for n in processes)).ratios
    assert ratios.verdict.isna().all()
    assert ratios[["from", "to", "p"]].isna().all(axis=None)
    assert ratios["over A"].between(0.8, 1.25).all()
    assert set(ratios.runs) == {f"{processes[0]} and {processes[1]}"}


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_with_several_runs_a_side_few_verdicts_are_false(processes):
    generator = np.random.default_rng(processes)
    verdicts = pd.concat(
        compared(*(same_program(generator, processes) for _ in "AB")).ratios.verdict
        for _ in range(40)
    )
    assert len(verdicts) == 8 * 40
    assert set(verdicts) <= {*comparison.UNDECIDED, "faster", "slower"}
    assert (~verdicts.isin(comparison.UNDECIDED)).mean() <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3, 5])
def test_folders_that_differ_as_much_as_their_runs_are_seldom_called_different(processes):
    generator = np.random.default_rng(processes)

    def session():
        return [
            steps_of([slower * np.exp(generator.normal(0, 0.03))] * 5, f"w{i}")
            for i in range(6)
            for slower in [np.exp(generator.normal(0, 0.03))]
            for _ in range(processes)
        ]

    found = pd.concat(compared(session(), session()).ratios.verdict for _ in range(40))
    assert (~found.isin(comparison.UNDECIDED)).mean() <= 0.05


def test_runs_that_agree_by_chance_have_the_noise_of_the_other_workloads():
    first, second = (
        [steps_of([seconds * noise] * 5) for noise in (1.0, 1.0001)] for seconds in (1.0, 1.03)
    )
    assert the_ratio(first, second)["verdict"] == "slower"
    others = [
        steps_of([noise] * 5, name) for name in ("vgg", "speech") for noise in (0.95, 1.0, 1.05)
    ]
    table = compared([*first, *others], [*second, *others]).ratios.set_index("workload")
    assert table.verdict["autoenc"] in comparison.UNDECIDED


def test_a_large_difference_is_told_from_noise():
    generator = np.random.default_rng(0)
    both = [same_program(generator, 3) for _ in "AB"]
    for side, seconds in zip(both, (1.0, 1.5), strict=True):
        side += [steps_of([seconds * noise] * 5, "other") for noise in (0.97, 1.0, 1.03)]
    ratios = compared(*both).ratios.set_index("workload")
    assert ratios.verdict["other"] == "slower"
    assert 1 < ratios["from"]["other"] < 1.5 < ratios["to"]["other"]
    assert set(ratios.verdict.drop("other")) <= {*comparison.UNDECIDED}


def test_repeated_runs_that_differ_among_themselves_hide_a_small_difference():
    first = [steps_of(around(seconds)) for seconds in (0.9, 1.0, 1.1)]
    second = [steps_of(around(seconds)) for seconds in (1.0, 1.1, 1.2)]
    assert the_ratio(first, second)["verdict"] == comparison.CANNOT_TELL


def test_the_interval_of_repeated_runs_is_welchs_with_the_variance_between_folders():
    logs_a, logs_b = np.log([1.0, 1.1, 1.2]), np.log([2.0, 2.1, 2.2, 2.4])
    first = [steps_of([float(np.exp(x))] * 5) for x in logs_a]
    second = [steps_of([float(np.exp(x))] * 5) for x in logs_b]
    ratio = the_ratio(first, second)
    variances = logs_a.var(ddof=1) * (1 / 3 + 1), logs_b.var(ddof=1) * (1 / 4 + 1)
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 3)
    student = {4: 2.776, 5: 2.571}  # 97.5 % points
    half_widths = [student[n] * sum(variances) ** 0.5 for n in (5, 4)]
    centre = logs_b.mean() - logs_a.mean()
    assert 4 < freedom < 5
    assert half_widths[0] < np.log(ratio["to"]) - centre < half_widths[1]
    assert ratio["over A"] == pytest.approx(np.exp(centre))


def test_a_folder_is_like_itself():
    runs = synthetic_folder.suite(["vgg"])
    ratio = compared(runs, runs).ratios.set_index("mode").loc["train"]
    assert ratio[["over A", "runs", "p", "verdict"]].tolist() == [
        *(1, "4 and 4", 1, "within the noise")
    ]


def test_one_table_has_all_folders_with_the_first_as_the_base():
    sides = [[steps_of([x] * 5, name) for name in ("speech", "vgg")] for x in (1.0, 2.0, 3.0)]
    ratios = compared(*sides).ratios
    assert ratios[["workload", "folder", "over A"]].to_numpy().tolist() == [
        ["speech", "B", pytest.approx(2)],
        ["speech", "C", pytest.approx(3)],
        ["vgg", "B", pytest.approx(2)],
        ["vgg", "C", pytest.approx(3)],
    ]
    profiles = [[profile([op("Add", [1.0]), op("Mul", [x])])] for x in (1.0, 3.0, 9.0)]
    shares = compared_profiles(*profiles).shares
    assert shares[["op type", "folder", "less A"]].to_numpy().tolist() == [
        ["Add", "B", pytest.approx(-25)],
        ["Add", "C", pytest.approx(-40)],
        ["Mul", "B", pytest.approx(25)],
        ["Mul", "C", pytest.approx(40)],
    ]


def test_all_rows_of_the_table_count_in_holms_correction():
    base, other = ([steps_of([x * noise] * 5) for noise in (0.97, 1, 1.03)] for x in (1, 1.15))
    alone, together = compared(base, other).ratios, compared(base, other, other, other).ratios
    assert alone.verdict.tolist() == ["slower"]
    assert together.verdict.tolist() == [comparison.CANNOT_TELL] * 3
    np.testing.assert_allclose(together.p, 3 * alone.p[0])


def test_different_batch_sizes_are_not_compared():
    both = compared([steps_of([1.0])], [steps_of([1.0], batch_size=16)])
    assert both.ratios.empty
    assert both.refused == ("A and B: autoenc train cpu: batch_size 8 against 16",)


def test_a_synthetic_data_set_is_not_compared_with_the_real_one():
    real = result() | {"data": {"name": "mnist", "kind": "fetched"}}
    both = compared([run(result=real)], [run()])
    assert both.ratios.empty
    assert both.refused == ("A and B: autoenc train cpu: data mnist against mnist (synthetic)",)
    elsewhere = result() | {"data": {"name": "mnist", "kind": "given"}}
    assert not compared([run(result=real)], [run(result=elsewhere)]).refused


def test_a_step_counts_by_its_work_where_batches_vary_in_length():
    lengths = ([1.0, 2.0, 3.0] * 4, [1.0, 1.0, 2.0], [2.0])  # of batches of one program
    first, *others = (
        result() | {"steps": synthetic_folder.steps([0.1 * n for n in each], work=each)}
        for each in ([1.0, *each] for each in lengths)
    )
    for other in others:
        ratio = the_ratio([run(result=first)], [run(result=other)])
        assert (ratio["A (ms)"], ratio["over A"]) == pytest.approx((100, 1))


def test_what_only_one_folder_has_is_named():
    both = compared([run("vgg")], [run("vgg", mode="infer")])
    assert both.refused == (
        "A and B: vgg train cpu: only in A",
        "A and B: vgg infer cpu: only in B",
    )


def test_a_workload_that_only_one_folder_profiled_is_named():
    profiles = [profile([op("Add", [1.0] * 5)], name) for name in ("vgg", "speech")]
    both = compared_profiles(profiles[:1], profiles[1:])
    assert both.shares.empty
    assert both.refused == (
        "A and B: vgg profile: only in A",
        "A and B: speech profile: only in B",
    )


def test_a_workload_whose_ops_took_no_time_is_named():
    some, none = profile([op("Add", [1.0] * 5)]), profile([op("Add", [0.0] * 5)])
    for first, second, where in ((some, none, "B"), (none, some, "A"), (none, none, "A and B")):
        both = compared_profiles([first], [second])
        assert both.shares.empty
        assert both.refused == (f"A and B: autoenc profile: ops took no time in {where}",)


def test_shares_of_one_profile_a_side_differ_without_a_verdict():
    first = profile([op("MatMul", [1.0] * 5), op("Add", [0.5] * 5)])
    second = profile([op("MatMul", [1.0]), op("Add", [3.0]), op("Pow", [1e-3])])
    changes = compared_profiles([first], [second]).shares.set_index("op type")
    assert changes.verdict.isna().all()
    assert changes[["from", "to", "p"]].isna().all(axis=None)
    assert changes.profiles.tolist() == ["1 and 1"] * 2
    assert set(changes.index) == {"MatMul", "Add"}  # Pow is under 1 % on both sides
    assert changes["less A"]["Add"] == pytest.approx(75 - 100 / 3, abs=0.1)


def profiles_of_a_program(generator, processes, workloads=4, noise=0.03):
    """Runs of profiles of one program, whose op types' times differ by some noise."""
    times = {"MatMul": 5.0, "Add": 3.0, "Mul": 1.0, "Sum": 0.5}
    return [
        run(
            f"w{i}",
            repeat=repeat,
            profile=profile(
                [op(t, [s * np.exp(generator.normal(0, noise))]) for t, s in times.items()], f"w{i}"
            ),
        )
        for i in range(workloads)
        for repeat in range(processes)
    ]


@pytest.mark.slow
def test_with_several_profiles_a_side_few_verdicts_on_shares_are_false():
    generator = np.random.default_rng(1)
    verdicts = pd.concat(
        compared(*(profiles_of_a_program(generator, 3) for _ in "AB")).shares.verdict
        for _ in range(12)
    )
    assert len(verdicts) == 16 * 12
    assert (verdicts != "within the noise").mean() <= 0.05


def test_a_large_difference_of_shares_is_told_from_noise():
    generator = np.random.default_rng(0)
    both = [profiles_of_a_program(generator, 3, 1, 0.01) for _ in "AB"]
    ops = [[op("MatMul", [5.0 + x]), op("Add", [9.0])] for x in (0.0, 0.1, 0.2)]
    both[1] = [run("w0", repeat=i, profile=profile(each, "w0")) for i, each in enumerate(ops)]
    shares = compared(*both).shares.set_index("op type")
    assert shares.verdict[["MatMul", "Add", "Mul"]].tolist() == ["smaller", "larger", "smaller"]
    assert (shares["from"] < shares["less A"]).all()
    assert (shares["less A"] < shares["to"]).all()
    assert set(shares.profiles) == {"3 and 3"}


def test_disturbed_profiles_are_marked():
    used = Processor(cpu_seconds=1.0, wall_seconds=2.0)
    alone = ENVIRONMENT | {"threads": 1}
    disturbed = profile([op("Add", [1.0])], processor=used, environment=alone)
    assert compared_profiles([disturbed], [disturbed]).shares.profiles.tolist() == [
        "1 (1 disturbed) and 1 (1 disturbed)"
    ]


def test_profiles_on_different_threads_are_not_compared():
    first, second = (profile([op("Add", [1.0] * 5)], threads=threads) for threads in (1, 2))
    both = compared_profiles([first], [second])
    assert both.shares.empty
    assert both.refused == ("A and B: autoenc profile: batch 8 on 1 thread against batch 8 on 2",)


def test_the_command_shows_ratios_shares_and_what_differs_of_the_machines(tmp_path, capsys):
    other = MACHINE.environment.model_copy(update={"python": "3.13"})
    machine = MACHINE.model_copy(update={"environment": other})
    runs = [run(), run(profile=profile([op("Add", [1.0] * 5)]))]
    command(tmp_path, runs, runs, machine=machine)
    shown = capsys.readouterr().out
    assert "python" in shown
    assert "3.13" in shown
    assert shown.count("No verdict with a single run or profile on either side") == 1
    again = "python -m fathom characterize --repeats 3 --profile-repeats 3"
    assert f"{again} --out {tmp_path}/folder0" in shown
    for verdict in ("faster", "slower", "within the noise"):
        assert verdict not in shown


def test_the_command_names_a_workload_whose_ops_took_no_time(tmp_path, capsys):
    runs = [[run(), run(profile=profile([op("Add", [time] * 5)]))] for time in (1.0, 0.0)]
    command(tmp_path, *runs)
    shown = capsys.readouterr().out
    assert "not compared: A and B: autoenc profile: ops took no time in B" in shown
    assert "op types' shares" not in shown


def test_two_folders_without_like_runs_are_refused(tmp_path, capsys):
    with pytest.raises(FathomError, match="no like runs of the sets modes, repeats and profile"):
        command(tmp_path, [run("vgg")], [run("speech")])
    assert "not compared: A and B: vgg train cpu: only in A" in capsys.readouterr().out


def test_warm_up_runs_are_not_compared():
    warmup = run(purpose=("warmup",), repeat=-1)
    ratio = the_ratio([run(), warmup], [run(), run(purpose=("repeats",), repeat=1)])
    assert ratio["runs"] == "1 and 2"


def test_the_command_compares_several_folders(tmp_path, capsys):
    runs = [[run(repeat=repeat) for repeat in (0, 1)]] * 3
    command(tmp_path, *runs)
    shown = capsys.readouterr().out
    assert f"C: {tmp_path}/folder2" in shown
    assert shown.count("within the noise") == 2
    assert "No verdict" not in shown


def test_more_folders_than_letters_are_refused(tmp_path):
    with pytest.raises(FathomError, match="27 folders are too many: compare at most 26"):
        compare.compare_folders([tmp_path] * 27, Console())


def test_times_of_different_programs_are_told_apart():
    divided = [steps_of(around(0.1), microbatches=2)]
    row = the_ratio([steps_of(around(0.1))], divided)
    assert row["programs"] == "op by op and op by op, 2 microbatches"
    assert "programs" not in the_ratio(divided, divided)


@pytest.mark.parametrize(("runs", "machine"), [(2, 0.0), (3, 0.0), (3, 0.3)])
def test_a_difference_as_large_as_would_show_is_told_and_no_smaller_one(runs, machine):
    logs = np.random.default_rng(0).normal(0, 0.01, (2, runs))
    probes = {"1": (1e11, 1e11 * np.exp(machine))}
    probed = MACHINE.model_copy(update={"gemm_probes": probes})

    def row(difference):
        centred = logs - logs.mean(axis=1, keepdims=True) + [[0.0], [difference]]
        sides = [
            folder([steps_of([float(np.exp(x))] * 5) for x in side], probed) for side in centred
        ]
        (found,) = comparison.compare(sides[0], sides[1:]).ratios.to_dict("records")
        return found

    shows = np.log1p(row(0.1)["would show (%)"] / 100)
    assert shows > machine
    assert row(1.001 * shows)["verdict"] == "slower"
    for smaller in (0.999 * shows, -0.999 * shows):
        assert row(smaller)["verdict"] in comparison.UNDECIDED


def test_one_of_many_rows_must_differ_by_more_to_show():
    generator = np.random.default_rng(0)
    both = [same_program(generator, 3, workloads=1) for _ in "AB"]
    alone = the_ratio(*both)["would show (%)"]
    more = [[*side, *same_program(generator, 3)[3:]] for side in both]
    assert compared(*more).ratios["would show (%)"][0] > 1.5 * alone
    assert np.isnan(the_ratio(both[0][:1], both[1])["would show (%)"])
