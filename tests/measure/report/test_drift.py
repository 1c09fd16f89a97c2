import numpy as np
import pandas as pd
import pytest
from synthetic_folder import MACHINE, folder, result, run

from fathom.measure.report import comparison, drift

RATE, NOISE = 1e11, 0.01


def probed(*rates, **environment):
    """The machine with these rates of the matrix product on one thread."""
    changed = MACHINE.environment.model_copy(update=environment)
    fields = {"gemm_flops_per_second": {"1": max(rates)}, "gemm_probes": {"1": rates}}
    return MACHINE.model_copy(update={**fields, "environment": changed})


def percent(change):
    return 100 * np.expm1(change)


def test_the_probes_of_both_folders_show_the_change_of_the_machine():
    assert percent(drift.between(probed(100, 98), probed(100, 104))) == pytest.approx(6.1, abs=0.1)
    assert drift.between(probed(100), probed(100)) == 0


@pytest.mark.parametrize("other", [{"cpu_model": "another"}, {"tensorflow": "3.0"}])
def test_what_other_processors_and_software_change_is_not_drift(other):
    change = drift.between(probed(100, 98), probed(200, 210, **other))
    assert percent(change) == pytest.approx(5)


def test_an_older_folder_has_one_probe():
    older = MACHINE.model_copy(update={"gemm_flops_per_second": {"1": 100.0}, "gemm_probes": {}})
    assert drift.between(older, older) == 0
    assert percent(drift.between(older, probed(110))) == pytest.approx(10)


def test_the_time_that_other_processes_took_counts():
    runs = pd.DataFrame({"disturbed": [True, True, False, None], "cpu_share": [0.8, 0.5, 1, None]})
    assert percent(drift.lost(runs)) == pytest.approx(100)
    assert drift.lost(runs.iloc[2:]) == 0


def measured(generator, slower=1.0, spread=0.05, processes=3):
    """A folder of a machine whose speed drifts from folder to folder, more than its runs differ."""
    state = np.exp(generator.normal(0, spread))
    runs = [
        run(result=result(slower * state * np.exp(generator.normal(0, NOISE))), repeat=i)
        for i in range(processes)
    ]
    probes = RATE / state * np.exp(generator.normal(0, NOISE, 2))
    return folder(runs, probed(*probes))


def verdicts(slower, processes=3):
    generator = np.random.default_rng(0)
    found = []
    for _ in range(60):
        both = (measured(generator, factor, processes=processes) for factor in (1.0, slower))
        first, second = both
        found += comparison.compare(first, [second]).ratios.verdict.tolist()
    return np.array(found)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.slow
def test_few_verdicts_are_false_where_the_machine_drifts(processes):
    assert (~np.isin(verdicts(1.0, processes), comparison.UNDECIDED)).mean() <= 0.05


@pytest.mark.slow
def test_a_difference_larger_than_the_drift_is_found():
    found = verdicts(1.4)
    assert (found == "slower").mean() > 0.9
    assert "faster" not in found


def test_a_ratio_within_the_time_that_was_lost_has_no_verdict():
    alone, beside = (
        [
            run(result=result(s * x, cpu_seconds=c * s * x * 10, threads=1), repeat=i)
            for i, x in enumerate((0.99, 1.0, 1.01))
        ]
        for s, c in ((0.2, 1.0), (0.3, 0.6))
    )
    (row,) = comparison.compare(folder(alone), [folder(beside)]).ratios.to_dict("records")
    assert row["runs"] == "3 and 3 (3 disturbed)"
    assert row["verdict"] == comparison.CANNOT_TELL
    assert row["from"] > 1
