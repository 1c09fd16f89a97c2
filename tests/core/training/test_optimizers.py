import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import VGG, DeepQ, FathomError
from fathom.core.training.optimizers import (
    BY_NAME,
    Adagrad,
    Adam,
    GradientDescent,
    Momentum,
    RMSProp,
    create,
)
from fathom.modern.dlrm.model import DLRM

N_STEPS = 20
SHAPES = {"kernel": (5, 3), "bias": (3,)}
ROWS = np.array([1, 3, 1], np.int32)  # row 1 occurs twice


def f32(number):
    return float(np.float32(number))


# Each reference takes (weights, gradient, state, step) in float64 and returns the new weights.
def reference_descent(lr):
    return lambda w, g, s, t: w - f32(lr) * g


def reference_momentum(lr, mu, nesterov=False):
    def rule(w, g, s, t):
        s["v"] = f32(mu) * s.get("v", 0) - f32(lr) * g
        return w + f32(mu) * s["v"] - f32(lr) * g if nesterov else w + s["v"]

    return rule


def reference_adagrad(lr, epsilon=1e-7):
    def rule(w, g, s, t):
        s["a"] = s.get("a", 0) + g**2
        return w - f32(lr) * g / (np.sqrt(s["a"]) + epsilon)

    return rule


def reference_adam(lr, b1=0.9, b2=0.999, epsilon=1e-8):
    def rule(w, g, s, t):
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
        mean, square = s["m"] / (1 - b1**t), s["v"] / (1 - b2**t)
        return w - f32(lr) * mean / (np.sqrt(square) + epsilon / np.sqrt(1 - b2**t))

    return rule


def reference_rmsprop(lr, decay, momentum, epsilon, centered):
    def rule(w, g, s, t):
        s["s"] = decay * s.get("s", 0) + (1 - decay) * g**2
        s["m"] = decay * s.get("m", 0) + (1 - decay) * g if centered else 0
        root = np.sqrt(s["s"] - np.square(s["m"]) + epsilon)
        s["u"] = momentum * s.get("u", 0) + f32(lr) * g / root
        return w - s["u"]

    return rule


RULES = {
    "descent": (lambda **o: GradientDescent(0.1, **o), reference_descent(0.1)),
    "momentum": (lambda **o: Momentum(0.1, 0.9, **o), reference_momentum(0.1, 0.9)),
    "nesterov": (lambda **o: Momentum(0.1, 0.9, True, **o), reference_momentum(0.1, 0.9, True)),
    "adagrad": (lambda **o: Adagrad(0.1, **o), reference_adagrad(0.1)),
    "adam": (lambda **o: Adam(0.01, **o), reference_adam(0.01)),
    "rmsprop": (
        lambda **o: RMSProp(0.01, 0.95, 0.5, 0.01, **o),
        reference_rmsprop(0.01, 0.95, 0.5, 0.01, False),
    ),
    "centered": (
        lambda **o: RMSProp(0.01, 0.95, 0.0, 0.01, centered=True, **o),
        reference_rmsprop(0.01, 0.95, 0.0, 0.01, True),
    ),
}
KERNELS = {
    "descent": ("ResourceApplyGradientDescent", "ResourceScatterSub"),
    "momentum": ("ResourceApplyKerasMomentum", "ResourceSparseApplyKerasMomentum"),
    "nesterov": ("ResourceApplyKerasMomentum", "ResourceSparseApplyKerasMomentum"),
    "adagrad": ("ResourceApplyAdagradV2", "ResourceSparseApplyAdagradV2"),
    "adam": ("ResourceApplyAdam", "ResourceApplyAdam"),
    "rmsprop": ("ResourceApplyRMSProp", "ResourceSparseApplyRMSProp"),
    "centered": ("ResourceApplyCenteredRMSProp", "ResourceSparseApplyCenteredRMSProp"),
}
every_rule = pytest.mark.parametrize("rule", RULES)


def initial_weights():
    random = np.random.default_rng(1)
    return {name: random.normal(size=s).astype(np.float32) for name, s in SHAPES.items()}


def new_variables():
    return [tf.Variable(value, name=name) for name, value in initial_weights().items()]


