"""The work of ONNX networks, against counts by hand; nothing else may come of damaged files."""

import random

import numpy as np
import pytest

from fathom import FathomError
from fathom.hardware import networks
from fathom.hardware.accelerators import sharding

onnx = pytest.importorskip("onnx")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def weight(name, *shape, dtype=np.float32):
    return onnx.numpy_helper.from_array(np.zeros(shape, dtype), name)


def integers(name, *values):
    return onnx.numpy_helper.from_array(np.array(values, np.int64), name)


@pytest.fixture
def described(tmp_path):
    def describe(nodes, inputs, weights=(), opset=22, functions=(), **dimensions):
        values = [helper.make_tensor_value_info(name, FLOAT, s) for name, s in inputs.items()]
        last = nodes[-1].output[0]
        graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name=last)], weights)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        model = helper.make_model(graph, opset_imports=opsets, functions=functions)
        file = tmp_path / "net.onnx"
        file.write_bytes(model.SerializeToString())
        return networks.read(file, dimensions)

    return describe


def node(kind, inputs, output="y", **attributes):
    return helper.make_node(kind, inputs.split(","), [output], name=f"part/{kind}", **attributes)


PRODUCTS = {
    "grouped": (
        node("Conv", "x,w", group=2, dilations=[2, 2], pads=[2, 2, 2, 2], strides=[2, 1]),
        {"x": (3, 4, 9, 8)},
        {"w": (6, 2, 3, 3)},
        3 * 6 * (5 * 8) * 2 * 9,
    ),
    "one axis": (node("Conv", "x,w"), {"x": (1, 2, 10)}, {"w": (5, 2, 3)}, 5 * 8 * 2 * 3),
    "volume": (
        node("Conv", "x,w"),
        {"x": (1, 2, 4, 5, 6)},
        {"w": (3, 2, 2, 2, 2)},
        3 * (3 * 4 * 5) * 2 * 8,
    ),
    "same": (
        node("Conv", "x,w", auto_pad="SAME_UPPER", strides=[2, 2]),
        {"x": (1, 1, 7, 7)},
        {"w": (1, 1, 3, 3)},
        4 * 4 * 9,
    ),
    "transposed": (
        node("ConvTranspose", "x,w", strides=[2, 2], group=2),
        {"x": (2, 4, 5, 5)},
        {"w": (4, 3, 2, 2)},
        2 * 4 * 25 * 3 * 4,
    ),
    "gemm": (node("Gemm", "x,w", transA=1, transB=1), {"x": (7, 3)}, {"w": (5, 7)}, 3 * 7 * 5),
    "gemm plain": (node("Gemm", "x,w"), {"x": (3, 7)}, {"w": (7, 5)}, 3 * 7 * 5),
    "dense": (node("MatMul", "x,w"), {"x": (2, 3, 7)}, {"w": (7, 5)}, 2 * 3 * 7 * 5),
    "batch": (node("MatMul", "x,z"), {"x": (2, 1, 3, 7), "z": (4, 7, 5)}, {}, 2 * 4 * 3 * 7 * 5),
    "vector": (node("MatMul", "x,w"), {"x": (3, 7)}, {"w": (7,)}, 21),
    "einsum": (
        node("Einsum", "x,z", equation="b...ij,bjk->b...ik"),
        {"x": (2, 4, 3, 7), "z": (2, 7, 5)},
        {},
        2 * 4 * 3 * 7 * 5,
    ),
    "lstm": (
        node("LSTM", "x,w,r", hidden_size=6, direction="bidirectional"),
        {"x": (10, 2, 3)},
        {"w": (2, 24, 3), "r": (2, 24, 6)},
        2 * 10 * 2 * 24 * (3 + 6),
    ),
    "gru": (
        node("GRU", "x,w,r", hidden_size=6, layout=0),
        {"x": (10, 2, 3)},
        {"w": (1, 18, 3), "r": (1, 18, 6)},
        10 * 2 * 18 * (3 + 6),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_multiply_accumulates_are_counted_by_hand(described, name):
    product, inputs, weights, macs = PRODUCTS[name]
    found = described([product], inputs, [weight(name, *s) for name, s in weights.items()])
    assert found.macs == macs
    assert found.operations[0].layer == "part"
    assert found.parameters == sum(int(np.prod(shape)) for shape in weights.values())
    assert sum(row.weight_bytes // row.repeats for row in found.operations) == 4 * found.parameters


def test_the_bounds_of_a_convolution_have_its_window(described):
    product, inputs, weights, _ = PRODUCTS["same"]
    (row,) = described([product], inputs, [weight("w", *weights["w"])]).operations
    sides = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    assert [row.bounds[side] for side in sides] == [1, 1, 1, 1]
    assert (row.bounds["P"], row.bounds["stride_h"], row.bounds["groups"]) == (4, 2, 1)


def test_a_recurrence_repeats_its_product_and_reads_its_weights_again(described):
    product, inputs, weights, _ = PRODUCTS["lstm"]
    rows = described([product], inputs, [weight(n, *s) for n, s in weights.items()]).operations
    assert [row.kind for row in rows] == ["matrix product", "recurrent product", "elementwise"]
    assert [row.repeats for row in rows] == [1, 10, 10]
    assert rows[1].weight_bytes == 10 * 4 * 2 * 24 * 6
    assert rows[1].producers == (rows[2].name,)
    assert rows[2].producers == (rows[0].name, rows[1].name)
    assert rows[1].result_bytes == 4 * 2 * 2 * 24  # of an iteration; the states are kept
    assert rows[2].result_bytes == 10 * 4 * 2 * 2 * 6


@pytest.mark.parametrize(
    ("kind", "gates", "states", "weights"),
    [("LSTM", 4, 1, "b,,h,c,p"), ("GRU", 3, 1, "b,,h"), ("RNN", 1, 0, "b,,h")],
)
def test_the_gates_of_a_recurrence_read_biases_and_the_state(
    described, kind, gates, states, weights
):
    starts = [node("Relu", "x0", "h"), node("Tanh", "x0", "c")]
    recurrence = node(kind, f"x,w,r,{weights}", hidden_size=6)
    given = [("w", 6 * gates, 3), ("r", 6 * gates, 6), ("b", 12 * gates), ("p", 18)]
    given = [weight(name, 1, *shape) for name, *shape in given if name != "p" or kind == "LSTM"]
    inputs = {"x": (10, 2, 3), "x0": (1, 2, 6)}
    found = described([*starts, recurrence], inputs, given)
    *starts, first, state, last = found.operations
    assert state.producers == (starts[0].name, last.name)
    of_cell = [starts[1].name] if kind == "LSTM" else [starts[0].name] * states
    assert last.producers == (*of_cell, first.name, state.name)
    assert last.input_bytes == 10 * 4 * 2 * 6 * (2 * gates + states)
    assert sum(row.weight_bytes // row.repeats for row in found.operations) == 4 * found.parameters


def test_nodes_that_share_a_recurrence_gather_its_product_alone(described):
    product, inputs, weights, _ = PRODUCTS["gru"]
    found = described([product], inputs, [weight(n, *s) for n, s in weights.items()])
    (gathered,) = sharding.of(found, 2).exchanges
    assert (gathered.kind, gathered.row) == ("all-gather", found.operations[1])


def test_attention_counts_past_and_grouped_heads(described):
    attention = node("Attention", "q,k,v,,past_k,past_v", q_num_heads=4, kv_num_heads=2)
    inputs = {"q": (2, 3, 32), "k": (2, 3, 16), "v": (2, 3, 16)}
    inputs |= {"past_k": (2, 2, 5, 8), "past_v": (2, 2, 5, 8)}
    attention.output.extend(["present_k", "present_v"])
    found = described([attention], inputs, opset=23)
    assert found.macs == 2 * (2 * 4) * 3 * 8 * 8


def test_a_look_up_reads_the_rows_that_it_returns(described):
    table, at = weight("table", 1000, 16), integers("at", *range(5))
    lookup = node("Gather", "table,i", "rows")
    cast = node("Cast", "x", "i", to=INT64)
    rows = described([cast, lookup, node("Relu", "rows")], {"x": (2, 3)}, [table, at]).operations
    assert rows[1].kind == "look-up"
    assert rows[1].bounds == {"indices": 6, "width": 16}
    assert (rows[1].weight_bytes, rows[1].input_bytes) == (6 * 16 * 4, 6 * 8)


def test_shapes_that_follow_from_sizes_are_computed(described):
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s,zero", "b"),
        node("Mul", "b,two", "b2"),
        node("Concat", "b2,rest", "to", axis=0),
        node("Reshape", "x,to", "r"),
        node("MatMul", "r,w"),
    ]
    weights = [integers("zero", 0), integers("two", 2), integers("rest", -1), weight("w", 6, 5)]
    found = described(nodes, {"x": ("n", 12)}, weights, n=4)
    assert [(row.type, row.bounds) for row in found.operations] == [
        ("MatMul", {"batch": 1, "M": 8, "N": 5, "K": 6})
    ]
    assert found.batch_size == 4


def test_what_depends_on_weights_alone_is_left_out(described):
    nodes = [node("Transpose", "w", "t"), node("MatMul", "x,t")]
    (row,) = described(nodes, {"x": (3, 7)}, [weight("w", 5, 7)]).operations
    assert row.weight_bytes == 4 * 35


def test_open_sizes_are_asked_for_by_name(described):
    relu = [node("Relu", "x")]
    with pytest.raises(FathomError, match=r"give --dim n=N --dim x\.1=N$"):
        described(relu, {"x": ("n", None, 3)})
    assert described(relu, {"x": ("n", None, 3)}, n=2, **{"x.1": 4}).inputs == {"x": (2, 4, 3)}
    assert described(relu, {"x": ("n", 3)}, batch=2).inputs == {"x": (2, 3)}
    with pytest.raises(FathomError, match="--dim m has no effect; the open sizes are: n"):
        described(relu, {"x": ("n", 3)}, n=2, m=3)


def test_an_axis_may_be_empty(described):
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["all"], axis=1),
        node("MatMul", "all,w"),
    ]
    sizes = {"past": ("n", "t", 3), "x": ("n", 4, 3)}
    found = described(nodes, sizes, [weight("w", 3, 5)], n=2, t=0)
    assert (found.macs, found.batch_size, found.inputs) == (2 * 4 * 3 * 5, 2, {"x": (2, 4, 3)})
    assert found == described(nodes, sizes | {"past": ("n", 0, 3)}, [weight("w", 3, 5)], n=2)


def test_sizes_that_an_operation_does_not_allow_are_refused(described):
    add, fixed = [node("Add", "x,w")], weight("w", 3, 7)
    with pytest.raises(FathomError, match=r"net\.onnx does not allow these sizes: .*Incompatible"):
        described(add, {"x": ("n", 7)}, [fixed], n=2)
    with pytest.raises(FathomError, match=r"net\.onnx is damaged"):
        described(add, {"x": (2, 7)}, [fixed])


def test_a_sparse_weight_is_refused_by_name(described, tmp_path):
    described([node("MatMul", "x,w")], {"x": (3, 7)}, [weight("w", 7, 5)])
    file = tmp_path / "net.onnx"
    model = onnx.load(file)
    model.graph.ClearField("initializer")
    model.graph.sparse_initializer.add(values=weight("w", 2), dims=[7, 5])
    onnx.save(model, file)
    with pytest.raises(FathomError, match="the weight w is sparse"):
        networks.read(file, {})


def test_a_batch_fills_no_other_axis_where_one_is_named_so(described):
    relu, sizes = [node("Relu", "x")], ("sequence", "batch", 3)
    with pytest.raises(FathomError, match=r"give --dim sequence=N$"):
        described(relu, {"x": sizes}, batch=8)
    found = described(relu, {"x": sizes}, batch=8, sequence=5)
    assert found.inputs == {"x": (5, 8, 3)}
    unnamed = {"x": (None, 3), "y": ("batch", 3)}
    assert described(relu, unnamed, batch=8).inputs == {"x": (8, 3), "y": (8, 3)}


def test_a_shape_that_depends_on_the_data_is_refused_by_name(described):
    with pytest.raises(FathomError, match="part/NonZero's result, of NonZero, depends on the data"):
        described([node("NonZero", "x", "i"), node("Abs", "i")], {"x": (3, 3)})


def test_operations_without_a_rule_are_listed_with_their_bytes(described, capsys):
    unknown = helper.make_node("Det", ["x"], ["y"], name="det")
    found = described([unknown, node("Exp", "y", "z")], {"x": (3, 3)})
    assert found.without_rule == ("Det",)
    assert found.share_without_rule("Det") == pytest.approx(40 / 48)
    assert found.operations[0].flops == 0


def test_an_operation_of_another_domain_needs_a_shape_in_the_file(described):
    custom = helper.make_node("Own", ["x"], ["y"], domain="own")
    with pytest.raises(FathomError, match="Own#1's result, of Own"):
        described([custom, node("Exp", "y", "z")], {"x": (3, 3)})


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_the_quantized_sums_and_products_of_onnx_runtime_have_a_rule(described, kind):
    quantized = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
    scales = ["s", "z"]
    inputs = ["q", *scales, "b", *scales, *scales]
    added = helper.make_node(kind, inputs, ["y"], name="added", domain="com.microsoft")
    given = [weight("s"), weight("z", dtype=np.uint8), weight("b", 4, 1, 5, dtype=np.uint8)]
    found = described([quantized, added], {"x": (2, 1, 3, 5)}, given)
    row = found.operations[1]
    assert (row.kind, row.dtype, row.flops) == ("elementwise", "uint8", 2 * 4 * 3 * 5)
    assert found.without_rule == ()


def test_functions_of_the_network_are_followed(described):
    inner = helper.make_node("Gemm", ["a", "b"], ["c"])
    inner.attribute.append(onnx.AttributeProto(name="transB", ref_attr_name="t", type=2))
    function = helper.make_function(
        "own", "Dense", ["a", "b"], ["c"], [inner], [helper.make_opsetid("", 22)], ["t"]
    )
    call = helper.make_node("Dense", ["x", "w"], ["y"], name="call", domain="own", t=1)
    found = described([call], {"x": (3, 7)}, [weight("w", 5, 7)], functions=[function])
    assert found.macs == 3 * 7 * 5
    assert found.operations[0].name == "call/Gemm#2"


def test_a_call_names_the_overload_of_its_function(described):
    one, two = (helper.make_node("MatMul", [each, "b"], ["c"]) for each in ("a", "t"))
    first = helper.make_node("MatMul", ["a", "b"], ["t"])
    functions = [
        helper.make_function(
            "own", "F", ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 22)], overload=overload
        )
        for overload, nodes in (("", [one]), ("twice", [first, two]))
    ]
    calls = [
        helper.make_node("F", [x, "w"], [y], domain="own", overload=overload)
        for x, y, overload in (("x", "h", ""), ("h", "y", "twice"))
    ]
    found = described(calls, {"x": (4, 3)}, [weight("w", 3, 3)], functions=functions)
    assert found.macs == (1 + 2) * 4 * 3 * 3


