import argparse
import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
import synthetic_folder
from synthetic_folder import op, profile, result, run

FILE = Path(__file__).parents[2] / "benchmarks" / "false_verdicts.py"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(generator, noise, runs=3, workloads=("autoenc", "vgg")):
    """A folder of one program whose processes differ by some noise."""
    created = []
    for workload, _ in itertools.product(workloads, range(runs)):
        name = f"run{next(NUMBERS):04}"
        seconds = 0.1 * np.exp(generator.normal(0, noise))
        created.append(run(workload, id=name, result=result(seconds, cpu_seconds=1.0)))
        times = np.exp(generator.normal(0, noise, 2))
        ops = [op("MatMul", [3 * times[0]] * 3), op("AddV2", [times[1]] * 3)]
        created.append(run(workload, id=f"{name}p", profile=profile(ops, workload)))
    return synthetic_folder.folder(created)


def step_times(table, runs, difference):
    rows = table[(table.table == "step times") & (table.runs == runs)]
    return rows[rows.difference == difference].iloc[0]


@pytest.fixture(scope="module")
def table(benchmark):
    generator = np.random.default_rng(0)
    return benchmark.evaluate([measured(generator, 0.02) for _ in range(3)], [1, 3])


@pytest.mark.slow
def test_all_pairs_are_counted_both_ways_where_they_differ(table):
    assert step_times(table, 3, 0.0).rows == 3 * 2
    assert step_times(table, 3, 0.3).rows == 6 * 2
    shares = table[(table.table == "shares") & (table.runs == 1)].set_index("difference")
    assert shares.rows[0.0] == 3 * 2 * 2
    assert shares.rows[0.3] == 6 * 2  # only the op type that was made slower


@pytest.mark.slow
def test_one_run_a_side_has_no_verdict(table):
    alone = table[table.runs == 1]
    assert alone[["right", "wrong"]].sum().sum() == 0


@pytest.mark.slow
def test_equal_folders_are_rarely_called_different_and_large_differences_are_found(table):
    assert step_times(table, 3, 0.0).wrong <= 1
    assert step_times(table, 3, 0.0).right == 0
    found = step_times(table, 3, 0.3)
    assert found.right > 0.9 * found.rows
    assert found.wrong == 0


def test_a_verdict_among_equal_folders_is_wrong(benchmark):
    generator = np.random.default_rng(0)
    first, second = measured(generator, 0.001), measured(generator, 0.001)
    runs = [benchmark.slowed(each, 1.5, {"MatMul"}) for each in second.runs]
    table = benchmark.evaluate([first, synthetic_folder.folder(runs)], [3])
    equal = step_times(table, 3, 0.0)
    assert (equal.right, equal.wrong) == (0, equal.rows)


def test_a_side_has_the_first_runs_made_slower(benchmark):
    folder = measured(np.random.default_rng(0), 0.02)
    slower = benchmark.side(folder, 2, 0.2, {"autoenc": "MatMul", "vgg": "MatMul"})
    assert len(slower.runs) == 2 * 2 * 2
    before = {each.id: each for each in folder.runs}
    for each in slower.runs:
        if each.result:
            old = before[each.id].result
            assert each.result.steps.median == pytest.approx(1.2 * old.steps.median)
            assert each.result.cpu_share == pytest.approx(old.cpu_share) or old.cpu_share is None
        else:
            times = [each.profile.ops[i].seconds[0] for i in (0, 1)]
            old = [before[each.id].profile.ops[i].seconds[0] for i in (0, 1)]
            assert times == pytest.approx([1.2 * old[0], old[1]])


@pytest.mark.slow
def test_a_folder_is_measured_once_and_rates_are_shown(benchmark, monkeypatch, tmp_path, capsys):
    generator, measurements = np.random.default_rng(0), []

    def measure(path, args):
        measurements.append(path.name)
        synthetic_folder.write(path, measured(generator, 0.02, runs=2).runs)

    monkeypatch.setattr(benchmark, "measure", measure)
    args = argparse.Namespace(
        out=tmp_path, folders=2, workloads=["autoenc", "vgg"], repeats=2, profile_repeats=2
    )
    benchmark.run(args)
    benchmark.run(args)
    assert measurements == ["01", "02"]
    assert (tmp_path / "verdicts.csv").exists()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["step", "times", "2", "0%", "2", "-", "0.0%", "(0.0", "to", "84.2)"] in lines


def test_the_runs_of_some_folders_are_judged_as_if_they_had_been_interleaved(benchmark):
    generator = np.random.default_rng(0)
    folders = [measured(generator, 0.01, workloads=("autoenc",)) for _ in range(4)]
    table = benchmark.interleaved(folders).set_index("difference")
    assert table.rows.tolist() == [1] * 4  # twelve runs are six pairs
    assert (table.right[0.0], table.right[0.3], table.wrong.sum()) == (0, 1, 0)
