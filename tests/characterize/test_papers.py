import numpy as np
import pytest

from fathom.characterize.profile import ops
from fathom.characterize.report import published


def test_each_row_of_figure_3_sums_to_between_90_and_100_percent():
    table = published.breakdown()
    assert table.percent.shape == (8, 22)
    assert ((table.percent.sum(axis=1) >= 90) & (table.percent.sum(axis=1) <= 100)).all()
    assert table.row("speech")["MatMul"] == 89
    assert table.row("deepq")["ApplyRMSProp"] == 7


def test_a_workload_that_the_paper_has_not_is_refused():
    with pytest.raises(KeyError):
        published.breakdown().row("transformer")


def test_the_published_numbers_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        published.breakdown().percent[0, 0] = 1


def test_the_op_table_has_the_papers_columns():
    assert published.breakdown().op_types == ops.PAPER_TYPES


def test_sections_of_the_minsky_paper_are_relative_to_the_cpu():
    table = published.sections()
    assert len(table) == 14
    assert all(row["wall"] == 1 for (_, device), row in table.items() if device == "cpu")
    assert table["residual", "cpu+gpu"]["run"] == 0.0428
    assert ("speech", "cpu") not in table


def test_the_gpu_efficiency_of_the_minsky_paper_is_a_share():
    table = published.gpu_efficiency()
    assert table["residual"].kernels_over_api == 0.8783
    assert table["autoenc"].memcpy_share == pytest.approx(0.15991)
    assert np.all([row.memcpy_share < 1 for row in table.values()])