def body_of_loop(*weights):
    """Returns a body that multiplies its state by w, which is one of the weights or outside."""
    return helper.make_graph(
        [node("Identity", "go", "on"), node("MatMul", "s,w", "t")],
        "body",
        [helper.make_tensor_value_info(n, k, s) for n, k, s in (("i", INT64, ()), ("go", 9, ()))]
        + [helper.make_tensor_value_info("s", FLOAT, (3, 5))],
        [onnx.ValueInfoProto(name="on"), onnx.ValueInfoProto(name="t")],
        weights,
    )


def test_the_weights_of_a_body_are_parameters_and_held(described):
    loops = [
        node("Loop", f"times,,{given}", result, body=body_of_loop(weight("w", 5, 5)))
        for given, result in (("x", "y"), ("y", "z"))
    ]
    times = integers("times", 7)
    found = described([*loops, node("Identity", "z", "end")], {"x": (3, 5)}, [times])
    assert found.parameters == 2 * 25
    assert found.held_bytes == 2 * 4 * 25 + 8 + 4 * 15


@pytest.mark.parametrize(("condition", "macs"), [(True, 3 * 5 * 5), (False, 3 * 5 * 4)])
def test_the_weights_of_both_branches_are_parameters_and_held(described, condition, macs):
    end, yes = [onnx.ValueInfoProto(name="t")], [weight("w", 5, 5)]
    one = helper.make_graph([node("MatMul", "x,w", "t")], "one", [], end, yes)
    inner = helper.make_graph([node("Relu", "x", "t")], "inner", [], end, [weight("v", 3)])
    nodes = [node("MatMul", "x,w", "p"), node("If", "no", "t", then_branch=one, else_branch=inner)]
    two = helper.make_graph(nodes, "two", [], end, [weight("w", 5, 4)])
    branches = node("If", "is", then_branch=one, else_branch=two)
    constants = [
        onnx.numpy_helper.from_array(np.array(value), name)
        for name, value in (("is", condition), ("no", False))
    ]
    nodes = [branches, node("Identity", "y", "end")]
    found = described(nodes, {"x": (3, 5)}, constants)
    assert found.macs == macs
    assert found.parameters == 25 + 20 + 25 + 3
    assert found.held_bytes == 4 * found.parameters + 2 + 4 * 15


