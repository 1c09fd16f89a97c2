"""Each operation's bounds, work and bytes follow from the traced graph."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError, workloads
from fathom.hardware.description.attribution import scoped_gradients
from fathom.hardware.description.step import operations
from fathom.model import steps


def described(step, *shapes, network=None):
    """Returns the operations of a step on float32 inputs of these shapes, by type."""
    network = network or keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with scoped_gradients():
        graph = tf.function(step, autograph=False).get_concrete_function(
            *(tf.TensorSpec(shape, tf.float32) for shape in shapes)
        )
    return {row.type: row for row in operations(graph.graph, network)}


def test_a_convolution_has_its_bounds():
    kernel = tf.Variable(tf.zeros([5, 3, 2, 8]))

    def step(images):
        return tf.nn.conv2d(images, kernel, strides=[2, 1], padding="SAME")

    row = described(step, (7, 13, 11, 4))["Conv2D"]
    assert row.kind == "convolution"
    assert row.bounds == {
        **{"N": 7, "M": 8, "C": 4, "R": 5, "S": 3, "P": 7, "Q": 11},
        **{"stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "groups": 2},
        **{"pad_top": 2, "pad_bottom": 2, "pad_left": 1, "pad_right": 1},
    }
    assert row.macs == 7 * 7 * 11 * 8 * (5 * 3 * 2)
    assert row.flops == 0
    assert row.input_bytes == 4 * 7 * 13 * 11 * 4
    assert row.weight_bytes == 4 * 5 * 3 * 2 * 8
    assert row.output_bytes == 4 * 7 * 7 * 11 * 8


@pytest.mark.parametrize(
    ("padding", "expected"),
    [("VALID", (0, 0, 0, 0)), ([[0, 0], [2, 1], [3, 4], [0, 0]], (2, 1, 3, 4))],
)
def test_paddings_are_counted_at_each_side(padding, expected):
    kernel = tf.zeros([3, 3, 1, 1])
    rows = described(lambda x: tf.nn.conv2d(x, kernel, 1, padding), (1, 9, 9, 1))
    sides = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    assert tuple(rows["Conv2D"].bounds[side] for side in sides) == expected


def test_the_gradients_of_a_layer_have_the_bounds_of_its_product():
    network = keras.Sequential(
        [
            keras.Input((9, 9, 3)),
            keras.layers.Conv2D(4, 3, strides=2, name="first"),
            keras.layers.Conv2D(5, 2, name="second"),
        ]
    )

    def step(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(images) ** 2)
        return tape.gradient(loss, network.trainable_variables)

    rows = described(step, (6, 9, 9, 3), network=network)
    of_weights, of_input = rows["Conv2DBackpropFilter"], rows["Conv2DBackpropInput"]
    assert (of_weights.layer, of_weights.phase) == ("first", "weight gradient")
    assert (of_input.layer, of_input.phase) == ("second", "input gradient")
    assert of_weights.macs == 6 * 4 * 4 * 4 * (3 * 3 * 3)
    assert of_input.macs == 6 * 3 * 3 * 5 * (2 * 2 * 4)
    assert rows["BiasAddGrad"].phase == "weight gradient"


def test_the_gradients_of_a_convolution_by_channel_are_convolutions():
    def step(images, kernel):
        with tf.GradientTape() as tape:
            tape.watch([images, kernel])
            found = tf.nn.depthwise_conv2d(images, kernel, [1, 2, 2, 1], "SAME")
            loss = tf.reduce_sum(found**2)
        return tape.gradient(loss, [images, kernel])

    rows = described(step, (5, 8, 8, 4), (3, 3, 4, 2))
    expected = rows["DepthwiseConv2dNative"]
    assert expected.macs == 5 * 4 * 4 * 8 * 9
    for name in ("Filter", "Input"):
        row = rows[f"DepthwiseConv2dNativeBackprop{name}"]
        assert (row.kind, row.macs, row.bounds) == ("convolution", expected.macs, expected.bounds)


class TiedLogits(keras.layers.Layer):
    """A product with the matrix of another layer."""

    def __init__(self, embedding):
        super().__init__(name="logits")
        object.__setattr__(self, "_embedding", embedding)  # its weights are not this layer's

    def call(self, x):
        return tf.matmul(x, self._embedding.embeddings.value, transpose_b=True)


def test_the_gradient_of_a_tied_matrix_is_a_weight_gradient():
    embedding = keras.layers.Embedding(7, 5, name="embedding")
    words = keras.Input((), dtype="int32", batch_size=6)
    network = keras.Model(words, TiedLogits(embedding)(embedding(words)))

    def step(words):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(tf.cast(words, tf.int32)) ** 2)
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, network.trainable_variables)]

    with scoped_gradients():
        graph = tf.function(step).get_concrete_function(tf.TensorSpec((6,), tf.float32)).graph
    products = [row for row in operations(graph, network) if row.type == "MatMul"]
    assert [(row.layer, row.phase, row.macs) for row in products] == [
        ("logits", "forward", 6 * 5 * 7),
        ("logits", "input gradient", 6 * 5 * 7),
        ("logits", "weight gradient", 6 * 5 * 7),
    ]


@pytest.mark.parametrize(
    ("step", "shapes", "bounds"),
    [
        (lambda a, b: tf.matmul(a, b), [(2, 3), (3, 5)], (1, 2, 5, 3)),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), [(3, 2), (3, 5)], (1, 2, 5, 3)),
        (lambda a, b: tf.matmul(a, b, adjoint_b=True), [(4, 7, 2, 3), (4, 7, 5, 3)], (28, 2, 5, 3)),
        (lambda a, b: tf.einsum("btd,bsd->bts", a, b), [(4, 2, 3), (4, 5, 3)], (4, 2, 5, 3)),
    ],
)
def test_a_product_has_its_bounds_however_its_operands_are_stored(step, shapes, bounds):
    (row,) = (r for r in described(step, *shapes).values() if r.kind == "matrix product")
    assert tuple(row.bounds[name] for name in ("batch", "M", "N", "K")) == bounds
    assert row.macs == np.prod(bounds)


def test_operations_in_a_loop_count_for_each_iteration_and_its_weights_once_as_working_set():
    weights = tf.Variable(tf.ones([3, 3]))

    def step(x):
        value = tf.convert_to_tensor(weights)

        def body(i, state):
            return i + 1, tf.tanh(state @ value)

        return tf.while_loop(lambda i, _: i < tf.shape(x)[0] - 1, body, (0, x))[1]

    row = described(step, (8, 3))["MatMul"]
    assert (row.kind, row.repeats) == ("recurrent product", 7)
    assert row.macs == 7 * 8 * 3 * 3
    assert row.weight_bytes == 7 * 4 * 9
    assert row.working_set_bytes == 4 * 9 + row.input_bytes + row.output_bytes


@pytest.mark.parametrize(("end", "stride", "times"), [(10, 1, 10), (10, 2, 5), (11, 4, 3)])
def test_a_loop_counts_by_what_each_iteration_adds(end, stride, times):
    def step(x):
        return tf.while_loop(lambda i, _: i < end, lambda i, x: (i + stride, tf.tanh(x)), (0, x))[1]

    @tf.function
    def ranged(x):
        for _ in tf.range(0, end, stride):
            x = tf.tanh(x)
        return x

    for each in (step, ranged):
        assert described(each, (3, 4))["Tanh"].repeats == times


def test_a_loop_whose_end_depends_on_data_is_refused():
    def step(x):
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 3, lambda y: (y + 1,), (x,))

    with pytest.raises(FathomError, match="number of iterations of while is not known"):
        described(step, (2,))


def test_a_look_up_reads_only_its_rows():
    table = tf.Variable(tf.zeros([1000, 8]))
    row = described(lambda x: tf.gather(table, tf.cast(x, tf.int32)), (5,))["ResourceGather"]
    assert row.kind == "look-up"
    assert row.bounds == {"indices": 5, "width": 8}
    assert (row.input_bytes, row.weight_bytes, row.output_bytes) == (5 * 4, 5 * 32, 5 * 32)
    assert row.footprint_bytes == 4 * (1000 * 8 + 5 + 5 * 8)  # of the whole table


def test_a_look_up_by_several_axes_reads_only_its_rows():
    table = tf.Variable(tf.zeros([10, 100, 8]))
    places = tf.constant([[1, 2], [3, 4], [5, 6]])
    row = described(lambda x: tf.gather_nd(table, places) * x, (8,))["ResourceGatherNd"]
    assert row.kind == "look-up"
    assert row.bounds == {"indices": 3, "width": 8}
    assert (row.input_bytes, row.weight_bytes, row.output_bytes) == (3 * 2 * 4, 3 * 32, 3 * 32)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ResourceSparseApplyKerasMomentum", {"lr": 0.1, "momentum": 0.9}),
        ("ResourceSparseApplyAdagradV2", {"lr": 0.1, "epsilon": 0.1}),
    ],
)
def test_an_update_of_rows_has_at_most_those_of_the_batch(name, given):
    table, slot = tf.Variable(tf.zeros([100, 16])), tf.Variable(tf.zeros([100, 16]))

    def step(gradients, places):
        rows, number = tf.unique(tf.cast(places, tf.int32))
        sums = tf.math.unsorted_segment_sum(gradients, number, tf.size(rows))
        update = {"grad": sums * 2.0, "indices": rows} | given
        getattr(tf.raw_ops, name)(var=table.handle, accum=slot.handle, **update)

    rows = described(step, (7, 16), (7,))
    row = rows[name]
    assert (row.bounds, row.dtype) == ({"indices": 7, "width": 16}, "float32")
    assert row.weight_bytes == row.output_bytes == 2 * 7 * 64  # the table and its slot
    assert rows["Mul"].bounds == {"elements": 7 * 16}
    assert rows["Mul"].result_bytes == 7 * 64


def test_what_the_step_does_not_need_is_left_out():
    def step(x):
        tf.exp(x)
        return tf.sin(tf.reshape(x, [-1])) + tf.reduce_sum(tf.ones([3]) * 2)

    assert set(described(step, (2, 2))) == {"Sin", "AddV2"}


def test_an_update_reads_and_writes_the_variable_and_its_slot():
    variable, slot = tf.Variable(tf.zeros([10])), tf.Variable(tf.zeros([10]))

    def step(gradient):
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle, accum=slot.handle, lr=0.1, grad=gradient, momentum=0.9
        )

    row = described(step, (10,))["ResourceApplyMomentum"]
    assert row.weight_bytes == row.output_bytes == 2 * 40
    assert row.input_bytes == 40 + 8  # the gradient, rate and momentum


@pytest.mark.parametrize("workload", ["speech", pytest.param("seq2seq", marks=pytest.mark.slow)])
def test_a_longer_example_takes_more_steps_of_the_recurrence(workload):
    model = workloads.load(workload)("/cpu:0", workloads.descriptor(workload).small)
    model.build()
    short, long = (
        max(row.repeats for row in model.describe(length).operations) for length in (8, 16)
    )
    assert short < long


def test_lengths_that_a_workload_does_not_have_are_refused():
    model = workloads.load("autoenc")("/cpu:0", workloads.descriptor("autoenc").small)
    model.build()
    with pytest.raises(FathomError, match="images of autoenc have no length"):
        model.describe(5)
    model = workloads.load("seq2seq")("/cpu:0", workloads.descriptor("seq2seq").small)
    model.build()
    with pytest.raises(
        FathomError, match="no batch holds sentences of 17 words: the largest has 16"
    ):
        model.describe(17)


def test_a_step_that_a_description_cannot_hold_is_refused_in_one_line(monkeypatch):
    model = workloads.load("autoenc")("cpu", dict(workloads.descriptor("autoenc").small))
    model.build()
    monkeypatch.setattr(steps, "operations", lambda *_: ())
    with pytest.raises(FathomError, match=r"cannot describe the step \(.*\): use other sizes$"):
        model.describe()


def test_a_step_without_a_bound_is_refused_by_its_name():
    model = workloads.load("speech")("cpu", dict(workloads.descriptor("speech").small))
    with pytest.raises(
        FathomError, match=r"step \(the bound K of a matrix product is missing or 0"
    ):
        model.describe(1)


def test_a_batch_as_large_as_a_layer_is_wide_changes_no_phase():
    def phases(batch_size):
        small = workloads.descriptor("autoenc").small | {"batch_size": batch_size}
        rows = workloads.load("autoenc")("cpu", small).describe().operations
        return [(row.name, row.phase) for row in rows]

    assert phases(50) == phases(20)  # hidden_units=50


def test_a_function_that_xla_compiles_is_one_operation_unless_it_has_products():
    @tf.function(jit_compile=True, autograph=False)
    def Scaled(x):  # noqa: N802 - the op type
        return tf.exp(x) * 2.0

    @tf.function(jit_compile=True, autograph=False)
    def product(x):
        return tf.matmul(x, x)

    rows = described(lambda x: Scaled(x) + product(x), (3, 3))
    assert set(rows) == {"Scaled", "MatMul", "AddV2"}
    assert (rows["Scaled"].input_bytes, rows["Scaled"].output_bytes) == (36, 36)


@pytest.mark.parametrize(("axis", "width"), [(1, {"width": 16}), (-1, {}), ([0, 2], {})])
def test_a_sum_has_the_last_axis_that_it_keeps(axis, width):
    row = described(lambda x: tf.reduce_sum(x, axis), (4, 8, 16))["Sum"]
    assert row.bounds == {"elements": 4 * 8 * 16} | width


def test_slices_read_and_scatters_write_only_their_part():
    table = tf.Variable(tf.zeros([1000, 8]))

    def step(x, new):
        rows = tf.tensor_scatter_nd_update(x, [[3]], new)
        return tf.slice(rows, [1, 0], [2, 8]), tf.slice(tf.convert_to_tensor(table), [4, 0], [3, 8])

    with scoped_gradients():
        graph = tf.function(step, autograph=False).get_concrete_function(
            tf.TensorSpec((100, 8)), tf.TensorSpec((1, 8))
        )
    network = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    scatter, of_tensor, of_table = operations(graph.graph, network)
    assert (scatter.input_bytes, scatter.output_bytes) == (32 + 4, 32)  # and the index
    assert (of_tensor.input_bytes, of_tensor.output_bytes) == (2 * 32 + 16, 2 * 32)
    assert (of_table.weight_bytes, of_table.output_bytes) == (3 * 32, 3 * 32)


def test_a_fused_update_counts_what_its_kernel_computes():
    weights, m, v = (tf.Variable(tf.zeros([5])) for _ in range(3))

    def step(gradient):
        tf.raw_ops.ResourceApplyAdam(
            var=weights.handle,
            m=m.handle,
            v=v.handle,
            grad=gradient,
            **dict.fromkeys(
                ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"), tf.constant(0.5)
            ),
        )
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=weights.handle,
            accum=m.handle,
            lr=0.1,
            grad=gradient,
            momentum=0.9,
            use_nesterov=True,
        )

    rows = described(step, (5,))
    assert rows["ResourceApplyAdam"].flops == 12 * 5
    assert rows["ResourceApplyKerasMomentum"].flops == 6 * 5


def test_an_operation_names_those_whose_results_it_reads_through_views_and_loops():
    weights = tf.Variable(tf.ones([3, 3]))

    def step(x):
        y = tf.exp(x)

        def body(i, state, kept):
            state = tf.tanh(tf.reshape(state, [8, 3]) @ weights)
            return i + 1, state, kept.write(i, state)

        kept = tf.TensorArray(tf.float32, 5, element_shape=[8, 3])
        _, _, kept = tf.while_loop(lambda i, *_: i < 5, body, (0, y, kept))
        return tf.sin(kept.stack())

    rows = described(step, (8, 3))
    names = {row.name: row.type for row in rows.values()}
    by_kind = {kind: {names[name] for name in row.producers} for kind, row in rows.items()}
    assert by_kind["MatMul"] == {"Exp", "Tanh"}  # the first iteration's, and the others'
    assert (by_kind["Tanh"], by_kind["TensorListStack"]) == ({"MatMul"}, {"Tanh"})
    assert (by_kind["Sin"], by_kind["Exp"]) == ({"TensorListStack"}, set())
    assert rows["Tanh"].result_bytes == 5 * 96  # the list keeps each
    assert rows["MatMul"].result_bytes == 96
    assert rows["MatMul"].footprint_bytes == 96 + 36 + 96
