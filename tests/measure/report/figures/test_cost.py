import numpy as np
import pytest
from synthetic_folder import COST, LAYERS, MACHINE, folder, op, profile, result, run, runs_of

from fathom.measure.report.figures import cost


def layer_work(*ops, **changes):
    measured = folder([run(profile=profile(ops, **changes))])
    return cost.layer_work(measured.layers(), measured.ops())


def test_the_achieved_rate_is_set_against_the_matrix_product_on_as_many_threads():
    runs = [run(), run(mode="infer", result=result(threads=2)), run("vgg", device="/gpu:0")]
    table = cost.utilization(runs_of(*runs), MACHINE)
    np.testing.assert_allclose(table["achieved/peak"], [0.5, 1.0, np.nan])
    assert table[["from", "to"]].isna().all(axis=None)
    assert table["FLOPs/example"].tolist() == [1000, 400, 1000]
    assert cost.summary(table).endswith("on the same threads: autoenc 0.50.")


def test_a_disturbed_peak_is_marked():
    machine = MACHINE.model_copy(update={"gemm_cpu_share": {"1": 0.3, "4": 0.6}})
    gaps = cost.FIGURE.analyse(folder([run()], machine)).gaps
    assert (
        "a peak that is a limit, 4 threads: other processes left 60% of the processor to its probe"
        in gaps
    )
    assert sum("a limit" in gap for gap in gaps) == 1


def test_utilization_has_an_interval_between_runs():
    rates = (1e11, 1.1e11, 1.3e11)
    runs = [
        run(repeat=i, result=result() | {"throughput": {"flops_per_second": rate}})
        for i, rate in enumerate(rates)
    ]
    (row,) = cost.utilization(runs_of(*runs), MACHINE).to_dict("records")
    assert row["achieved/peak"] == pytest.approx(np.prod(rates) ** (1 / 3) / 4e11)
    assert 0 < row["from"] < row["achieved/peak"] < row["to"]


def test_the_layers_time_is_the_mean_of_equal_profiles():
    profiles = [profile([op("MatMul", [t] * 4, "fc1")]) for t in (1.0, 3.0)]
    measured = folder([run(profile=p, repeat=i) for i, p in enumerate(profiles)])
    table = cost.FIGURE.analyse(measured).tables["layers"]
    assert table["time per step (s)"].tolist() == [2, 0]


def test_another_precision_than_that_of_the_matrix_product_has_no_peak():
    in_bfloat16 = MACHINE.environment.model_copy(update={"precision": "bfloat16"})
    other = MACHINE.model_copy(update={"environment": in_bfloat16})
    table = cost.utilization(runs_of(run()), other)
    assert table["peak (FLOP/s)"].isna().all()


def test_layers_have_their_work_traffic_and_time():
    ops = [op("MatMul", [1.0, 1.0], "fc1"), op("MatMul", [1.0, 1.0], "fc1", "backward")]
    table = layer_work(*ops)
    assert table["parameters (bytes)"].tolist() == [440, 440]
    assert table["activations (bytes/step)"].tolist() == [4 * 10 * 8] * 2
    assert table["FLOPs/step"].tolist() == [2 * 8 * 100 * 2, 2 * 8 * 100 * 3]
    assert table["time per step (s)"].tolist() == [2, 0]
    np.testing.assert_array_equal(table["achieved (FLOP/s)"], [1600, np.nan])


def test_a_layer_that_a_step_runs_forward_twice_has_the_work_of_both_passes():
    layers = [layer | {"forward_passes": 2} for layer in LAYERS]
    table = layer_work(op("MatMul", [1.0]), cost=COST | {"layers": layers})
    assert table["FLOPs/step"].tolist() == [2 * 8 * 100 * 3, 2 * 8 * 100 * 4]


def test_layers_have_the_work_of_the_batches_that_were_profiled():
    table = layer_work(op("MatMul", [1.0, 1.0], "fc1"), work=np.array([1.0, 2.0]))
    assert table["FLOPs/step"][0] == 1.5 * 2 * 8 * 100 * 2
    assert table["activations (bytes/step)"][0] == 1.5 * 4 * 10 * 8


def test_activations_are_half_as_large_in_bfloat16_and_weights_are_not():
    table = layer_work(op("MatMul", [1.0]), precision="bfloat16")
    assert table["parameters (bytes)"][0] == 440
    assert table["activations (bytes/step)"][0] == 2 * 10 * 8


def test_the_rate_says_the_program_where_batches_are_divided():
    assert "program" not in cost.utilization(runs_of(run()), MACHINE)
    divided = runs_of(run(result=result(microbatches=2)))
    assert cost.utilization(divided, MACHINE).program.tolist() == ["op by op, 2 microbatches"]