def test_statistics_of_normalizations_are_no_parameters_in_bodies_either(described):
    names = ["scale", "shift", "mean", "variance"]
    norm = helper.make_node("BatchNormalization", ["a", *names], ["c"])
    function = helper.make_function(
        "own", "Norm", ["a", *names], ["c"], [norm], [helper.make_opsetid("", 22)]
    )
    body = body_of_loop()
    body.node[1].CopyFrom(helper.make_node("BatchNormalization", ["s", *names], ["t"]))
    body.initializer.extend([weight("mean", 5), weight("variance", 5)])
    nodes = [
        helper.make_node("Norm", ["x", "scale", "shift", "m", "v"], ["n"], domain="own"),
        node("Loop", "times,,n", "y", body=body),
    ]
    weights = [integers("times", 2), *(weight(name, 5) for name in ("scale", "shift", "m", "v"))]
    found = described(nodes, {"x": (3, 5)}, weights, functions=[function])
    assert found.parameters == 2 * 5
    assert found.held_bytes == 6 * 4 * 5 + 8 + 4 * 15


def test_a_loop_whose_condition_is_false_at_first_never_runs(described):
    no = onnx.numpy_helper.from_array(np.array(False), "no")
    loop = node("Loop", "times,no,x", body=body_of_loop())
    weights = [integers("times", 7), no, weight("w", 5, 5)]
    (row,) = described([loop, node("Relu", "y", "z")], {"x": (3, 5)}, weights).operations
    assert row.type == "Relu"


