import importlib.util
from pathlib import Path

import numpy as np
import pytest

from fathom.results.description import Description, Operation

FILE = Path(__file__).parents[2] / "benchmarks" / "systolic_arrays.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def description():
    """A convolution of two examples, and a product of five steps."""
    pixels = {"N": 2, "M": 8, "C": 4, "R": 3, "S": 3, "P": 6, "Q": 6, "groups": 1}
    pixels |= dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    sizes = {"batch": 1, "M": 3, "N": 8, "K": 16}
    operations = (
        operation("conv1_a", "convolution", pixels, 2 * 8 * 4 * 9 * 36, 1),
        operation("cell_1", "recurrent product", sizes, 5 * 3 * 8 * 16, 5),
    )
    return Description(
        **{"schema": 1, "workload": "small", "mode": "infer", "batch_size": 2},
        **{"precision": "float32", "inputs": {}, "parameters": 1, "operations": operations},
    )


def operation(layer, kind, bounds, macs, repeats):
    return Operation(
        **{"name": f"{layer}/x", "phase": "forward", "kind": kind, "bounds": bounds, "macs": macs},
        **{"type": "x", "layer": layer, "dtype": "float32", "repeats": repeats, "flops": 0},
        **{"input_bytes": 0, "weight_bytes": 0, "output_bytes": 0},
    )


def test_the_models_predict_one_execution_of_each_row(benchmark, description):
    table = benchmark.models(description, side=4).set_index("layer")
    assert table["shape"].tolist() == ["8 8 3 3 4 8 1", "3 8 16"]
    assert table.times.tolist() == [2, 5]
    assert table.roofline.tolist() == pytest.approx([8 * 4 * 9 * 36 / 16, 3 * 8 * 16 / 16])
    assert table.square["conv1_a"] == 2 * (36 * 9 + 6)  # 8 maps in two rounds
    assert (table.own <= table.square).all()


def test_similar_layers_are_summed_over_all_executions(benchmark, description):
    table = benchmark.models(description, side=4).assign(simulated=[1000.0, 100.0])
    sums = benchmark.summary(table, side=4)
    assert sums.index.tolist() == ["conv1", "cell 3 8 16", "all"]
    assert sums.simulated.tolist() == [2000, 500, 2500]
    assert sums["simulated %"]["conv1"] == pytest.approx(100 * 10368 / 1000 / 16, abs=0.1)


@pytest.mark.parametrize(
    ("shape", "folds", "terms"), [("8 8 3 3 4 8 1", 18, 36), ("3 8 16", 2, 16)]
)
def test_scale_sim_fills_and_drains_the_array_for_each_fold(benchmark, shape, folds, terms):
    pytest.importorskip("scalesim", reason="scalesim is not installed")
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("scalesim 3.0 simulates with NumPy below 2.4 only")
    assert benchmark.simulate(shape, side=4) == folds * (terms + 2 * 4 - 2) - 1
