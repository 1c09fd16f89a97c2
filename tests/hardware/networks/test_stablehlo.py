"""The work of StableHLO's text, as JAX prints it; damaged text gives one line."""

import random

import pytest

from fathom import FathomError
from fathom.hardware import networks
from fathom.hardware.accelerators import sharding
from fathom.hardware.networks import mlir

PRODUCTS = """
#loc1 = loc("x")
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x9x9x8xf32> loc("x"), %arg1: tensor<3x3x4x6xf32> loc("a"), %arg2: tensor<6x10xbf16>) -> (tensor<4x10xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc22)
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 2]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<4x9x9x8xf32>, tensor<3x3x4x6xf32>) -> tensor<4x5x3x6xf32> loc(#loc23)
    %1 = call @relu(%0) : (tensor<4x5x3x6xf32>) -> tensor<4x5x3x6xf32> loc(#loc24)
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x5x3x6xf32>, tensor<f32>) -> tensor<4x6xf32> loc(#loc22)
    %unused = stablehlo.exponential %2 : tensor<4x6xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x6xf32>, tensor<6x10xbf16>) -> tensor<4x10xf32> loc(#loc25)
    return %3 : tensor<4x10xf32> loc(#loc21)
  } loc(#loc)
  func.func private @relu(%arg0: tensor<4x5x3x6xf32> loc(unknown)) -> tensor<4x5x3x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc)
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x5x3x6xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x5x3x6xf32> loc(#loc10)
    return %1 : tensor<4x5x3x6xf32> loc(#loc)
  } loc(#loc16)
} loc(#loc)
#loc23 = loc("jit(f)/stem/conv_general_dilated"(#loc18))
"""  # noqa: E501

LOOP = """
module @jit_g {
  func.func public @main(%arg0: tensor<3x5xf32>, %arg1: tensor<5x5xf32>) -> tensor<3x5xf32> {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %c_0 = stablehlo.constant dense<15> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %arg1, %iterArg_2 = %c_1, %iterArg_3 = %arg0) : tensor<5x5xf32>, tensor<i32>, tensor<3x5xf32>
    cond {
      %1 = stablehlo.compare LT, %iterArg_2, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @step(%iterArg, %iterArg_3) : (tensor<5x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
      %2 = stablehlo.add %iterArg_2, %c : tensor<i32>
      stablehlo.return %iterArg, %2, %1 : tensor<5x5xf32>, tensor<i32>, tensor<3x5xf32>
    }
    return %0#2 : tensor<3x5xf32>
  }
  func.func private @step(%arg0: tensor<5x5xf32>, %arg1: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x5xf32>) -> tensor<3x5xf32>
    %1 = "stablehlo.reduce_window"(%0, %0) <{window_dimensions = array<i64: 1, 2>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %3 = stablehlo.maximum %arg2, %arg3 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
}
"""  # noqa: E501

ONE = """
module {{
  func.func @main({arguments}) -> {result} {{
    %0 = {op} : ({types}) -> {result}
    return %0 : {result}
  }}
}}
"""

BRANCHES = """
module {{
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {{
    %c = stablehlo.constant {condition}
    %0 = "stablehlo.{kind}"(%c) ({{
      %1 = stablehlo.abs %arg0 : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }}, {{
      %1 = stablehlo.exponential %arg0 : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }}) : (tensor<i32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}
"""


