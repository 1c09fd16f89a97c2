import numpy as np

from fathom.measure.report import published


def test_each_row_of_figure_3_sums_to_between_90_and_100_percent():
    table = published.breakdown()
    assert table.shape == (8, 22)
    assert table.sum(axis=1).between(90, 100).all()
    assert table.loc["speech", "MatMul"] == 89
    assert table.loc["deepq", "ApplyRMSProp"] == 7


def test_the_published_numbers_cannot_be_changed_by_accident():
    table = published.breakdown()
    table.loc[:] = 1
    assert published.breakdown().loc["speech", "MatMul"] == 89


def test_sections_of_the_minsky_paper_are_relative_to_the_cpu():
    table = published.sections()
    assert len(table) == 14
    assert (table.xs("cpu", level="device").wall == 1).all()
    assert table.loc[("residual", "gpu"), "run"] == 0.0428
    assert "speech" not in table.index.get_level_values("workload")


def test_the_gpu_efficiency_of_the_minsky_paper_is_a_share():
    table = published.gpu_efficiency()
    assert table.kernels_over_api["residual"] == 0.8783
    np.testing.assert_allclose(table.memcpy_share["autoenc"], 0.15991)
    assert (table.memcpy_share < 1).all()
