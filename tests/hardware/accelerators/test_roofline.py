"""Operations are bound by the slower of arithmetic and memory."""

import json

import pytest

from fathom import FathomError
from fathom.hardware.accelerators import machine, roofline
from fathom.hardware.accelerators.machine import Level
from fathom.results.description import Description
from tests.hardware.accelerators.steps import CONVOLUTION, MOVING, P100, description, operation


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


@pytest.mark.parametrize(
    ("name", "bits"),
    [("float32", 32), ("bfloat16", 16), ("fixed:16.10", 16), ("float8_e5m2", 8), ("tf32", 32)],
)
def test_the_first_number_of_a_type_is_its_bits(name, bits):
    assert roofline.bits(name) == bits


def test_a_type_without_bits_is_refused():
    with pytest.raises(FathomError, match="half is no type of number"):
        roofline.bits("half")


def test_numbers_that_are_whole_already_keep_their_bytes():
    product = operation(dtype="int32")
    added = MOVING.model_copy(update={"dtype": "uint8"})
    found = MOVING.model_copy(update={"dtype": "int64"})  # the places of the largest numbers
    h100 = machine.load("h100")
    table = roofline.table(description(product, added, found), h100, "int8")
    assert table["bytes"].tolist() == [3e6, 3e6, 0.75e6]


def test_results_that_have_the_bits_already_keep_their_bytes():
    half = MOVING.model_copy(update={"dtype": "float16"})
    table = roofline.table(description(operation(), half), P100, "float16")
    assert table["bytes"].tolist() == [1.5e6, 3e6]


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


def test_what_a_loop_reads_again_on_the_chip_takes_the_time_of_its_level():
    levels = (
        Level(name="L1", size_bytes=10**5),
        Level(name="L2", size_bytes=4 * 10**6, bandwidth=2 * P100.bandwidth),
    )
    cached = P100.model_copy(update={"levels": levels})
    kept = operation(macs=10, repeats=10, weight_bytes=10**7)  # 1 MB of weights: in L2
    row = roofline.table(description(kept), cached).iloc[0]
    assert (row["bytes"], row["L2 bytes"], row.bound) == (3e6, 12e6, "L2")
    assert row.seconds == pytest.approx(12e6 / (2 * P100.bandwidth))
    small = operation(macs=10, repeats=10, weight_bytes=10**6)  # 100 kB: in L1
    row = roofline.table(description(small), cached).iloc[0]
    assert (row["bytes"], row["L2 bytes"], row.bound) == (2.1e6, 2.1e6, "memory")
