import numpy as np
import pytest
from synthetic_folder import folder, result, run, steps

from fathom.measure.report.figures import runs
from fathom.results.generation import Generation, PhaseTimes


def measured(*each):
    """The table of every run of a folder."""
    return runs.FIGURE.analyse(folder(each)).data


def test_a_run_has_its_step_time_throughput_wait_memory_and_rate():
    (row,) = measured(run(result=result(0.1, batch_size=8))).to_dict("records")
    assert row["step (ms)"] == pytest.approx(100, rel=0.01)
    assert row["from"] < row["step (ms)"] < row["to"]
    assert row["to"] - row["from"] < 3  # steps differ by 1 %
    assert row["examples/s"] == pytest.approx(80)
    assert row["input wait (ms)"] == pytest.approx(1)
    assert row["peak memory (MiB)"] == 1024
    assert row["GFLOP/s"] == 200


def test_energy_has_columns_where_a_run_measured_it():
    energy = {"joules": {"cpu": 8.0}, "joules_per_step": 2.0, "flops_per_joule": 3e9}
    both = [run(result=result()), run(repeat=1, result=result() | {"energy": energy})]
    assert "J/step" not in measured(both[0])
    table = measured(*both)
    np.testing.assert_allclose(table["J/step"], [np.nan, 2])
    np.testing.assert_allclose(table["GFLOP/J"], [np.nan, 3])
    assert runs.cases(table)["J/step"].tolist() == [2]


def test_steps_of_one_call_are_one_measurement():
    document = result() | {"steps": steps([0.1] + [0.1, 0.2] * 4, call=[0] + [1] * 4 + [5] * 4)}
    assert np.isnan(measured(run(result=document))["from"][0])


def test_equal_runs_are_averaged_with_an_interval_between_them():
    times = (0.1, 0.1, 0.4)
    each = [run(repeat=i, result=result(seconds)) for i, seconds in enumerate(times)]
    alone = run(mode="infer", result=result(0.1))
    table = runs.cases(measured(*each, alone)).set_index("mode")
    train = table.loc["train"]
    assert train.runs == 3
    assert train["step (ms)"] == pytest.approx(100 * 4 ** (1 / 3), rel=0.01)
    assert 0 < train["from"] < 100
    assert train["to"] > 400
    assert np.isnan(table.loc["infer"]["from"])


def test_warm_up_runs_are_in_no_mean():
    warm = run(repeat=-1, purpose=("warmup",), result=result(0.9))
    findings = runs.FIGURE.analyse(folder([run(result=result(0.1)), warm]))
    assert findings.tables["cases"]["step (ms)"].tolist() == pytest.approx([100], rel=0.01)
    assert len(findings.data) == 2
    assert "cases" not in runs.FIGURE.analyse(folder([warm])).tables


def test_runs_on_all_cores_are_drawn():
    few = run(cores=1, result=result(0.4))
    drawn = runs.FIGURE.analyse(folder([few, run(result=result(0.1))])).plot.axes[0].containers[0]
    np.testing.assert_allclose(drawn[0].get_xdata().astype(float), [100], rtol=0.02)


def test_without_timing_runs_there_is_nothing_to_draw():
    findings = runs.FIGURE.analyse(folder([run(status="failed", reason="killed")]))
    assert findings.plot is None
    assert "autoenc train: failed (killed)" in findings.gaps


def test_phases_of_generation_have_a_table_of_their_own():
    speed = Generation.of([PhaseTimes(0.02, 0.3, 32, 30, 4)], cache_bytes=2**21)
    document = result(mode="infer") | {"generation": speed.to_plain()}
    each = [run(workload="gpt", mode="infer", result=document), run(result=result())]
    (row,) = runs.FIGURE.analyse(folder(each)).tables["generation"].to_dict("records")
    assert (row["workload"], row["cache (MiB)"]) == ("gpt", 2)
    assert row["prefill (tokens/s)"] == pytest.approx(4 * 32 / 0.02)
    assert row["first token (ms)"] == pytest.approx(20)
    assert row["decode (tokens/s)"] == pytest.approx(4 * 30 / 0.3)
    assert row["per output token (ms)"] == pytest.approx(10)
    assert "generation" not in runs.FIGURE.analyse(folder(each[1:])).tables


def test_runs_say_their_program_where_batches_are_divided_and_are_not_averaged_with_others():
    divided = run(repeat=1, result=result(microbatches=2))
    assert "program" not in measured(run())
    table = measured(run(), divided)
    assert table.program.tolist() == ["op by op", "op by op, 2 microbatches"]
    assert runs.cases(table).runs.tolist() == [1, 1]
