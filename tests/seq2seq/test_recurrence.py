import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom.seq2seq.recurrence import read, recur

STEPS, BATCH, UNITS = 4, 3, 5
KERNELS = ("first", "second", "of_examples")


def tensors():
    """Returns three kernels, what is added to their products, a state and a constant."""
    rng = np.random.default_rng(0)
    shapes = {
        "first": (2 * UNITS, UNITS),
        "second": (UNITS, UNITS),
        "of_examples": (BATCH, UNITS, UNITS),
        "to_first": (STEPS, BATCH, UNITS),
        "to_second": (STEPS, BATCH, UNITS),
        "to_of_examples": (STEPS, BATCH, UNITS),
        "state": (BATCH, UNITS),
        "idle": (BATCH, UNITS),
        "constant": (BATCH, UNITS),
    }
    return {
        name: keras.Variable(rng.normal(0, 0.5, shape), dtype="float32", name=name)
        for name, shape in shapes.items()
    }


def step(multiply, time, state, constant):
    """A step that reads its state in all products, its number, and a constant."""
    x, idle = state
    y = tf.tanh(multiply("first", tf.concat([x, constant], 1)))
    y *= tf.tanh(multiply("of_examples", x))
    return tf.tanh(multiply("second", y) + x) * (1 + 0.1 * tf.cast(time, x.dtype)), idle


def recurrence(values):
    values = {name: read(value, "float32") for name, value in values.items()}
    kernels = {name: values[name] for name in KERNELS}
    added = {name: values[f"to_{name}"] for name in KERNELS}
    return recur(step, kernels, added, (values["state"], values["idle"]), values["constant"])


def written_out_product(x, kernel):
    return tf.linalg.matvec(kernel, x, transpose_a=True)


def written_out(values):
    values = {name: read(value, "float32") for name, value in values.items()}
    state, outputs = (values["state"], values["idle"]), []
    for time in range(STEPS):
        state = step(
            lambda name, x, time=time: (
                written_out_product(x, values[name]) + values[f"to_{name}"][time]
            ),
            *(time, state, values["constant"]),
        )
        outputs.append(state[0])
    return tf.stack(outputs), state


def results_and_gradients(function, values):
    variables = [value.value for value in values.values()]
    with tf.GradientTape() as tape:
        outputs, (last, idle) = function(values)
        loss = tf.reduce_sum(outputs**3) + tf.reduce_sum(last * idle)
    results = {"outputs": outputs, "last": last, "idle": idle}
    return results | dict(zip(values, tape.gradient(loss, variables), strict=True))


@pytest.mark.parametrize(
    "compiled", [None, {}, {"jit_compile": True}], ids=["eager", "graph", "xla"]
)
def test_a_recurrence_and_all_its_gradients_are_those_of_the_steps_written_out(compiled):
    values = tensors()

    def run():
        return results_and_gradients(recurrence, values)

    if compiled is not None:
        run = tf.function(run, autograph=False, **compiled)
    expected = results_and_gradients(written_out, values)
    for name, value in run().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_the_gradient_of_a_kernel_is_one_product_outside_the_loops():
    values = tensors()
    function = tf.function(lambda: results_and_gradients(recurrence, values), autograph=False)
    operations = function.get_concrete_function().graph.get_operations()
    types = [operation.type for operation in operations]
    assert types.count("MatMul") == 2  # those of the loops are in functions of their own
