"""Measured zeros reach the description, the roofline and SCALE-Sim's table."""

import pytest

from fathom import FathomError, exports
from fathom.hardware.accelerators import roofline
from fathom.hardware.accelerators.fusion import fused
from fathom.hardware.description import sparsity
from tests.hardware.accelerators.steps import CONVOLUTION, P100, description, operation

HEADER = "layer,macs,input,weights,output,gradient,saved forward,saved in training,steps\n"
TABLE = HEADER + "a,10,0.9,0.9,0.0,0.9,0.0,0.0,1\na,10,0.5,0.75,0.0,0.2,0.0,0.0,2\n"


@pytest.fixture
def zeros(tmp_path):
    (tmp_path / "zeros.csv").write_text(TABLE)
    return sparsity.read(tmp_path / "zeros.csv")


def test_the_zeros_of_a_products_two_factors_are_those_at_the_end(zeros):
    phases = ("forward", "weight gradient", "input gradient", "update")
    step = sparsity.measured(description(*(operation(phase=each) for each in phases)), zeros)
    assert [row.densities for row in step.operations] == [
        {"input": 0.5, "weights": 0.25},
        {"input": 0.5, "gradient": 0.8},
        {"gradient": 0.8, "weights": 0.25},
        {},
    ]


def test_an_inference_counts_no_gradients(tmp_path):
    (tmp_path / "zeros.csv").write_text(HEADER + "a,10,0.5,0.0,0.0,,0.5,,2\n")
    zeros = sparsity.read(tmp_path / "zeros.csv")
    assert zeros == {"a": {"input": 0.5, "weights": 0.0}}


def test_a_roofline_skips_products_with_a_zero_and_zero_weights(zeros):
    step = sparsity.measured(description(operation()), zeros)
    for each in (step, fused(step, "elementwise")):
        row = roofline.table(each, P100).iloc[0]
        assert row.flops == 2e12 / 8
        assert row["bytes"] == 2e6 + 1e6 / 4
    assert step.macs == 10**12  # the work itself stays the same


def test_scale_sim_is_told_how_many_weights_of_a_block_are_not_zero(zeros, tmp_path):
    convolution = operation(name="c", kind="convolution", bounds=CONVOLUTION)
    step = description(operation(), operation(name="b", layer="b"), convolution)
    dense = exports.find("scale-sim").export(step).files
    assert "Sparsity" not in dense["products.csv"] + dense["convolutions.csv"]
    files = exports.find("scale-sim").export(sparsity.measured(step, zeros)).files
    assert files["products.csv"].splitlines() == [
        "Layer, M, N, K, Sparsity,",
        "a/MatMul_0, 2, 3, 4, 2:8,",
        "b_0, 2, 3, 4, 1:1,",
    ]
    assert files["convolutions.csv"].splitlines()[1].endswith(", 1, 2:8,")
    topology = pytest.importorskip("scalesim.topology_utils", reason="scalesim is not installed")
    for name, ratios in (("products.csv", [[2, 8], [1, 1]]), ("convolutions.csv", [[2, 8]])):
        (tmp_path / name).write_text(files[name])
        read = topology.topologies()
        read.load_arrays(str(tmp_path / name), mnk_inputs=name == "products.csv")
        found = [read.get_layer_sparsity_ratio(i) for i in range(len(ratios))]
        assert [list(map(int, each)) for each in found] == ratios


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no layer of w"),
        ("layer,input\na,0.5\n", "is no table of fathom sparsity"),
        (TABLE.replace("0.75", "much"), "is no table of fathom sparsity"),
        (TABLE.replace("0.75", "1.75"), r"weights of a is 1\.75, not from 0 to 1"),
        (TABLE.replace("a,", "other,"), "has no layer of w"),
    ],
)
def test_another_table_is_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "zeros.csv").write_text(text)
    with pytest.raises(FathomError, match=message):
        sparsity.measured(description(operation()), sparsity.read(tmp_path / "zeros.csv"))