def test_the_body_of_a_loop_counts_as_often_as_it_runs(described):
    loop = node("Loop", "times,,x", body=body_of_loop())
    weights = [integers("times", 7), weight("w", 5, 5)]
    (row,) = described([loop, node("Identity", "y", "z")], {"x": (3, 5)}, weights).operations
    assert (row.kind, row.repeats, row.macs) == ("recurrent product", 7, 7 * 3 * 5 * 5)
    weights[0] = integers("other", 7)
    with pytest.raises(FathomError, match="iterations of part/Loop is not known"):
        described([node("Cast", "n", "times", to=INT64), loop], {"x": (3, 5), "n": ()}, weights)


def scan_of_states(*weights):
    """Returns a scan of rows of xs from the state x; it stacks each state before its update."""
    work = [node("MatMul", "s,w", "p"), node("Add", "p,row", "a"), node("Tanh", "a", "t")]
    given = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("s", (3, 5)), ("row", (5,)))]
    ends = [onnx.ValueInfoProto(name=name) for name in ("t", "old")]
    body = helper.make_graph([*work, node("Identity", "s", "old")], "body", given, ends, weights)
    scan = node("Scan", "x,xs", body=body, num_scan_inputs=1)
    scan.output.append("stack")
    return scan


def test_a_scan_reads_the_state_of_the_iteration_before(described):
    inputs = {"z": (3, 5), "xs": (7, 5)}
    nodes = [node("Relu", "z", "x"), scan_of_states(weight("w", 5, 5)), node("Neg", "stack", "end")]
    found = described(nodes, inputs)
    start, product, _, state, end = found.operations
    assert product.producers == (start.name, state.name)
    assert end.producers == (start.name, state.name)
    (gathered,) = sharding.of(found, 2).exchanges
    assert (gathered.kind, gathered.row, gathered.size_bytes) == ("all-gather", product, 7 * 60)
    once = described(nodes, inputs | {"xs": (1, 5)}).operations
    assert once[1].producers == once[4].producers == (start.name,)


