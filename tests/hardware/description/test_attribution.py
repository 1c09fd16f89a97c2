import keras
import pytest
import tensorflow as tf

from fathom.core.training.optimizers import Momentum
from fathom.hardware.description.attribution import Attribution, scoped_gradients


class Doubling(keras.layers.Layer):
    """A layer whose gradient is a function of its own, which no scope names."""

    def call(self, x):
        @tf.function(autograph=False)
        def backward(x, dy):
            return 2 * dy + 0 * x

        @tf.custom_gradient
        def double(x):
            return 2 * x, lambda dy: backward(x, dy)

        return double(x)


class Embedding(keras.layers.Layer):
    """A layer whose own gradient is several ops without scope."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(9, 4), name="kernel")

    def call(self, words):
        @tf.custom_gradient
        def embed(kernel):
            def backward(dy):
                return tf.math.unsorted_segment_sum(dy, words, 9, name="sum_of_words") * 3.0

            return tf.gather(kernel, words), backward

        return embed(self.kernel.value)


class Repeating(keras.layers.Layer):
    """A layer that loops."""

    def call(self, x):
        return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(x)), (0, x))[1]


def step_and_network():
    """Returns a traced training step with input, layers, a skip, a loss and an update."""
    x = keras.Input((4,), name="x")
    first = keras.layers.Dense(4, name="conv1")(x)
    second = keras.layers.Dense(4, name="conv1_1")(first)
    third = Doubling(name="double")(second)
    joined = keras.layers.Add(name="join")([first, third])
    looped = Repeating(name="loop")(joined)
    network = keras.Model(x, keras.ops.sum(looped, axis=1), name="net")
    variables = network.trainable_variables

    @tf.function(autograph=False)
    def step(x):
        x = tf.sqrt(x, name="prepare")
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(x), name="square"))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.value.assign_sub(tf.multiply(gradient, 0.1, name="update"))
        return loss

    return step.get_concrete_function(tf.TensorSpec([2, 4])), network


@pytest.fixture(scope="module")
def traced():
    return step_and_network()


@pytest.fixture(scope="module")
def attribution(traced):
    step, network = traced
    return Attribution(step.graph, network)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("prepare", ("input", "forward")),
        ("net_1/conv1_1/MatMul", ("conv1", "forward")),
        ("net_1/conv1_1_2/MatMul", ("conv1_1", "forward")),
        ("net_1/conv1_1_2/BiasAdd", ("conv1_1", "forward")),
        ("net_1/join_1/Add", ("join", "forward")),
        ("net_1/Sum", ("network", "forward")),
        ("square", ("loss", "forward")),
        ("Mean", ("loss", "forward")),
        ("gradient_tape/net_1/conv1_1_2/MatMul/MatMul", ("conv1_1", "backward")),
        ("gradient_tape/Mul", ("loss", "backward")),
        ("update", ("conv1", "optimizer")),
        ("update_3", ("conv1_1", "optimizer")),
    ],
)
def test_an_op_has_its_layer_or_role_and_its_phase(attribution, name, place):
    assert attribution.place(name) == place


def test_the_backward_pass_begins_with_the_first_gradient(traced, attribution):
    names = [op.name for op in traced[0].graph.get_operations()]
    first = next(i for i, name in enumerate(names) if name.startswith("gradient_tape"))
    phases = [attribution.place(name)[1] for name in names[first - 1 : first + 1]]
    assert phases == ["forward", "backward"]


def test_a_gradient_function_without_a_scope_belongs_to_the_layer_that_it_differentiates(
    attribution,
):
    assert attribution.place("PartitionedCall") == ("double", "backward")


def test_a_sum_of_gradients_belongs_to_a_layer_that_it_joins(attribution):
    assert attribution.place("AddN") in [("conv1_1", "backward"), ("loop", "backward")]


def test_what_a_loop_runs_belongs_to_the_layer_that_loops(attribution):
    body = "net_1/loop_1/while/body/_12/net_1/loop_1/while/Tanh"
    assert attribution.place(body) == ("loop", "forward")
    gradient = "gradient_tape/net_1/loop_1/while/net_1/loop_1/while_grad/body/_40/TanhGrad"
    assert attribution.place(gradient) == ("loop", "backward")


def test_an_op_that_the_graph_optimizer_renamed_keeps_its_place(attribution):
    renamed = "net_1/join_1/ArithmeticOptimizer/AddOpsRewrite_Add"
    assert attribution.place(renamed) == ("join", "forward")


@pytest.mark.parametrize(
    ("op_type", "layer"), [("Relu", "relu"), ("_MklNativeFusedConv2D", "conv")]
)
def test_a_fused_op_belongs_to_the_layer_whose_weights_it_reads(op_type, layer):
    x = keras.Input((6, 6, 3))
    convolved = keras.layers.Conv2D(4, 3, use_bias=False, name="conv")(x)
    network = keras.Model(x, keras.layers.ReLU(name="relu")(convolved), name="net")
    step = tf.function(lambda x: network(x, training=False), autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec([2, 6, 6, 3])).graph
    (relu,) = [op.name for op in graph.get_operations() if op.type == "Relu"]
    assert Attribution(graph, network).place(relu, op_type) == (layer, "forward")


def test_what_updates_slots_belongs_to_the_layer_and_what_serves_all_to_the_optimizer():
    x = keras.Input((4,))
    layers = [keras.layers.Dense(4, use_bias=False, name=name) for name in ("first", "second")]
    network = keras.Model(x, layers[1](layers[0](x)), name="net")
    variables = network.trainable_variables
    optimizer = Momentum(0.1, 0.9, weight_decay=1e-3, global_clip_norm=1.0)
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(x))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    graph = step.get_concrete_function(tf.TensorSpec([2, 4])).graph
    attribution = Attribution(graph, network, optimizer)
    operations = graph.get_operations()
    applied = [op.name for op in operations if op.type.startswith("ResourceApply")]
    assert {attribution.place(name) for name in applied} == {
        ("first", "optimizer"),
        ("second", "optimizer"),
    }
    norms = [op.name for op in operations if op.type == "L2Loss"]
    assert {attribution.place(name) for name in norms} == {("optimizer", "optimizer")}


def test_an_op_of_another_graph_is_unknown(attribution):
    assert attribution.place("other/MatMul") == ("unknown", "other")


def test_a_step_without_gradients_is_all_forward(traced):
    _, network = traced
    step = tf.function(lambda x: tf.identity(network(x), name="result"), autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec([2, 4])).graph
    attribution = Attribution(graph, network)
    assert attribution.place("net_1/conv1_1/MatMul") == ("conv1", "forward")
    assert attribution.place("result") == ("output", "forward")


def test_the_ops_of_a_gradient_of_its_own_belong_to_the_layer_that_computes_it():
    words = keras.Input((), dtype="int32", name="words")
    summed = keras.layers.Add(name="sum")(
        [Embedding(name=name)(words) for name in ("first", "second")]
    )
    network = keras.Model(words, keras.layers.Dense(4, name="dense")(summed), name="net")

    @tf.function(autograph=False)
    def step(words):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(words))
        return tape.gradient(loss, network.trainable_variables)

    with scoped_gradients():
        graph = step.get_concrete_function(tf.TensorSpec([5], tf.int32)).graph
    attribution = Attribution(graph, network)
    own = [op.name for op in graph.get_operations() if op.type in ("UnsortedSegmentSum", "Mul")]
    assert {attribution.place(name) for name in own} == {
        ("first", "backward"),
        ("second", "backward"),
    }
    assert len(own) == 4


def test_naming_gradients_changes_no_number_and_ends_with_the_block():
    original = tf.custom_gradient
    double = Doubling()
    with scoped_gradients(), tf.GradientTape() as tape:
        x = tf.constant([1.0, 2.0])
        tape.watch(x)
        y = tf.function(double)(x)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]
    assert tf.custom_gradient is original