def gradients_by_step(shapes):
    random = np.random.default_rng(2)
    return [
        [random.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(N_STEPS)
    ]


def dense_gradients():
    return gradients_by_step(SHAPES.values())


def train(optimizer, variables, gradients, jit=False):
    optimizer.build(variables)

    @tf.function(jit_compile=jit)
    def step(*gradients):
        optimizer.apply(gradients, variables)

    for step_gradients in gradients:
        step(*[tf.constant(gradient) for gradient in step_gradients])
    return [np.array(variable) for variable in variables]


def train_reference(rule, weights, gradients, change=lambda gradients, weights: gradients):
    """Steps NumPy weights in float64; ``change`` may clip or decay the gradients of a step."""
    weights = [weight.astype(np.float64) for weight in weights]
    states = [{} for _ in weights]
    for t, step_gradients in enumerate(gradients, start=1):
        changed = change([g.astype(np.float64) for g in step_gradients], weights)
        weights = [rule(w, g, s, t) for w, g, s in zip(weights, changed, states, strict=True)]
    return weights


def check(weights, expected):
    for weight, exact in zip(weights, expected, strict=True):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(weight / scale, exact / scale, rtol=0, atol=1e-6)


@pytest.mark.parametrize("jit", [False, True], ids=["op by op", "XLA"])
@every_rule
def test_a_rule_follows_its_formula(rule, jit):
    make, reference = RULES[rule]
    weights = train(make(), new_variables(), dense_gradients(), jit)
    check(weights, train_reference(reference, initial_weights().values(), dense_gradients()))


def shortened(gradient, norm, limit):
    return gradient * min(1.0, limit / norm)


def decay(gradients, weights):
    return [gradients[0] + f32(0.05) * weights[0], gradients[1]]  # the kernel's alone


def clip(gradients, weights):
    return [shortened(g, np.linalg.norm(g), 1.5) for g in gradients]


def clip_together(gradients, weights):
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    return [shortened(g, norm, 4.0) for g in gradients]


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"weight_decay": 0.05}, decay),
        ({"clip_norm": 1.5}, clip),
        ({"global_clip_norm": 4.0}, clip_together),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@every_rule
def test_gradients_are_decayed_or_clipped_before_a_rule_follows_its_formula(rule, options, change):
    make, reference = RULES[rule]
    weights = train(make(**options), new_variables(), dense_gradients())
    expected = train_reference(reference, initial_weights().values(), dense_gradients(), change)
    check(weights, expected)


def train_sparse(optimizer, variable, values, jit=False):
    optimizer.build([variable])

    @tf.function(jit_compile=jit)
    def step(values):
        gradient = tf.IndexedSlices(values, tf.constant(ROWS), tf.constant(SHAPES["kernel"]))
        optimizer.apply([gradient], [variable])

    for step_values in values:
        step(tf.constant(step_values))
    return np.array(variable)


def summed_rows(values):
    dense = np.zeros(SHAPES["kernel"], np.float32)
    np.add.at(dense, ROWS, values)
    return dense


def sparse_values():
    return [gradients[0] for gradients in gradients_by_step([(len(ROWS), 3)])]


def kernel_variable():
    return tf.Variable(initial_weights()["kernel"], name="kernel")


@every_rule
def test_a_sparse_gradient_updates_its_rows_as_the_formula_says(rule):
    make, reference = RULES[rule]
    weights = train_sparse(make(), kernel_variable(), sparse_values())
    start = initial_weights()["kernel"]
    dense = [[summed_rows(values)] for values in sparse_values()]
    expected = train_reference(reference, [start], dense)[0]
    check([weights], [expected])
    untouched = [0, 2, 4]
    np.testing.assert_array_equal(weights[untouched], start[untouched])


@every_rule
def test_duplicate_rows_are_summed_before_the_norm_is_taken(rule):
    make, reference = RULES[rule]
    weights = train_sparse(make(clip_norm=1.5), kernel_variable(), sparse_values())
    dense = [[summed_rows(values)] for values in sparse_values()]
    expected = train_reference(reference, [initial_weights()["kernel"]], dense, clip)
    check([weights], expected)


