import numpy as np
from synthetic_folder import result, run, runs_of

from fathom.characterize.report.figures import m_eff


def test_efficiency_is_the_speed_up_over_the_cores():
    times = {4: 0.5, 1: 1.0, 2: 0.5}
    runs = [run(cores=cores, result=result(seconds)) for cores, seconds in times.items()]
    table = m_eff.efficiency(runs_of(*runs))
    assert table.cores.tolist() == [1, 2, 4]
    np.testing.assert_allclose(table["speed-up"], [1, 2, 2])
    np.testing.assert_allclose(table.efficiency, [1, 1, 0.5])
    assert m_eff.summary(table) == "Efficiency on the most cores measured: autoenc 0.50 at 4."


def test_of_equal_runs_the_median_counts():
    runs = [run(cores=1, repeat=i, result=result(seconds)) for i, seconds in enumerate((1, 2, 9))]
    table = m_eff.efficiency(runs_of(*runs, run(cores=2, result=result(1.0))))
    np.testing.assert_allclose(table["speed-up"], [1, 2])


def test_efficiency_takes_a_run_on_one_core_and_on_more():
    assert m_eff.efficiency(runs_of(run(cores=2), run(cores=4))).empty
    assert m_eff.efficiency(runs_of(run(cores=1))).empty
