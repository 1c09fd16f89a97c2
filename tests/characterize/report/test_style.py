from unittest import mock

import pytest
from legibility import assert_legible
from synthetic_folder import WORKLOADS

from fathom import workloads
from fathom.characterize.report import figures, selection, style


@pytest.mark.parametrize("figure", figures.find_all(), ids=lambda figure: figure.id)
def test_every_figure_of_eight_workloads_is_legible(figure, all_workloads):
    assert_legible(figure.analyse(all_workloads).plot)


def test_colours_and_markers_of_two_workloads_are_never_the_same():
    looks = [style.look_of(name) for name in WORKLOADS]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 8


def test_a_ninth_workload_has_a_look_of_its_own():
    selection.order.cache_clear()
    with mock.patch.object(workloads, "EIGHT", (*workloads.EIGHT, "transformer")):
        looks = [style.look_of(name) for name in (*WORKLOADS, "transformer")]
    selection.order.cache_clear()
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 9