@pytest.mark.parametrize("rule", [r for r in RULES if r != "adam"])
def test_rows_that_a_sparse_gradient_leaves_out_stay_as_they_are_with_their_slots(rule):
    optimizer, variable = RULES[rule][0](), kernel_variable()
    optimizer.build([variable])

    def step(row):
        gradient = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([row]), [5, 3])
        optimizer.apply([gradient], [variable])
        return [np.array(v)[1] for v in (variable, *(s[0] for s in optimizer.slots.values()))]

    np.testing.assert_array_equal(step(1), step(3))


def test_adams_moments_carry_on_moving_the_rows_that_a_sparse_gradient_leaves_out():
    optimizer, variable = Adam(0.1), kernel_variable()
    optimizer.build([variable])
    optimizer.apply([tf.IndexedSlices(tf.ones([1, 3]), tf.constant([1]), [5, 3])], [variable])
    after_one = np.array(variable)
    optimizer.apply([tf.IndexedSlices(tf.ones([1, 3]), tf.constant([3]), [5, 3])], [variable])
    assert np.all(np.array(variable)[1] < after_one[1])


def test_weight_decay_reaches_the_rows_that_a_sparse_gradient_leaves_out():
    optimizer = GradientDescent(0.1, weight_decay=0.05)
    weights = train_sparse(optimizer, kernel_variable(), sparse_values()[:1])
    start = initial_weights()["kernel"].astype(np.float64)
    gradient = summed_rows(sparse_values()[0]) + f32(0.05) * start
    check([weights], [start - f32(0.1) * gradient])


def test_a_sparse_gradient_descent_compiles_under_xla():
    compiled = train_sparse(GradientDescent(0.1), kernel_variable(), sparse_values(), jit=True)
    plain = train_sparse(GradientDescent(0.1), kernel_variable(), sparse_values())
    check([compiled], [plain])


def op_types(optimizer, gradient):
    variable = kernel_variable()
    optimizer.build([variable])

    @tf.function
    def step():
        optimizer.apply([gradient()], [variable])

    return [op.type for op in step.get_concrete_function().graph.get_operations()]


@every_rule
def test_an_update_is_one_fused_op(rule):
    make, _ = RULES[rule]
    dense, sparse = KERNELS[rule]

    def slices():
        return tf.IndexedSlices(tf.ones([3, 3]), tf.constant(ROWS), tf.constant(SHAPES["kernel"]))

    for kernel, gradient in ((dense, lambda: tf.ones(SHAPES["kernel"])), (sparse, slices)):
        updates = [t for t in op_types(make(), gradient) if "Apply" in t or "Scatter" in t]
        assert updates == [kernel]


def needed_before(op):
    """Returns the names of the operations that run before one."""
    before, left = set(), [op]
    while left:
        op = left.pop()
        new = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        left += [each for each in new if each.name not in before]
        before |= {each.name for each in new}
    return before


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_an_update_waits_for_all_gradients_whose_computation_may_need_the_variables(sparse):
    optimizer, variables = RULES["centered"][0](), new_variables()
    optimizer.build(variables)

    @tf.function
    def step(kernel, bias):
        first, second = tf.exp(kernel, name="first"), tf.exp(bias, name="second")
        if sparse:
            rows = tf.constant([0, 1, 2, 3, 4])
            first = tf.IndexedSlices(first, rows, tf.constant(SHAPES["kernel"]))
        optimizer.apply([first, second], variables)

    specs = [tf.TensorSpec(shape) for shape in SHAPES.values()]
    operations = step.get_concrete_function(*specs).graph.get_operations()
    updates = [op for op in operations if op.type.startswith("Resource")]
    assert len(updates) == 2
    for update in updates:
        assert {"first", "second"} <= needed_before(update)


def test_a_keras_model_can_be_trained():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    optimizer = Momentum(0.05, 0.9, weight_decay=1e-4)
    optimizer.build(model.trainable_variables)
    inputs = tf.random.stateless_normal([32, 4], [1, 2])
    targets = tf.reduce_sum(inputs, 1, keepdims=True)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    losses = [float(step()) for _ in range(60)]
    assert losses[-1] < 0.01 * losses[0]


