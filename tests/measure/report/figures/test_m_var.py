import numpy as np
import pytest
from synthetic_folder import folder, run, runs_of

from fathom.measure.report.figures import m_var


def test_whole_runs_are_normalised_to_the_mean_on_the_cpu():
    runs = [run(wall_s=seconds) for seconds in (9.0, 10.0, 11.0)]
    runs += [run(device="/gpu:0", wall_s=seconds) for seconds in (4.0, 6.0)]
    walls = m_var.wall_times(runs_of(*runs))
    np.testing.assert_allclose(walls["over the CPU's mean"], [0.9, 1, 1.1, 0.4, 0.6])
    assert walls.run.tolist() == [1, 2, 3, 1, 2]
    table = m_var.spread(walls)
    assert table.variation[0] == pytest.approx(0.1)
    limits = 0.1 * (2 / np.array([7.378, 0.0506])) ** 0.5  # chi-squared of 2 degrees of freedom
    np.testing.assert_allclose(table.loc[0, ["from", "to"]].astype(float), limits, rtol=1e-2)
    assert "runs is " in m_var.summary(table)


def test_what_ran_on_the_gpu_alone_is_drawn_over_its_own_mean():
    runs = [run(device="/gpu:0", wall_s=seconds) for seconds in (9.0, 11.0)]
    walls = m_var.wall_times(runs_of(*runs))
    assert walls["over the CPU's mean"].isna().all()
    points = m_var.draw(walls).axes[0].lines[-1]
    np.testing.assert_allclose(points.get_xdata(), [0.9, 1.1])


def test_a_run_that_was_not_repeated_has_no_spread():
    assert m_var.wall_times(runs_of(run())).empty


def test_warm_up_runs_and_profiles_are_no_timing_runs():
    warmup = run("vgg", ("warmup",), repeat=-1, wall_s=100.0)
    repeats = [run("vgg", ("repeats",), repeat=i, wall_s=10.0 + i) for i in (1, 2)]
    assert len(m_var.FIGURE.analyse(folder([warmup, *repeats])).data) == 2


def test_less_than_five_runs_are_points_without_a_box():
    runs = [run("vgg", repeat=i, wall_s=10.0 + i) for i in range(4)]
    runs += [run("memnet", repeat=i, wall_s=10.0 + i) for i in range(5)]
    lines = m_var.draw(m_var.wall_times(runs_of(*runs))).axes[0].lines
    points, others = (
        [x for x in lines if (x.get_marker() == ".") is dots] for dots in (True, False)
    )
    assert sorted(len(each.get_xdata()) for each in points) == [4, 5]
    rows = {round(float(y)) for each in others[1:] for y in each.get_ydata()}
    assert rows == {1}  # memnet's box alone
