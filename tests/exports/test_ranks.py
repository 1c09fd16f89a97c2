"""Each rank of many has its operations, messages and collectives, which fit those of the others."""

import json
from collections import Counter

import pytest

from fathom import FathomError, exports
from fathom.exports import ExportOptions
from fathom.exports.ranks import Ranks
from fathom.hardware.accelerators.plan import Plan
from fathom.testing.descriptors import descriptor
from tests.exports.test_chakra import nodes_of
from tests.hardware.accelerators.steps import (
    CONVOLUTION,
    HIDDEN,
    ROWS,
    UNIT,
    WIDTH,
    blocks,
    description,
    experts,
    operation,
    product,
)

PLAN = Plan(data=2, tensor=2, pipeline=2, microbatches=2)
LOAD, COMPUTE, SEND, RECEIVE, COLLECTIVE = 2, 4, 5, 6, 7


def attributes(node):
    found = {}
    for each in node["attr"]:
        (value,) = [value for key, value in each.items() if key != "name"]
        found[each["name"]] = value
    return found


def of_type(nodes, kind):
    return [attributes(node) | {"id": node["name"]} for node in nodes if node["type"] == kind]


@pytest.fixture(scope="module")
def traces():
    ranks = Ranks(blocks(4), PLAN)
    return [list(ranks.nodes(rank)) for rank in range(PLAN.nodes)]


def test_nodes_come_after_those_that_they_depend_on(traces):
    for nodes in traces:
        assert [node["id"] for node in nodes] == list(range(len(nodes)))
        for node in nodes:
            assert all(other < node["id"] for other in node["data_deps"] + node["ctrl_deps"])


def test_the_ranks_compute_the_step_together(traces):
    named = {row.name: row.macs for row in blocks(4).operations if row.macs}
    macs = Counter()
    for nodes in traces:
        for each in of_type(nodes, COMPUTE):
            if "gemm_m" in each:
                sizes = (each[f"gemm_{name}"] for name in ("m", "n", "k", "batch"))
                m, n, k, batch = sizes
                macs[each["id"].partition("@")[0]] += m * n * k * batch
    assert macs == named