def test_what_a_loop_stacks_is_held_of_all_iterations(described):
    scan = scan_of_states(weight("w", 5, 5))
    nodes = [scan, node("Transpose", "stack", "end", perm=[1, 0, 2])]
    found = described(nodes, {"x": (3, 5), "xs": (7, 5)})
    assert [row.result_bytes for row in found.operations] == [60, 60, 7 * 60, 7 * 60]
    body = body_of_loop()
    body.output.append(onnx.ValueInfoProto(name="all"))
    body.node[1].CopyFrom(helper.make_node("Identity", ["s"], ["t"]))
    body.node.append(scan_of_states())
    body.node[-1].input[0], body.node[-1].output[1] = "s", "all"
    loop = node("Loop", "times,,x", "z", body=body)
    loop.output.append("all")
    weights = [integers("times", 2), weight("w", 5, 5)]
    found = described([loop, node("Neg", "all", "end")], {"x": (3, 5), "xs": (7, 5)}, weights)
    assert [row.result_bytes for row in found.operations][2:] == [2 * 7 * 60] * 2


def test_a_loop_reads_what_it_passes_on_round_another_loop(described):
    inner = node("Loop", "times,,s", "t", body=body_of_loop())
    outer = body_of_loop()
    outer.node[1].CopyFrom(inner)
    weights = [integers("times", 7), weight("w", 5, 5)]
    loop = node("Loop", "times,,x", body=outer)
    (row,) = described([loop, node("Identity", "y", "z")], {"x": (3, 5)}, weights).operations
    assert (row.repeats, row.producers) == (49, (row.name,))