BARRIER = """
func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %cst = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0:2 = stablehlo.optimization_barrier %cst, %arg0 : tensor<4xf32>, tensor<4xf32>
  %1 = stablehlo.multiply %0#1, %0#1 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


STACK = """
module {
  func.func public @main(%arg0: tensor<3x5xf32>) -> tensor<7x3x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0.0> : tensor<7x3x5xf32>
    %0:3 = stablehlo.while(%i = %c, %s = %arg0, %all = %c_0) : tensor<i32>, tensor<3x5xf32>, tensor<7x3x5xf32>
    cond {
      %end = stablehlo.constant dense<7> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.tanh %s : tensor<3x5xf32>
      %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<1x3x5xf32>
      %3 = stablehlo.dynamic_update_slice %all, %2, %i, %c, %c : (tensor<7x3x5xf32>, tensor<1x3x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<7x3x5xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %1, %3 : tensor<i32>, tensor<3x5xf32>, tensor<7x3x5xf32>
    }
    return %0#2 : tensor<7x3x5xf32>
  }
}
"""  # noqa: E501


@pytest.fixture
def described(tmp_path):
    def describe(text):
        file = tmp_path / "step.mlir"
        file.write_text(text)
        return networks.read(file, {})

    return describe


def one(op, result, *types):
    """Returns a program of one operation."""
    listed = ", ".join(f"%arg{place}: {kind}" for place, kind in enumerate(types))
    return ONE.format(op=op, result=result, types=", ".join(types), arguments=listed)


def test_convolutions_products_and_functions_are_counted(described):
    found = described(PRODUCTS)
    assert [row.kind for row in found.operations] == [
        *("convolution", "elementwise", "reduction", "matrix product")
    ]
    convolution, relu, _, product = found.operations
    assert convolution.macs == 4 * 6 * 5 * 3 * 4 * 9
    expected = {"groups": 2, "C": 8, "stride_w": 2, "dilation_w": 2, "pad_bottom": 1, "pad_left": 0}
    assert {name: convolution.bounds[name] for name in expected} == expected
    assert (convolution.layer, relu.layer) == ("jit(f)/stem", "relu")
    assert product.bounds == {"batch": 1, "M": 4, "N": 10, "K": 6}
    assert product.input_bytes == 4 * 24 + 2 * 60
    assert found.batch_size == 4


def test_a_loop_counts_as_often_as_it_runs(described):
    product, pooling, counter = described(LOOP).operations
    assert (product.kind, product.repeats, product.macs) == ("recurrent product", 8, 8 * 75)
    assert (pooling.type, pooling.flops) == ("stablehlo.reduce_window", 8 * 15)
    assert (counter.type, counter.flops) == ("stablehlo.add", 8)
    with pytest.raises(FathomError, match="iterations of while#4 is not known beforehand"):
        described(LOOP.replace("compare LT, %iterArg_2, %c_0", "compare EQ, %iterArg_2, %c_0"))


def test_a_loop_reads_the_state_of_the_iteration_before(described):
    weights = "%w = stablehlo.constant dense<1.5> : tensor<5x5xf32>\n    %c = "
    text = LOOP.replace("%c = ", weights, 1).replace("%iterArg = %arg1", "%iterArg = %w")
    found = described(text)
    product, pooling, counter = found.operations
    assert (product.producers, counter.producers) == ((pooling.name,), (counter.name,))
    (gathered,) = sharding.of(found, 2).exchanges
    assert (gathered.kind, gathered.row, gathered.size_bytes) == ("all-gather", product, 8 * 60)
    once = described(text.replace("dense<15>", "dense<2>"))
    assert once.operations[0].producers == ()


@pytest.mark.parametrize(("first", "rows"), [(0, 7), (5, 2), (-9, 7)])
def test_what_a_loop_stacks_is_held_of_all_iterations(described, first, rows):
    text = STACK.replace("dense<0> ", f"dense<{first}> ")
    (update,) = (row for row in described(text).operations if row.type.endswith("update_slice"))
    assert update.result_bytes == rows * 60  # of 16 iterations the last of a row is kept


COMPARED = {
    "few": "compare LT, %iterArg_2, %five, SIGNED",
    "many": "compare LE, %iterArg_2, %c_0, SIGNED",
    "end": "compare GT, %iterArg_2, %five, SIGNED",
    "below": "compare GE, %c_0, %data, SIGNED",
}


def iterations(described, text):
    """Returns how often LOOP runs with another condition or counter; None if it is refused."""
    after = "%1 = stablehlo.abs %0#2 : tensor<3x5xf32>\n    return %1"
    try:
        return described(text.replace("return %0#2", after)).macs / 75
    except FathomError as error:
        if "iterations of while#4 is not known beforehand" not in str(error):
            raise
        return None


@pytest.mark.parametrize(
    ("condition", "times"),
    [
        ("convert %few", 3),
        ("convert %many", 8),
        ("and %few, %many", 3),
        ("or %few, %many", 8),
        ("and %many, %below", 8),
        ("or %many, %below", None),
        ("not %end", 3),
        ("not %few", 0),
        ("and %many, %not_end", 3),
        ("or %many, %not_end", 8),
        ("compare NE, %few, %no, UNSIGNED", 3),
        ("convert %below", None),
        ("xor %few, %no", None),
    ],
)
def test_conditions_of_a_loop_combine(described, condition, times):
    types = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
    start, _, rest = LOOP.partition("      %1 = stablehlo.compare")
    lines = [
        "%five = stablehlo.constant dense<5> : tensor<i32>",
        "%no = stablehlo.constant dense<false> : tensor<i1>",
        "%data = stablehlo.custom_call @own(%iterArg_3) : (tensor<3x5xf32>) -> tensor<i32>",
        *(f"%{name} = stablehlo.{text} : {types}" for name, text in COMPARED.items()),
        "%not_end = stablehlo.not %end : tensor<i1>",
        f"%1 = stablehlo.{condition} : tensor<i1>",
    ]
    text = "\n".join([start, *lines, rest.partition("\n")[2]])
    assert iterations(described, text) == times


@pytest.mark.parametrize(
    ("comparison", "first", "step", "times"),
    [
        *(("LT", 0, 2, 8), ("LE", 1, 2, 8), ("NE", 3, 3, 4), ("GT", 20, -2, 3), ("GE", 19, -2, 3)),
        *(("GT", 15, 1, 0), ("LT", 15, -1, 0), ("LT", 0, -2, None), ("GE", 15, 2, None)),
        ("NE", 20, 2, None),
    ],
)
def test_a_loop_counts_up_or_down_to_its_limit(described, comparison, first, step, times):
    text = LOOP.replace("compare LT", f"compare {comparison}")
    text = text.replace("<2>", f"<{step}>").replace("<0>", f"<{first}>")
    assert iterations(described, text) == times


def test_a_function_with_a_loop_may_be_called_twice(described):
    types = "(tensor<3x5xf32>, tensor<5x5xf32>) -> tensor<3x5xf32>"
    twice = LOOP.replace("func.func public @main", "func.func private @inner")
    main = f"""
  func.func public @main(%arg0: tensor<3x5xf32>, %arg1: tensor<5x5xf32>) -> tensor<3x5xf32> {{
    %0 = call @inner(%arg0, %arg1) : {types}
    %1 = call @inner(%0, %arg1) : {types}
    return %1 : tensor<3x5xf32>
  }}
}}
"""
    assert described(twice.rstrip().removesuffix("}") + main).macs == 2 * described(LOOP).macs


@pytest.mark.parametrize(
    ("op", "result", "types", "macs"),
    [
        (
            "stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], "
            "contracting_dims = [3] x [3]",
            "tensor<2x8x5x6xf32>",
            ("tensor<2x5x8x7xf32>", "tensor<2x6x8x7xf32>"),
            2 * 8 * 5 * 6 * 7,
        ),
        (
            '"stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<'
            "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
            "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>}>",
            "tensor<2x5x6xf32>",
            ("tensor<2x5x7xf32>", "tensor<2x7x6xf32>"),
            2 * 5 * 6 * 7,
        ),
        (
            "stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
            "window = {pad = [[2, 2]], lhs_dilate = [2]} {feature_group_count = 1 : i64}",
            "tensor<2x11x6xf32>",
            ("tensor<2x5x4xf32>", "tensor<3x4x6xf32>"),
            2 * 5 * 4 * 6 * 3,
        ),
    ],
)
def test_multiply_accumulates_are_counted_by_hand(described, op, result, types, macs):
    assert described(one(op, result, *types)).macs == macs


@pytest.mark.parametrize(
    ("kind", "result", "precision"),
    [("f64", "f64", "float64"), ("bf16", "f32", "bfloat16"), ("f8E4M3FN", "f32", "float8")],
)
def test_the_precision_is_that_of_the_factors(described, kind, result, precision):
    op = "stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]"
    types = f"tensor<2x3x{kind}>", f"tensor<3x4x{kind}>"
    assert described(one(op, f"tensor<2x4x{result}>", *types)).precision == precision


@pytest.mark.parametrize(
    ("kind", "condition", "taken"),
    [
        ("case", "dense<0> : tensor<i32>", "abs"),
        ("case", "dense<1> : tensor<i32>", "exponential"),
        ("case", "dense<7> : tensor<i32>", "exponential"),
        ("case", "dense<-1> : tensor<i32>", "exponential"),
        ("case", 'dense<"0x01000000"> : tensor<i32>', "abs"),  # which is not read
        ("if", 'dense<"0x00"> : tensor<i1>', "abs"),
        ("if", "dense<true> : tensor<i1>", "abs"),
        ("if", "dense<false> : tensor<i1>", "exponential"),
    ],
)
def test_a_constant_condition_chooses_the_branch(described, kind, condition, taken):
    (row,) = described(BRANCHES.format(kind=kind, condition=condition)).operations
    assert row.type == f"stablehlo.{taken}"


@pytest.mark.parametrize(("number", "taken"), [(-3, "abs"), (0, "abs"), (1, "exponential")])
def test_a_constant_condition_may_be_clamped(described, number, taken):
    text = BRANCHES.format(kind="case", condition=f"dense<{number}> : tensor<i32>")
    lines = "".join(
        f"%{name} = stablehlo.constant dense<{size}> : tensor<i32>\n"
        for name, size in (("least", 0), ("most", 1))
    )
    clamp = f"{lines}%i = stablehlo.clamp %least, %c, %most : tensor<i32>\n    %0 ="
    (row,) = described(text.replace("%0 =", clamp).replace("(%c)", "(%i)")).operations
    assert row.type == f"stablehlo.{taken}"


def test_a_program_that_computes_nothing_is_refused_in_plain_words(described):
    text = one("stablehlo.reshape %arg0", "tensor<2xf32>", "tensor<2x1xf32>")
    with pytest.raises(FathomError, match="describe step: the operations compute and move nothing"):
        described(text)


def test_a_product_without_elements_is_left_out(described):
    product = "stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]"
    text = one(product, "tensor<0x5xf32>", "tensor<0x7xf32>", "tensor<7x5xf32>")
    line = "%unread = stablehlo.abs %arg1 : tensor<7x5xf32>"
    text = text.replace("return %0", f"{line}\n    return %0, %unread")
    assert [row.type for row in described(text).operations] == ["stablehlo.abs"]


def test_a_slice_reads_a_part(described):
    found = described(one("stablehlo.slice %arg0 [0:2, 0:4]", "tensor<2x4xf32>", "tensor<9x4xf32>"))
    assert found.operations[0].input_bytes == 32


def test_operations_without_a_rule_are_listed(described):
    unknown = one("stablehlo.custom_call @own(%arg0) {x = 1}", "tensor<2xf32>", "tensor<2xf32>")
    found = described(unknown)
    assert found.without_rule == ("custom_call @own",)
    assert found.share_without_rule("custom_call @own") == 1


def test_open_sizes_are_refused(described):
    with pytest.raises(FathomError, match="the argument arg0 leaves sizes open"):
        described(one("stablehlo.abs %arg0", "tensor<?xf32>", "tensor<?xf32>"))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("tensor<3x5xf32>", 60),
        ("tensor<i1>", 1),
        ("tensor<4xui8>", 4),
        ("tensor<2x3xcomplex<f32>>", 48),
        ("tensor<8xf8E4M3FN>", 8),
        ("tensor<3xi4>", 2),
        ("!stablehlo.token", 0),
    ],
)
def test_types_have_their_bytes(kind, size):
    assert mlir.value_of(kind).bytes == size


def test_a_function_that_calls_itself_is_refused(described):
    call = one("func.call @main(%arg0)", "tensor<2xf32>", "tensor<2xf32>")
    with pytest.raises(FathomError, match="damaged or no text of StableHLO"):
        described(call)


def test_damaged_text_gives_one_line_and_no_other_error(described):
    chance = random.Random(1)
    refusals = []
    for turn in range(400):
        damaged = bytearray((PRODUCTS, LOOP)[turn % 2].encode())
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(32, 127)
        if turn % 3 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            described(damaged.decode())
        except FathomError as error:
            refusals.append(str(error))
    assert len(refusals) > 200
    assert not any("\n" in each for each in refusals)


def test_a_barrier_keeps_each_of_its_values_apart(described):
    found = described(BARRIER)
    assert [row.type for row in found.operations] == ["stablehlo.multiply"]
