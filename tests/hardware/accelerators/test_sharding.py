"""Nodes share each product, and sum what Megatron-LM sums."""

from collections import Counter

import pytest

from fathom.hardware.accelerators import scaling, sharding
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.rank import Work
from fathom.testing.descriptors import descriptor
from tests.hardware.accelerators.steps import (
    CONVOLUTION,
    HIDDEN,
    ROWS,
    UNIT,
    WIDTH,
    blocks,
    description,
    elementwise,
    experts,
    operation,
    product,
)


def kinds(found):
    return Counter((each.kind, each.row.phase) for each in found)


def test_a_block_is_summed_once_forward_and_once_backward():
    found = sharding.of(blocks(3), 4)
    assert kinds(found.exchanges) == {
        ("all-reduce", "forward"): 3,
        ("all-reduce", "input gradient"): 3,
    }
    assert {each.size_bytes for each in found.exchanges} == {UNIT}
    assert {"up0", "up0/relu", "down0", "up0/dW"} <= found.shared
    assert not {"norm0", "norm0/d", "loss"} & found.shared


def test_the_gradients_of_products_of_one_input_are_summed_together():
    names = [f"{name}/dX" for name in "qkv"]
    gradients = [
        product(name, "a", (ROWS, WIDTH, HIDDEN), ["split"], "input gradient") for name in names
    ]
    column = product("up", "a", (ROWS, HIDDEN, WIDTH), [])
    total = elementwise("sum", "a", ROWS * WIDTH, names).model_copy(update={"type": "AddN"})
    split = elementwise("split", "a", ROWS * HIDDEN, ["up"])
    after = elementwise("after", "a", ROWS * WIDTH, ["sum"])
    found = sharding.of(description(column, split, *gradients, total, after), 4)
    assert [each.row.name for each in found.exchanges] == ["sum"]


def test_heads_need_no_exchange():
    width = 4 * HIDDEN
    rows = [
        product("qkv", "a", (ROWS, HIDDEN, WIDTH), []),
        product("scores", "a", (ROWS, ROWS, WIDTH), ["qkv"], weights=False, batch=4),
        elementwise("total", "a", ROWS, ["scores"]).model_copy(
            update={"type": "Sum", "kind": "reduction", "input_bytes": 100 * ROWS}
        ),
        elementwise("weights", "a", 4 * ROWS * ROWS, ["scores", "total"]),
        product("mixed", "a", (ROWS, WIDTH, ROWS), ["weights", "qkv"], weights=False, batch=4),
        product("out", "a", (ROWS, WIDTH, width), ["mixed"]),
        elementwise("next", "b", ROWS * WIDTH, ["out"]),
    ]
    found = sharding.of(description(*rows), 4)
    assert [each.row.name for each in found.exchanges] == ["out"]
    assert found.shared >= {"qkv", "scores", "total", "weights", "mixed", "out"}


@pytest.mark.parametrize(("kept", "state"), [({}, "partial"), ({"width": HIDDEN}, "split")])
def test_a_sum_is_partial_if_it_is_over_the_features(kept, state):
    total = elementwise("sum", "a", ROWS, ["up"]).model_copy(
        update={"type": "Sum", "kind": "reduction", "bounds": {"elements": ROWS * HIDDEN} | kept}
    )
    total = total.model_copy(update={"input_bytes": 4 * ROWS * HIDDEN})
    step = description(product("up", "a", (ROWS, HIDDEN, WIDTH), []), total, mode="infer")
    assert sharding.of(step, 2).states["sum"] == state


def test_a_recurrent_product_is_gathered_in_each_iteration():
    loop = product("l/body/cell", "a", (ROWS, WIDTH, WIDTH), ["l/body/tanh"], repeats=5).model_copy(
        update={"kind": "recurrent product"}
    )
    state = elementwise("l/body/tanh", "a", ROWS * WIDTH, ["l/body/cell"], repeats=5)
    (gathered,) = sharding.of(description(loop, state), 4).exchanges
    assert gathered.kind == "all-gather"


def test_a_loss_of_shared_logits_sends_three_numbers_for_each_row():
    loss = operation(
        **{"name": "loss", "type": "SparseSoftmaxCrossEntropyWithLogits", "layer": "loss"},
        **{"kind": "reduction", "bounds": {}, "macs": 0, "producers": ("logits",)},
    )
    step = description(product("logits", "logits", (ROWS, HIDDEN, WIDTH), ["x"]), loss)
    for times in (1, 4):
        (total,) = sharding.of(scaling.grown(step, times), 2).exchanges
        assert (total.kind, total.size_bytes) == ("all-reduce", 3 * 4 * ROWS * times)


