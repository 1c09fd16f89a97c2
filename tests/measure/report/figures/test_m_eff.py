import numpy as np
from synthetic_folder import folder, result, run, runs_of

from fathom.measure.report.figures import m_eff


def test_efficiency_is_the_speed_up_over_the_cores():
    times = {4: 0.5, 1: 1.0, 2: 0.5}
    runs = [run(cores=cores, result=result(seconds)) for cores, seconds in times.items()]
    table = m_eff.efficiency(runs_of(*runs))
    assert table.cores.tolist() == [1, 2, 4]
    np.testing.assert_allclose(table["speed-up"], [1, 2, 2])
    np.testing.assert_allclose(table.efficiency, [1, 1, 0.5])
    assert m_eff.summary(table) == "Efficiency on the most cores measured: autoenc 0.50 at 4."


def test_of_equal_runs_the_geometric_mean_counts():
    runs = [run(cores=1, repeat=i, result=result(seconds)) for i, seconds in enumerate((1, 2, 4))]
    table = m_eff.efficiency(runs_of(*runs, run(cores=2, result=result(1.0))))
    np.testing.assert_allclose(table["speed-up"], [1, 2])
    assert table.runs.tolist() == ["3", "1"]
    assert table[["from", "to"]].isna().all(axis=None)


def test_several_runs_a_side_give_an_interval_and_one_does_not():
    one = [
        run(purpose=("cores",), cores=1, repeat=i, result=result(0.2 + i / 50)) for i in range(3)
    ]
    all_cores = [run(purpose=("modes", "cores"), cores=4, result=result(0.1))]
    findings = m_eff.FIGURE.analyse(folder([*one, *all_cores]))
    assert findings.summary.endswith("autoenc 0.55 at 4. One run, no interval.")
    all_cores.append(run(purpose=("repeats",), cores=4, repeat=1, result=result(0.11)))
    findings = m_eff.FIGURE.analyse(folder([*one, *all_cores]))
    assert findings.data["from"].iloc[1] < findings.data.efficiency.iloc[1]
    assert " to " in findings.summary
    assert "One run" not in findings.summary


def test_disturbed_runs_are_marked():
    disturbed = result(0.2, cpu_seconds=1.0, threads=1)
    runs = [run(purpose=("cores",), cores=1, result=disturbed), run(purpose=("modes", "cores"))]
    findings = m_eff.FIGURE.analyse(folder(runs))
    assert findings.data.runs.tolist() == ["1 (1 disturbed)", "1"]
    assert findings.summary.endswith("Disturbed by other processes: autoenc.")


def test_efficiency_takes_a_run_on_one_core_and_on_more():
    assert m_eff.efficiency(runs_of(run(cores=2), run(cores=4))).empty
    assert m_eff.efficiency(runs_of(run(cores=1))).empty


def test_numbers_of_cores_on_which_another_program_ran_are_marked():
    runs = [
        run(purpose=("cores",), cores=1, result=result(0.2)),
        run(purpose=("modes", "cores"), cores=2, result=result(0.1, microbatches=2)),
    ]
    findings = m_eff.FIGURE.analyse(folder(runs))
    assert findings.data.program.tolist() == ["op by op", "op by op, 2 microbatches"]
    assert "op by op (cores 1); op by op, 2 microbatches (cores 2)." in findings.summary
    (cross,) = (line for line in findings.plot.axes[0].lines if line.get_marker() == "x")
    assert cross.get_xdata().tolist() == [2]


def test_a_workload_that_is_not_installed_here_is_named_too():
    gaps = m_eff.FIGURE.analyse(folder([run("elsewhere", ("cores",))])).gaps
    assert "elsewhere: not timed on one core and on more" in gaps