def test_the_gradient_of_a_matrix_is_cut_as_the_matrix(traces):
    shapes = {
        each["id"]: tuple(each[f"gemm_{name}"] for name in "mnk")
        for each in of_type(traces[0], COMPUTE)
        if "dW@0" in each["id"]
    }
    examples = ROWS // (PLAN.data * PLAN.microbatches)
    assert shapes["up0/dW@0"] == (WIDTH, HIDDEN // 2, examples)
    assert shapes["down0/dW@0"] == (HIDDEN // 2, WIDTH, examples)


def test_each_message_that_is_sent_is_received(traces):
    ends = ("comm_src", "comm_dst", "comm_tag", "comm_size")
    sent, received = (
        Counter(
            tuple(each[key] for key in ends) for nodes in traces for each in of_type(nodes, kind)
        )
        for kind in (SEND, RECEIVE)
    )
    assert sent == received
    assert sum(sent.values()) == PLAN.data * PLAN.tensor * PLAN.microbatches * 2
    assert {size for *_, size in sent} == {UNIT // 4}


def test_the_members_of_a_group_call_the_same_collectives(traces):
    ranks = Ranks(blocks(4), PLAN)
    called = {}
    for rank, nodes in enumerate(traces):
        groups = ranks.groups(rank)
        for number, members in groups.items():
            assert rank in members
            keys = ("comm_type", "comm_size", "id")
            own = [
                tuple(each[key] for key in keys)
                for each in of_type(nodes, COLLECTIVE)
                if each["pg_name"] == number
            ]
            assert own
            assert called.setdefault(number, (members, own)) == (members, own)
    sums = [
        size for _, own in called.values() for _, size, name in own if name.startswith("all-re")
    ]
    assert 4 * WIDTH * HIDDEN * 2 in sums  # two blocks' gradients, of half of each matrix


def test_forward_and_backward_passes_take_turns(traces):
    last = [node["name"] for node in traces[-1] if node["name"].startswith(("up3@", "up3/dX@"))]
    assert last == ["up3@0", "up3/dX@0", "up3@1", "up3/dX@1"]
    first = [node["name"] for node in traces[0] if node["name"].startswith(("up0@", "up0/dX@"))]
    assert first == ["up0@0", "up0@1", "up0/dX@0", "up0/dX@1"]


def test_tokens_go_to_the_experts_and_back():
    nodes = list(Ranks(experts(4), Plan(data=4, expert=4)).nodes(1))
    there, back = of_type(nodes, COLLECTIVE)
    assert there["comm_type"] == back["comm_type"] == 6
    assert there["comm_size"] == back["comm_size"] == UNIT
    (product, _) = [each for each in of_type(nodes, COMPUTE) if "gemm_m" in each]
    assert product["gemm_k"] == WIDTH
    assert product["num_ops"] == 2 * ROWS * HIDDEN * WIDTH


def test_a_node_has_the_pixels_of_its_patch():
    sizes = CONVOLUTION | {"N": 8, "M": 64, "C": 3}
    rows = [
        operation(name=phase, kind="convolution", bounds=sizes, phase=phase)
        for phase in ("forward", "weight gradient", "input gradient")
    ]
    nodes = of_type(list(Ranks(description(*rows), Plan(tensor=2)).nodes(0)), COMPUTE)
    pixels, window = 8 * 32 * 32 // 2, 27
    assert [tuple(each[f"gemm_{name}"] for name in "mnk") for each in nodes[:3]] == [
        (pixels, 64, window),
        (64, window, pixels),
        (pixels, window, 64),
    ]


def test_a_rank_loads_the_rows_that_it_looks_up():
    rows = {"kind": "look-up", "type": "GatherV2", "bounds": {}, "macs": 0}
    step = description(operation(**rows), mode="infer")
    loads = of_type(list(Ranks(step, Plan(data=2, microbatches=2)).nodes(0)), LOAD)
    assert [each["tensor_size"] for each in loads] == [10**6 // 4] * 2


def test_an_all_gather_has_the_size_that_a_rank_gives():
    step = blocks(1).model_copy(update={"precision": "bfloat16"})
    (gathered,) = (
        each
        for each in of_type(list(Ranks(step, Plan(data=4, sharded=1)).nodes(0)), COLLECTIVE)
        if each["id"].startswith("all-gather")
    )
    assert gathered["comm_size"] == 2 * step.parameters // 4
    alone = description(product("a", "a", (ROWS, HIDDEN, WIDTH), [], weights=False), mode="infer")
    (gathered,) = of_type(list(Ranks(alone, Plan(tensor=4)).nodes(0)), COLLECTIVE)
    assert gathered["comm_size"] == 4 * ROWS * HIDDEN // 4


@pytest.mark.parametrize(("expert", "sizes"), [(4, []), (2, [2])])
def test_the_weights_of_experts_are_gathered_by_those_who_have_them(expert, sizes):
    step = experts(4).model_copy(update={"mode": "train"})
    ranks = Ranks(step, Plan(data=4, expert=expert, sharded=1))
    gathered = [
        each
        for each in of_type(list(ranks.nodes(1)), COLLECTIVE)
        if each["id"].startswith("all-gather")
    ]
    assert [each["comm_size"] for each in gathered] == [
        4 * step.parameters // 2 // n for n in sizes
    ]
    assert [ranks.groups(1)[each["pg_name"]] for each in gathered] == [[1, 3]] * len(sizes)


def test_a_trace_is_written_for_one_rank_or_all(tmp_path):
    model = descriptor("gpt").model(False)
    model.build()
    plan = Plan(tensor=2)
    exports.find("chakra").save(model, tmp_path, ExportOptions(parallelism=plan))
    assert {path.name for path in tmp_path.iterdir()} == {"trace.0.et", "trace.1.et", "groups.json"}
    assert json.loads((tmp_path / "groups.json").read_text()) == {"1": [0, 1]}
    nodes = nodes_of(tmp_path / "trace.1.et")
    assert len(nodes) > len([row for row in model.describe().operations if row.phase != "update"])
    one = tmp_path / "one"
    one.mkdir()
    exports.find("chakra").save(model, one, ExportOptions(parallelism=plan, rank=1))
    assert (one / "trace.1.et").read_bytes() == (tmp_path / "trace.1.et").read_bytes()
    assert not (one / "trace.0.et").exists()


def test_what_a_trace_cannot_hold_is_refused():
    with pytest.raises(FathomError, match="no recomputation"):
        Ranks(blocks(2), Plan(recompute=True))
    with pytest.raises(FathomError, match="cannot share 8 examples"):
        Ranks(blocks(2), Plan(16))
    with pytest.raises(FathomError, match="2 nodes of 8 parts cannot share 8 examples"):
        Ranks(blocks(2), Plan(2, microbatches=8))