@every_rule
def test_a_restored_run_goes_on_bit_by_bit(rule, tmp_path):
    make, _ = RULES[rule]
    gradients, half = dense_gradients(), N_STEPS // 2

    def resumable(optimizer, variables):
        return tf.train.Checkpoint(optimizer=optimizer, weights=variables)

    straight, variables = make(), new_variables()
    train(straight, variables, gradients[:half])
    straight.learning_rate.assign(0.003)
    path = resumable(straight, variables).write(str(tmp_path / "half"))

    restored, restored_variables = make(), new_variables()
    restored.build(restored_variables)
    resumable(restored, restored_variables).read(path).assert_consumed()
    for optimizer, trained in ((straight, variables), (restored, restored_variables)):
        for step_gradients in gradients[half:]:
            optimizer.apply([tf.constant(g) for g in step_gradients], trained)

    for expected, actual in zip(variables, restored_variables, strict=True):
        np.testing.assert_array_equal(actual, expected)
    for expected, actual in zip(straight.variables, restored.variables, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_the_learning_rate_can_change_without_tracing_again():
    optimizer, variable = GradientDescent(1.0), tf.Variable([4.0])
    optimizer.build([variable])
    step = tf.function(lambda: optimizer.apply([tf.ones([1])], [variable]))
    step()
    optimizer.learning_rate.assign(0.5)
    step()
    assert variable.numpy() == [2.5]


def test_momentum_keeps_one_number_a_parameter():
    optimizer = Momentum(0.1, 0.9)
    optimizer.build(new_variables())
    sizes = sorted(int(tf.size(variable)) for variable in optimizer.variables)
    assert sizes == [1, 3, 15]  # the rate, and the velocities of bias and kernel


def test_both_clips_at_once_are_refused():
    with pytest.raises(ValueError, match="not both"):
        GradientDescent(0.1, clip_norm=1.0, global_clip_norm=1.0)


def test_a_missing_gradient_is_refused_by_the_variables_name():
    optimizer, variables = GradientDescent(0.1), new_variables()
    optimizer.build(variables)
    with pytest.raises(ValueError, match="bias"):
        optimizer.apply([tf.zeros(SHAPES["kernel"]), None], variables)


def test_variables_other_than_those_built_for_are_refused():
    optimizer = Momentum(0.1, 0.9)
    optimizer.build(new_variables())
    with pytest.raises(ValueError, match=r"build\(\)"):
        optimizer.apply([tf.zeros(shape) for shape in SHAPES.values()], new_variables())


def test_without_loss_scaling_the_loss_stays_as_it_is():
    loss = tf.constant(3.0)
    assert GradientDescent(0.1).scale(loss) is loss


def test_a_rule_by_name_takes_the_settings_that_it_has():
    settings = {"momentum": 0.5, "beta_2": 0.98, "weight_decay": 0.1, "clip_norm": 1.0}
    for name in BY_NAME:
        assert create(name, 0.1, **settings)._weight_decay == 0.1
    assert create("nesterov", 0.1, **settings)._constants == {"momentum": 0.5}
    assert create("nesterov", 0.1, **settings)._nesterov
    assert create("adamw", 0.1, **settings)._constants["beta2"] == 0.98


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        (VGG, {"optimizer": "adam", "momentum": 0.9}, "momentum has no effect with optimizer adam"),
        (DeepQ, {"optimizer": "sgd", "min_squared_gradient": 0.1}, "omit it, or choose rmsprop$"),
        (VGG, {"optimizer": "adamax"}, "optimizer must be one of sgd, momentum, nesterov"),
    ],
)
def test_a_setting_that_the_chosen_rule_lacks_is_refused(workload, options, message):
    with pytest.raises(FathomError, match=message):
        workload("/cpu:0", options)
    workload("/cpu:0", {"optimizer": "rmsprop"})


def test_rows_are_updated_by_all_rules_but_only_by_some_in_xla():
    small = {"batch_size": 4, "rows": 5, "xla": True}
    DLRM("/cpu:0", small | {"optimizer": "sgd"}).setup()
    model = DLRM("/cpu:0", small | {"optimizer": "momentum"})
    with pytest.raises(FathomError, match="use --no-xla"):
        model.setup()
    assert model.describe().operations  # of which XLA compiles nothing


def test_an_optimizer_that_forgets_goes_on_as_a_new_one():
    optimizer = Adam(0.1)
    train(optimizer, new_variables(), dense_gradients())
    optimizer.forget()
    assert all(not np.any(v) for v in optimizer.variables if v is not optimizer.learning_rate)
