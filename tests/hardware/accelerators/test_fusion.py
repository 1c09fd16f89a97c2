"""Fused operations move what crosses their border."""

import pytest

from fathom.hardware.accelerators.fusion import fused
from tests.hardware.accelerators.steps import (
    HIDDEN,
    ROWS,
    UNIT,
    WIDTH,
    blocks,
    description,
    elementwise,
    product,
)

HEADS = {"weights": False, "batch": 4}
ATTENTION = (
    product("qkv", "a", (ROWS, HIDDEN, WIDTH), []),
    product("scores", "a", (ROWS, ROWS, WIDTH), ["qkv"], **HEADS),
    elementwise("softmax", "a", 4 * ROWS * ROWS, ["scores"]),
    product("mixed", "a", (ROWS, WIDTH, ROWS), ["softmax", "qkv"], **HEADS),
    product("out", "a", (ROWS, WIDTH, 4 * WIDTH), ["mixed"]),
)


def test_a_chain_reads_its_input_and_writes_its_result():
    chain = [
        elementwise("square", "norm", ROWS * WIDTH, ["input"]),
        elementwise("root", "norm", ROWS * WIDTH, ["square"]),
        elementwise("scale", "norm", ROWS * WIDTH, ["root", "input"]),
    ]
    step = description(
        elementwise("input", "embedding", ROWS * WIDTH, []),
        *chain,
        product("after", "dense", (ROWS, HIDDEN, WIDTH), ["scale"]),
    )
    found = fused(step, "elementwise").operations
    (kernel,) = [row for row in found if row.layer == "norm"]
    assert (kernel.input_bytes, kernel.output_bytes) == (UNIT, UNIT)
    assert kernel.flops == 3 * ROWS * WIDTH


def test_work_is_kept_and_products_with_weights_are_not_fused():
    step = blocks(3)
    for fusion in ("elementwise", "attention"):
        found = fused(step, fusion)
        assert (found.macs, found.total_flops) == (step.macs, step.total_flops)
        assert found.traffic_bytes <= step.traffic_bytes
        products = [row.name for row in found.operations if row.macs]
        assert products == [row.name for row in step.operations if row.macs]


@pytest.mark.parametrize(("fusion", "moved"), [("elementwise", True), ("attention", False)])
def test_the_scores_of_attention_go_through_the_memory_unless_it_is_fused(fusion, moved):
    step = description(*ATTENTION)
    found = fused(step, fusion).operations
    assert ("softmax" in {row.name for row in found}) == moved
    assert sum(row.macs for row in found) == step.macs


def test_gradients_compute_the_scores_of_attention_again_from_its_inputs():
    backward = {"phase": "input gradient"}
    step = description(
        *ATTENTION,
        product("out/dX", "a", (ROWS, 4 * WIDTH, WIDTH), ["out"], **backward),
        product("softmax/dX", "a", (ROWS, ROWS, WIDTH), ["softmax", "out/dX"], **HEADS, **backward),
    )
    kernels = {
        row.phase: row for row in fused(step, "attention").operations if not row.weight_bytes
    }
    qkv, out = 4 * ROWS * HIDDEN, 4 * ROWS * 4 * WIDTH
    assert kernels["forward"].output_bytes == out
    assert kernels["input gradient"].input_bytes == qkv + out
