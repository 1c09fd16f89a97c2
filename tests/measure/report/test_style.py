from unittest import mock

import matplotlib
import numpy as np
import pytest
from legibility import assert_legible
from synthetic_folder import WORKLOADS

from fathom import workloads
from fathom.measure.report import figures, selection, style
from fathom.measure.report.figures import f5

QUICK = ("F3",)  # all figures are drawn by the same means


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(each, id=each.id, marks=() if each.id in QUICK else pytest.mark.slow)
        for each in figures.find_all()
    ],
)
def test_every_figure_of_eight_workloads_is_legible(figure, all_workloads):
    assert_legible(figure.analyse(all_workloads).plot)


def test_settings_of_other_packages_and_users_change_no_figure(all_workloads):
    """ZigZag sets the sizes of all labels when it is imported."""
    with matplotlib.rc_context({"axes.labelsize": 24, "ytick.labelsize": 20}):
        assert_legible(f5.FIGURE.analyse(all_workloads).plot)
        with style.applied():
            assert matplotlib.rcParams["font.size"] == 9
        assert matplotlib.rcParams["axes.labelsize"] == 24


def test_colours_and_markers_of_two_workloads_are_never_the_same():
    looks = [style.look_of(name) for name in WORKLOADS]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 8


def test_a_ninth_workload_has_a_look_of_its_own():
    selection.order.cache_clear()
    with mock.patch.object(workloads, "EIGHT", (*workloads.EIGHT, "transformer")):
        looks = [style.look_of(name) for name in (*WORKLOADS, "transformer")]
    selection.order.cache_clear()
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 9


def test_bars_may_have_more_series_than_hatches():
    many = {f"machine {i}": (np.ones(2), style.BLUE) for i in range(len(style.HATCHES) + 1)}
    with style.single(2) as (_, panel):
        style.bars(panel, ["vgg", "deepq"], many)
    assert len(panel.containers) == len(many)
