"""Nodes share a step by a plan, and wait for messages and for one another."""

import dataclasses

import pytest

from fathom import FathomError
from fathom.hardware.accelerators import machine, roofline, scaling
from fathom.hardware.accelerators.fusion import fused
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.rank import Work
from fathom.testing.descriptors import descriptor
from tests.hardware.accelerators import table_i
from tests.hardware.accelerators.steps import (
    CONVOLUTION,
    HIDDEN,
    MOVING,
    P100,
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

LINK = P100.links[0].model_copy(update={"latency": 0.0})
QUICK = P100.model_copy(update={"links": (LINK,)})


def test_data_parallel_nodes_reduce_the_gradients_in_a_ring():
    one, four = (scaling.scale(description(operation()), QUICK, Plan(n)) for n in (1, 4))
    assert one.communication_seconds == 0
    assert four.compute_seconds == one.seconds / 4
    assert four.communication_seconds == 2 * 3 / 4 * 4000 / LINK.bandwidth
    assert four.seconds == four.compute_seconds + four.communication_seconds
    hidden = scaling.scale(description(operation()), QUICK, Plan(4), overlap=1.0)
    assert hidden.seconds == hidden.compute_seconds
    inference = scaling.scale(description(operation(), mode="infer"), QUICK, Plan(4))
    assert inference.communication_seconds == 0


def test_each_node_reads_and_updates_all_weights():
    forward = operation(macs=0, kind="data movement", bounds={})
    gradient = operation(macs=0, kind="data movement", bounds={}, phase="weight gradient")
    update = operation(macs=0, kind="elementwise", bounds={}, phase="update")
    for row, moved in ((forward, 1.5e6), (gradient, 2.25e6), (update, 3e6)):
        step = scaling.scale(description(row), P100, Plan(4))
        assert step.compute_seconds == pytest.approx(moved / P100.bandwidth)
    sharded = scaling.scale(description(update), P100, Plan(4, sharded=1))
    assert sharded.compute_seconds == pytest.approx(0.75e6 / P100.bandwidth)


def test_a_node_holds_its_share_of_the_results_and_all_weights():
    batch = {"inputs": {"x": (8, 5), "y": (8,)}}  # of 192 bytes
    held = description(operation(result_bytes=4000), mode="infer", held_bytes=1000, **batch)
    steps = [scaling.scale(held, machine.load("h100"), Plan(n)) for n in (1, 4)]
    assert scaling.table(steps).memory_bytes.tolist() == [5000, 808 + (192 + 4000) // 4]


@pytest.mark.parametrize(
    ("plan", "share"),
    [
        (Plan(4), 12),
        (Plan(4, sharded=1), 4 + 8 / 4),
        (Plan(4, sharded=3), 12 / 4),
        (Plan(1, tensor=4), 12 / 4),
        (Plan(1, pipeline=4, microbatches=4), 12 / 4),
    ],
)
def test_a_node_holds_its_share_of_weights_and_state(plan, share):
    step = blocks(4)
    alone = step.model_copy(
        update={
            "operations": tuple(
                row.model_copy(update={"result_bytes": 0}) for row in step.operations
            )
        }
    )
    assert scaling.scale(alone, P100, plan).memory_bytes == share * step.parameters


@pytest.mark.parametrize(("sharded", "share"), [(0, 12 / 2), (1, 4 / 2 + 8 / 4), (3, 12 / 4)])
def test_all_nodes_of_data_share_the_states_of_experts(sharded, share):
    step = experts(4)
    alone = tuple(row.model_copy(update={"result_bytes": 0}) for row in step.operations)
    state = {"mode": "train", "held_bytes": 12 * step.parameters, "operations": alone}
    work = Work(step.model_copy(update=state), Plan(4, expert=2, sharded=sharded))
    assert work.memory_bytes(None) == share * step.parameters
    assert work.update_share(0) == 1 / (4 if sharded else 2)


def test_all_nodes_of_data_share_the_gradients_of_experts():
    step = experts(4)
    gradient = product("d up", "moe", (WIDTH, HIDDEN, ROWS), [], "weight gradient", batch=4)
    gradient = gradient.model_copy(update={"type": "RaggedMatMulGrad"})
    work = Work(description(*step.operations, gradient), Plan(4, expert=2, sharded=2))
    assert work.share(0).operations[-1].result_bytes == gradient.result_bytes / 4


@pytest.mark.parametrize("plan", [Plan(recompute=True), Plan(microbatches=2)])
def test_gradients_take_no_more_memory_than_the_weights(plan):
    step = blocks(2)
    part = elementwise("sum", "block0", WIDTH * HIDDEN, [], phase="weight gradient")
    summed = step.model_copy(update={"operations": (*step.operations, part)})
    assert Work(summed, plan).memory_bytes(None) == Work(step, plan).memory_bytes(None)


def test_activations_computed_again_are_not_held():
    plans = Plan(), Plan(recompute=True)
    step = scaling.grown(blocks(8), 16)
    kept, again = (scaling.scale(step, P100, plan) for plan in plans)
    assert again.memory_bytes < kept.memory_bytes
    assert again.compute_seconds > 1.2 * kept.compute_seconds
    assert again.rate < kept.rate


def test_tensor_parallel_nodes_sum_the_results_of_each_block():
    found = scaling.scale(blocks(3), QUICK, Plan(tensor=4))
    assert sum(found.transfers["tensor"].sent.values()) == pytest.approx(6 * 2 * 3 / 4 * UNIT)
    again = scaling.scale(blocks(3), QUICK, Plan(tensor=4, recompute=True))
    assert sum(again.transfers["tensor"].sent.values()) == pytest.approx(9 * 2 * 3 / 4 * UNIT)
    parts = scaling.scale(blocks(3), QUICK, Plan(2, tensor=4, microbatches=2))
    assert sum(parts.transfers["tensor"].sent.values()) == pytest.approx(6 * 2 * 3 / 4 * UNIT / 2)


def test_what_tensor_parallelism_leaves_whole_is_shared_along_the_sequence():
    plan = Plan(tensor=4)
    whole, shared = (
        scaling.scale(blocks(3), P100, each)
        for each in (plan, dataclasses.replace(plan, sequence=True))
    )
    assert shared.compute_seconds < whole.compute_seconds
    assert shared.transfers == whole.transfers


def test_a_pipeline_waits_and_sends_the_results_between_its_stages():
    plan = Plan(pipeline=4, microbatches=8)
    found = scaling.scale(blocks(8), QUICK, plan)
    working = found.seconds - found.bubble_seconds
    update = found.seconds - (1 + 3 / 8) * found.bubble_seconds / (3 / 8)
    assert found.bubble_seconds == pytest.approx((working - update) * 3 / 8)
    assert sum(found.transfers["pipeline"].sent.values()) == pytest.approx(2 * UNIT)
    twice = scaling.scale(blocks(8), QUICK, dataclasses.replace(plan, interleaved=2))
    assert sum(twice.transfers["pipeline"].sent.values()) == pytest.approx(4 * UNIT)
    assert twice.bubble_seconds < found.bubble_seconds
    with pytest.raises(FathomError, match="cannot be divided into 9 stages"):
        scaling.scale(blocks(8), P100, Plan(pipeline=9))
    with pytest.raises(FathomError, match="4 layers cannot be divided into 4 stages of 2 parts"):
        scaling.scale(blocks(4), P100, Plan(pipeline=4, interleaved=2))


def test_a_stage_of_inference_holds_the_results_of_one_part():
    rows = stages(4, 4).operations[:2]
    step = description(*rows, mode="infer", held_bytes=0)
    held = [Work(step, Plan(pipeline=2, microbatches=parts)).memory_bytes(None) for parts in (1, 2)]
    assert held[0] == 2 * held[1] > 0


def stages(*weights):
    """Returns a step of layers of equal work and these bytes of weights, without an exchange."""
    names = [f"layer{place}" for place in range(len(weights))]
    rows = [
        product(name, name, (ROWS, HIDDEN, WIDTH), [before]).model_copy(
            update={"weight_bytes": size}
        )
        for name, before, size in zip(names, ["x", *names], weights, strict=False)
    ]
    total = sum(weights)
    update = elementwise("update", "optimizer", total // 4, [], phase="update")
    return description(*rows, update, parameters=total // 4, held_bytes=3 * total)


def test_the_stage_with_most_weights_says_how_long_the_update_takes():
    first, last = (
        scaling.scale(stages(*weights), QUICK, Plan(pipeline=2, microbatches=2))
        for weights in ((4 * 10**6, 400), (400, 4 * 10**6))
    )
    assert first.compute_seconds == pytest.approx(last.compute_seconds)


def test_a_stage_in_the_middle_may_hold_the_most():
    held = [
        scaling.scale(stages(*weights), QUICK, Plan(pipeline=4, microbatches=4)).memory_bytes
        for weights in ((4, 4, 4, 4 * 10**6), (4, 4, 4 * 10**6, 4))
    ]
    assert held[1] >= held[0] > 3 * 4 * 10**6


def test_the_gradient_of_a_kernel_in_a_loop_is_summed_once():
    sums = {"kind": "convolution", "bounds": CONVOLUTION, "phase": "weight gradient"}
    once, loop = (
        scaling.scale(description(operation(**sums, **changes)), QUICK, Plan(tensor=2))
        for changes in ({}, {"repeats": 10, "output_bytes": 10**7})
    )
    assert loop.transfers["tensor"] == once.transfers["tensor"]


@pytest.mark.parametrize(("sharded", "volume"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_sharded_states_send_what_a_sum_does_and_sharded_weights_half_more(sharded, volume):
    step = blocks(2)
    found = scaling.scale(step, QUICK, Plan(4, sharded=sharded))
    total = sum(sum(each.sent.values()) for each in found.transfers.values())
    assert total == pytest.approx(volume * 3 / 4 * 4 * step.parameters)


def test_experts_receive_their_tokens_in_half_of_the_exchange_of_all():
    found = scaling.scale(experts(4), QUICK, Plan(4, expert=4))
    assert sum(found.transfers["expert"].sent.values()) == pytest.approx(2 * 3 / 4 * 4 * UNIT / 4)


def test_the_gradients_of_experts_are_summed_by_those_who_have_them():
    step = experts(4).model_copy(update={"mode": "train"})
    assert "gradients" not in scaling.scale(step, QUICK, Plan(4, expert=4)).transfers
    half = scaling.scale(step, QUICK, Plan(4, expert=2)).transfers["gradients"]
    assert sum(half.sent.values()) == pytest.approx(4 * step.parameters / 2)


def test_weights_are_read_for_each_part_of_the_batch():
    step = description(product("a", "a", (ROWS, HIDDEN, WIDTH), []), mode="infer")
    once, twice = (
        scaling.scale(step, P100, Plan(microbatches=parts)).seconds * P100.bandwidth
        for parts in (1, 2)
    )
    assert twice - once == pytest.approx(4 * WIDTH * HIDDEN)


def test_nodes_and_parts_of_the_batch_read_the_rows_that_they_look_up():
    rows = {"kind": "look-up", "type": "GatherV2", "bounds": {}, "macs": 0}
    step = description(operation(**rows, result_bytes=0), mode="infer")
    for plan, share in (
        (Plan(), 1),
        (Plan(4), 4),
        (Plan(2, tensor=2), 4),
        (Plan(microbatches=4), 1),
    ):
        found = scaling.scale(step, P100, plan)
        assert found.compute_seconds == pytest.approx(3e6 / share / P100.bandwidth)
    weak = scaling.scale(scaling.grown(step, 4), P100, Plan(4))
    assert weak.compute_seconds == pytest.approx(3e6 / P100.bandwidth)


def test_parts_of_the_batch_leave_the_weights_of_a_loop_on_the_chip():
    h100 = machine.load("h100")
    loop = {"name": "loop/body/a", "repeats": 100, "weight_bytes": 100 * 2**22}
    step = description(MOVING.model_copy(update=loop), mode="infer", batch_size=64)
    moved = [
        scaling.scale(step, h100, Plan(microbatches=parts)).compute_seconds * h100.bandwidth
        for parts in (1, 64)
    ]
    assert moved == pytest.approx([2e6 + 2**22, 2e6 + 64 * 2**22])


@pytest.mark.parametrize("weight_bytes", [400, 0])  # known of products, or not at all
def test_a_network_without_counted_parameters_holds_its_weights(weight_bytes):
    row = operation(result_bytes=4000, weight_bytes=weight_bytes)
    step = description(row, mode="infer", parameters=0, held_bytes=1000)
    assert [scaling.scale(step, P100, Plan(n)).memory_bytes for n in (1, 4)] == [5000, 2000]
    halved = scaling.scale(step, P100, Plan(tensor=2)).memory_bytes
    assert halved == 500 + 2000


def test_a_grown_step_has_more_examples_and_the_same_weights():
    step = blocks(2)
    grown = scaling.grown(step, 3)
    assert grown.macs == 3 * step.macs
    assert grown.batch_size == 24
    held = description(MOVING, batch_size=2, inputs={"x": (2, 3)}, held_bytes=1000)
    assert scaling.grown(held, 3).inputs == {"x": (6, 3)}
    assert scaling.grown(held, 3).held_bytes == 1048
    weights = [sum(r.weight_bytes for r in each.operations) for each in (step, grown)]
    assert weights[0] == weights[1]
    weak = [scaling.scale(scaling.grown(step, n), QUICK, Plan(n)) for n in (1, 4)]
    assert weak[0].compute_seconds == pytest.approx(weak[1].compute_seconds)
    ratio = weak[0].seconds / weak[1].seconds
    assert scaling.table(weak).efficiency.tolist() == pytest.approx([1, ratio])


def test_a_step_that_only_moves_data_has_an_efficiency():
    step = description(MOVING.model_copy(update={"weight_bytes": 0}), parameters=0)
    table = scaling.table([scaling.scale(step, P100, Plan(n)) for n in (1, 2)])
    assert table.efficiency.tolist() == [1, 1]


def test_a_waiting_node_draws_less_power():
    waiting = P100.model_copy(update={"idle_share": 0.5})
    step = scaling.scaled(waiting, 1e12, 1.0, 1.0, 2)
    assert step.power_w == 2 * 300 * 0.75
    assert step.operations_per_watt == 1e12 / 2 / step.power_w
    assert step.rate_per_mm2 == 1e12 / 2 / (2 * 610)


def test_impossible_nodes_and_machines_without_a_link_are_refused():
    with pytest.raises(FathomError, match="9 nodes cannot share 8 examples"):
        scaling.scale(description(operation()), P100, Plan(9))
    with pytest.raises(FathomError, match="4 nodes of 4 parts cannot share 8 examples"):
        scaling.scale(description(operation()), P100, Plan(4, microbatches=4))
    with pytest.raises(FathomError, match="K20M has no links"):
        scaling.scale(description(operation()), machine.load("k20m"), Plan(2))
    inference = description(operation(), mode="infer")
    for plan, name in ((Plan(recompute=True), "recompute"), (Plan(2, sharded=2), "sharded=2")):
        with pytest.raises(FathomError, match=f"{name} is of training: omit it"):
            scaling.scale(inference, P100, plan)
    with pytest.raises(FathomError, match="w has no experts: omit expert=N"):
        scaling.scale(description(operation()), P100, Plan(2, expert=2))
    ragged = {"type": "RaggedMatMul", "weight_bytes": 4 * 12 * 4}  # four matrices of 3 x 4
    for routed in (product("e/p", "e", (2, 3, 4), (), batch=4), operation(**ragged)):
        assert Work(description(routed), Plan(4, expert=4))
        with pytest.raises(FathomError, match="8 nodes cannot share 4 experts"):
            Work(description(routed), Plan(8, expert=8))


def test_the_node_with_the_most_examples_says_how_long_a_step_takes():
    step = blocks(4)  # of 8 examples, of which one node has 3
    work = Work(step, Plan(data=3))
    forward = sum(row.macs for row in work.share(0).operations)
    assert forward == step.macs * 3 // 8
    plans = Plan(2, pipeline=2), Plan(3, pipeline=2)
    sent = [scaling.scale(step, QUICK, plan).transfers["pipeline"].sent for plan in plans]
    assert sum(sent[1].values()) == pytest.approx(sum(sent[0].values()) * 3 / 4)


@pytest.mark.parametrize("fusion", [None, "elementwise", "attention"])
def test_one_node_holds_what_the_roofline_says(fusion):
    step = descriptor("ngp").model(False).describe()
    whole = fused(step, fusion) if fusion else step
    assert Work(step, Plan(), fusion).memory_bytes(None) == roofline.memory_bytes(whole)


def test_the_ratios_of_table_i_are_within_fifteen_percent():
    table = table_i.table().set_index(["device", "nodes"])
    assert (table.rate / table["published rate"]).tolist() == pytest.approx([1] * 6, rel=0.15)
    fpga, gpu = table.loc["FPGA"].efficiency, table.loc["GPU"].efficiency
    assert (fpga / gpu).tolist() == pytest.approx([5.5, 9.9, 15.1], rel=0.15)
    retained = table.rate / table.rate.groupby("device").transform("first")
    assert retained.loc["GPU"].tolist()[1:] == pytest.approx([0.5, 0.25], rel=0.15)
    assert retained.loc["FPGA"].tolist()[1:] == pytest.approx([0.975, 0.975], rel=0.15)