def test_convolutions_exchange_borders_and_sum_all_their_gradients():
    forward = operation(kind="convolution", bounds=CONVOLUTION)
    gradient = operation(
        name="g", kind="convolution", bounds=CONVOLUTION, phase="weight gradient", weight_bytes=0
    )
    halo, total = sharding.of(description(forward, gradient), 4).exchanges
    assert (halo.kind, halo.size_bytes) == ("halo", 10**6 * 4 * 16 / 32**2)
    assert (total.kind, total.size_bytes, total.once) == ("all-reduce", 10**6, True)
    pointwise = operation(kind="convolution", bounds=CONVOLUTION | {"R": 1, "S": 1})
    found = sharding.of(description(pointwise), 4)
    assert (found.exchanges, found.shared) == ((), {pointwise.name})  # patches without borders


def test_tokens_go_to_the_experts_and_back():
    there, back = sharding.of(experts(4), 1).experts
    assert (there.kind, there.size_bytes) == ("all-to-all", 4 * UNIT)
    assert (back.row.name, back.size_bytes) == ("down", 4 * UNIT)


def test_directions_and_groups_of_channels_are_no_experts():
    matrices = ("MatMul", "BatchMatMulV2", "Einsum", "stablehlo.dot_general")
    others = ("LSTM", "Conv3D", "stablehlo.convolution")
    rows = [
        product("up", "a", (ROWS, HIDDEN, WIDTH), [], batch=2, type=op_type)
        for op_type in (*matrices, *others)
    ]
    assert tuple(row.type for row in rows if sharding.is_of_experts(row)) == matrices


def test_each_node_has_all_scores_of_a_router():
    inputs = dict.fromkeys(("macs", "flops", "weight_bytes"), 0) | {"bounds": {}}
    choice = operation(
        **{"name": "choice", "type": "TopKV2", "kind": "data movement", "producers": ("logits",)},
        **(inputs | {"input_bytes": 4 * ROWS * 4}),
    )
    rows = choice.model_copy(update={"name": "rows", "type": "GatherV2", "producers": ("choice",)})
    step = description(
        product("logits", "router", (ROWS, 4, WIDTH), []),
        *(choice, rows),
        product("up", "moe", (ROWS, HIDDEN, WIDTH), ["rows"], batch=4),
        product("down", "moe", (ROWS, WIDTH, HIDDEN), ["up"], batch=4),
        mode="infer",
    )
    found = sharding.of(step, 2)
    (gathered,) = found.exchanges
    assert (gathered.kind, gathered.size_bytes) == ("all-gather", 4 * ROWS * 4)
    assert (found.states["up"], found.states["down"]) == ("split", "partial")


@pytest.mark.parametrize(
    "plan",
    [
        Plan(data=3),
        Plan(tensor=3),
        Plan(pipeline=3),
        Plan(data=2, tensor=3, pipeline=2, microbatches=2, sharded=3),
        Plan(data=4, expert=2),
    ],
)
def test_the_ranks_have_all_multiply_accumulates_together(plan):
    step = (experts if plan.expert > 1 else blocks)(4)
    work = Work(step, plan)
    places = [plan.place(rank) for rank in range(plan.nodes)]
    shares = [work.share(stage, (data, tensor)) for data, tensor, stage in places]
    assert sum(row.macs for share in shares for row in share.operations) == step.macs


@pytest.mark.parametrize("name", ["gpt", "transformer", "llama"])
def test_a_transformer_is_summed_twice_a_layer_in_each_direction(name):
    model = descriptor(name).model(False)
    step = model.describe()
    layers = model.hyperparameters.layers
    large = max(each.size_bytes for each in sharding.of(step, 2).exchanges)
    found = kinds(each for each in sharding.of(step, 2).exchanges if each.size_bytes > large / 8)
    if name != "transformer":  # whose decoder reads the encoder's memory too
        crossing = step.batch_size * model.hyperparameters.context * model.hyperparameters.width
        assert Work(step, Plan(pipeline=2)).crossing_bytes == [4 * crossing]
    blocks_ = 5 * layers if name == "transformer" else 2 * layers  # a decoder's layer has three
    assert set(found) == {("all-reduce", "forward"), ("all-reduce", "input gradient")}
    assert 0 <= found["all-reduce", "forward"] - blocks_ <= 3  # and embeddings
    assert 0 <= found["all-reduce", "input gradient"] - blocks_ <= 3  # and logits