def test_a_loop_or_scan_that_never_runs_hands_on_what_it_was_given(described):
    ends = [onnx.ValueInfoProto(name=name) for name in ("on", "t", "each")]
    work = [node("MatMul", "s,w", "t"), node("Relu", "t", "each")]
    given = [helper.make_tensor_value_info("s", FLOAT, (3, 5))]
    body = [helper.make_tensor_value_info(n, k, ()) for n, k in (("i", INT64), ("go", 9))]
    body = helper.make_graph([node("Identity", "go", "on"), *work], "body", body + given, ends)
    loop = node("Loop", "times,,x", body=body)
    loop.output.append("stack")
    weights = [integers("times", 0), weight("w", 5, 5)]
    nodes = [loop, node("Concat", "stack,z", "all", axis=0), node("Add", "y,all", "sum")]
    inputs = {"x": (3, 5), "z": (1, 3, 5)}
    assert [row.type for row in described(nodes, inputs, weights).operations] == ["Concat", "Add"]
    row = helper.make_tensor_value_info("row", FLOAT, (5,))
    body = helper.make_graph([*work, node("Neg", "row", "made")], "body", [*given, row], ends[1:])
    scan = node("Scan", "x,none", body=body, num_scan_inputs=1)
    scan.output.append("stack")
    nodes = [scan, node("Concat", "stack,z", "all", axis=0), node("Add", "y,all", "sum")]
    weights = [weight("none", 0, 5), weight("w", 5, 5)]
    assert [row.type for row in described(nodes, inputs, weights).operations] == ["Concat", "Add"]


