"""Operations are bound by the slower of arithmetic and memory; nodes share them."""

import json

import pytest

from fathom import FathomError
from fathom.hardware.accelerators import machine, roofline, scaling, table_i
from fathom.results.description import Description, Operation

P100 = machine.load("p100")


def operation(**changes):
    given = {
        **{"name": "a/MatMul", "type": "MatMul", "layer": "a", "phase": "forward"},
        **{"kind": "matrix product", "dtype": "float32", "repeats": 1, "flops": 0},
        **{"bounds": {"batch": 1, "M": 2, "N": 3, "K": 4}, "macs": 10**12},
        **{"input_bytes": 10**6, "weight_bytes": 10**6, "output_bytes": 10**6},
    }
    return Operation.model_validate(given | changes)


def description(*operations, mode="train", parameters=1000):
    return Description(
        workload="w",
        mode=mode,
        batch_size=8,
        precision="float32",
        inputs={"x": (2, 3)},
        parameters=parameters,
        operations=operations,
    )


CONVOLUTION = dict.fromkeys(
    ("N", "M", "C", "groups", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1
) | {"P": 32, "Q": 32, "R": 3, "S": 3}
MOVING = operation(name="b/Pad", type="Pad", layer="b", kind="data movement", macs=0, bounds={})


def test_each_operation_takes_the_longer_of_its_two_times():
    table = roofline.table(description(operation(), MOVING), P100)
    assert table.bound.tolist() == ["compute", "memory"]
    assert table.seconds.tolist() == pytest.approx([2e12 / 10.6e12, 3e6 / P100.bandwidth])
    assert table.attainable.tolist() == [10.6e12, 0]
    layers = roofline.layers(table)
    assert layers.layer.tolist() == ["a", "b"]
    assert layers.seconds.sum() == table.seconds.sum()


def test_weights_that_a_loop_reads_again_move_once():
    table = roofline.table(description(operation(repeats=10, weight_bytes=10**7)), P100)
    assert table["bytes"].item() == 3 * 10**6


def test_weights_that_exceed_the_chip_are_read_in_each_iteration():
    half = int(0.6 * P100.on_chip_bytes)
    loop = [
        operation(name=f"loop/body/{name}", repeats=10, weight_bytes=10 * half) for name in "ab"
    ]
    assert roofline.table(description(loop[0]), P100)["bytes"].item() == half + 2 * 10**6
    both = roofline.table(description(*loop), P100)["bytes"]
    assert both.tolist() == [10 * half + 2 * 10**6] * 2
    halved = roofline.table(description(*loop), P100, "float16")["bytes"]  # they fit
    assert halved.tolist() == [(half + 2 * 10**6) / 2] * 2
    unknown = P100.model_copy(update={"on_chip_bytes": None})
    assert roofline.table(description(loop[0]), unknown)["bytes"].item() == 10 * half + 2 * 10**6


def test_updates_move_float32_weights_in_any_type_of_number():
    update = operation(phase="update", kind="elementwise", bounds={"elements": 5}, macs=0)
    assert roofline.table(description(update), P100, "float16")["bytes"].item() == 3e6


def test_another_type_of_number_changes_rate_and_bytes():
    table = roofline.table(description(operation()), P100, "float16")
    assert table.seconds.item() == 2e12 / 21e12
    assert table["bytes"].item() == 1.5e6
    with pytest.raises(FathomError, match="no rate for bfloat16"):
        roofline.table(description(operation()), P100, "bfloat16")
    with pytest.raises(FathomError, match="no type of number"):
        roofline.bits("half")


def test_data_parallel_nodes_reduce_the_gradients_in_a_ring():
    one, four = scaling.scale(description(operation()), P100, [1, 4])
    assert one.communication_seconds == 0
    assert four.compute_seconds == one.seconds / 4
    assert four.communication_seconds == 2 * 3 / 4 * 4000 / P100.link_bandwidth
    assert four.seconds == four.compute_seconds + four.communication_seconds
    (hidden,) = scaling.scale(description(operation()), P100, [4], overlap=1.0)
    assert hidden.seconds == hidden.compute_seconds
    (inference,) = scaling.scale(description(operation(), mode="infer"), P100, [4])
    assert inference.communication_seconds == 0


def test_each_node_reads_and_updates_all_weights():
    forward = operation(macs=0, kind="data movement", bounds={})
    gradient = operation(macs=0, kind="data movement", bounds={}, phase="weight gradient")
    update = operation(macs=0, kind="elementwise", bounds={}, phase="update")
    for row, moved in ((forward, 1.5e6), (gradient, 2.25e6), (update, 3e6)):
        (step,) = scaling.scale(description(row), P100, [4])
        assert step.compute_seconds == moved / P100.bandwidth
        (step,) = scaling.scale(description(row), P100, [4], "model")
        assert step.compute_seconds == 0.75e6 / P100.bandwidth


def test_a_node_holds_its_share_of_the_results_and_all_weights():
    held = description(operation(result_bytes=4000), mode="infer")
    held = held.model_copy(update={"held_bytes": 1000})
    assert roofline.memory_bytes(held) == 5000
    assert roofline.memory_bytes(held, "float16") == 2500
    trained = held.model_copy(update={"mode": "train"})
    assert roofline.memory_bytes(trained, "float16") == 3000  # its weights stay in float32
    by_nodes = scaling.table(scaling.scale(held, machine.load("h100"), [1, 4]))
    assert by_nodes.memory_bytes.tolist() == [5000, 2000]
    shared = scaling.scale(held, machine.load("h100"), [4], parallelism="model")
    assert shared[0].memory_bytes is None
    assert roofline.memory_bytes(description(operation())) is None  # of an older file


def test_model_parallel_nodes_reduce_the_gradients_of_convolutions_and_keep_heads_apart():
    gradient = operation(kind="convolution", bounds=CONVOLUTION, phase="weight gradient")
    (patches,) = scaling.scale(description(gradient), P100, [4], "model")
    assert patches.communication_seconds == 2 * 3 / 4 * 10**6 / P100.link_bandwidth
    heads = operation(bounds={"batch": 12, "M": 2, "N": 3, "K": 4}, weight_bytes=0)
    (attention,) = scaling.scale(description(heads), P100, [4], "model")
    assert attention.communication_seconds == 0


def test_model_parallel_nodes_exchange_results_or_the_borders_of_patches():
    (product,) = scaling.scale(description(operation()), P100, [4], "model")
    assert product.communication_seconds == 10**6 * 3 / 4 / P100.link_bandwidth
    convolution = operation(kind="convolution", bounds=CONVOLUTION)
    (patches,) = scaling.scale(description(convolution), P100, [4], "model")
    border = 4 * 16 / 32**2  # four sides of 16 pixels, one deep
    assert patches.communication_seconds == 10**6 * border / P100.link_bandwidth


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": {"batch": 1, "M": 2, "N": 3}}, "the bound K of a matrix product is missing"),
        ({"bounds": {"batch": 1, "M": 2, "N": 0, "K": 4}}, "the bound N of a matrix product is mi"),
        ({"kind": "convolution"}, "the bound C of a convolution is missing"),
        ({"kind": "convolution", "bounds": {**CONVOLUTION, "groups": 2}}, "multiples of the group"),
        ({"macs": 2**62}, "2^63 or more"),
        (dict.fromkeys(("macs", "input_bytes", "weight_bytes", "output_bytes"), 0), "move nothing"),
        ({"macs": 0, "input_bytes": 0, "output_bytes": 0, "repeats": 10**7}, "move nothing"),
    ],
)
def test_a_description_that_no_step_has_is_refused_in_one_line(changes, message):
    step = description(operation()).to_plain()
    assert Description.parse(json.dumps(step), "step.json") == description(operation())
    step["operations"][0] |= changes
    with pytest.raises(FathomError, match=r"step\.json is damaged \(") as error:
        Description.parse(json.dumps(step), "step.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_description_without_operations_is_refused():
    step = description(operation()).to_plain() | {"operations": []}
    with pytest.raises(FathomError, match="move nothing"):
        Description.parse(json.dumps(step), "step.json")


def test_a_step_that_only_moves_data_has_an_efficiency():
    table = scaling.table(
        scaling.scale(
            description(MOVING.model_copy(update={"weight_bytes": 0}), parameters=0), P100, [1, 2]
        )
    )
    assert table.efficiency.tolist() == [1, 1]


def test_a_waiting_node_draws_less_power():
    waiting = P100.model_copy(update={"idle_share": 0.5})
    step = scaling.scaled(waiting, 1e12, 1.0, 1.0, 2)
    assert step.power_w == 2 * 300 * 0.75
    assert step.operations_per_watt == 1e12 / 2 / step.power_w
    assert step.rate_per_mm2 == 1e12 / 2 / (2 * 610)


def test_impossible_nodes_and_machines_without_a_link_are_refused():
    with pytest.raises(FathomError, match="at least 1"):
        scaling.scale(description(operation()), P100, [0])
    with pytest.raises(FathomError, match="9 nodes cannot share 8 examples"):
        scaling.scale(description(operation()), P100, [9])
    with pytest.raises(FathomError, match="K20M has no link_bandwidth"):
        scaling.scale(description(operation()), machine.load("k20m"), [2])


def test_the_ratios_of_table_i_are_within_fifteen_percent():
    table = table_i.table().set_index(["device", "nodes"])
    assert (table.rate / table["published rate"]).tolist() == pytest.approx([1] * 6, rel=0.15)
    fpga, gpu = table.loc["FPGA"].efficiency, table.loc["GPU"].efficiency
    assert (fpga / gpu).tolist() == pytest.approx([5.5, 9.9, 15.1], rel=0.15)
    retained = table.rate / table.rate.groupby("device").transform("first")
    assert retained.loc["GPU"].tolist()[1:] == pytest.approx([0.5, 0.25], rel=0.15)
    assert retained.loc["FPGA"].tolist()[1:] == pytest.approx([0.975, 0.975], rel=0.15)