@pytest.mark.parametrize(
    ("product", "kernel"),
    [
        (node("MatMul", "x,w", "p"), (4, 0)),
        (node("Gemm", "n,w", "p"), (0, 4)),
        (node("Conv", "image,w", "p"), (0, 2, 3, 3)),
        (node("LSTM", "steps,w,r", "p", hidden_size=2), (1, 8, 3)),
    ],
)
def test_a_product_without_elements_is_left_out(described, product, kernel):
    part = integers("none", 0)
    nodes = [node("Slice", "x,none,none,one", "n"), node("Slice", "s,none,none,none", "steps")]
    weights = [part, integers("one", 1), weight("w", *kernel), weight("r", 1, 8, 2)]
    inputs = {"x": (3, 4), "image": (1, 2, 5, 5), "s": (1, 2, 3)}
    found = described([*nodes, product, node("Relu", "x")], inputs, weights)
    assert [row.type for row in found.operations if row.type != "Slice"] == ["Relu"]


def test_weights_in_constant_nodes_are_parameters_once(described):
    constant = node("Constant", "", "w", value=weight("", 5, 5))
    other = node("Constant", "", "shift", value=weight("", 5))
    del constant.input[:], other.input[:]
    products = [node("Transpose", "w", "t"), node("MatMul", "x,t", "a"), node("MatMul", "a,w", "b")]
    found = described([constant, other, *products, node("Add", "b,shift")], {"x": (3, 5)})
    assert found.parameters == 25
    assert found.held_bytes == 4 * (25 + 15)


def test_weights_in_another_file_are_not_read(described):
    outside = weight("w", 7, 5)
    outside.ClearField("raw_data")
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../../missing")
    assert described([node("MatMul", "x,w")], {"x": (3, 7)}, [outside]).macs == 105


def test_a_constant_of_any_size_takes_no_memory(described):
    nodes = [
        node("ConstantOfShape", "size", "huge"),
        node("ReduceSum", "huge", "sum"),
        node("Add", "x,sum"),
    ]
    found = described(nodes, {"x": (3,)}, [integers("size", 2**20, 2**20)])
    assert [row.type for row in found.operations] == ["Add"]


def test_a_damaged_file_gives_one_line_and_no_other_error(described, tmp_path):
    nodes = [node("Conv", "x,w", "a"), node("Reshape", "a,to", "b"), node("MatMul", "b,v")]
    weights = [weight("w", 6, 2, 3, 3), integers("to", 1, -1), weight("v", 6 * 64, 5)]
    described(nodes, {"x": (1, 2, 10, 10)}, weights)
    file = tmp_path / "net.onnx"
    whole, chance = file.read_bytes(), random.Random(1)
    small = whole.replace(bytes(4 * 6 * 64 * 5), b"")
    refusals = []
    for turn in range(300):
        damaged = bytearray(whole if turn % 2 else small)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(min(len(damaged), 900))] = chance.randrange(256)
        if turn % 3 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        file.write_bytes(damaged)
        try:
            networks.read(file, {})
        except FathomError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert not any("\n" in each for each in refusals)
