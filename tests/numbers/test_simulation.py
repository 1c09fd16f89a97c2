import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import Autoenc, AutoencFwd, FathomError
from fathom.core.layers import PRNGKey
from fathom.core.training.optimizers import GradientDescent
from fathom.hardware.accelerators import roofline
from fathom.numbers.network import passed
from fathom.numbers.simulation import Simulation, training_headroom
from fathom.options import QUANTIZED, FixedPoint
from fathom.system.device import GPU
from fathom.system.precision import select_precision

SMALL = {"batch_size": 20, "hidden_units": 16, "latents": 4}
COARSE = FixedPoint(16, 4)
X = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)


def on_grid(values, fraction):
    scaled = np.asarray(values, np.float64) * 2**fraction
    return np.array_equal(scaled, np.round(scaled))


@pytest.fixture
def simulate():
    """Gives a function that simulates a network of two layers; returns it, and its step."""

    def build(kinds=QUANTIZED, number_format=COARSE, noise=None, rate=0.125):
        inputs = keras.Input((3,))
        hidden = keras.layers.Dense(5, "relu", kernel_initializer="ones", name="hidden")(inputs)
        normal = keras.initializers.RandomNormal(stddev=1.0, seed=1)
        out = keras.layers.Dense(2, kernel_initializer=normal, name="out")(hidden)
        network = keras.Model(inputs, out)
        step = tf.Variable(0, False, dtype=tf.int64)
        optimizer = GradientDescent(rate)
        optimizer.build(network.trainable_variables)
        simulation = Simulation(network, True, number_format, kinds, "saturate", step, noise)
        optimizer.wrap = simulation.wrap
        simulation.begin()

        @tf.function
        def train(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(network(x) ** 2)
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply(gradients, network.trainable_variables)
            return loss, gradients

        return simulation, network, train

    return build


def test_every_value_between_layers_is_on_the_grid(simulate):
    _, network, _ = simulate()
    assert [layer.name for layer in network.layers][1:] == ["hidden", "out"]
    (x,) = passed(network, [X])
    assert not on_grid(X, 4)
    hidden, out = (network.get_layer(name) for name in ("hidden", "out"))
    values = hidden(x)
    assert all(on_grid(value, 4) for value in (x, values, out(values)))
    np.testing.assert_array_equal(network(X), out(values))
    np.testing.assert_array_equal(network(X.numpy()), out(values))
    exact = np.maximum(x @ hidden.kernel + hidden.bias, 0)
    np.testing.assert_array_equal(values, np.round(exact * 16) / 16)


def test_a_layer_rounds_its_output_in_every_network_that_has_it(simulate):
    _, network, _ = simulate()
    hidden = network.get_layer("hidden")
    other = keras.Model(network.inputs, hidden(hidden.output[:, :3]))  # called twice
    assert on_grid(other(X), 4)
    assert on_grid(tf.function(lambda x: hidden(x))(X), 4)


def test_a_trace_with_the_simulation_off_is_of_float32(simulate):
    simulation, network, _ = simulate()
    with simulation.off():
        assert not on_grid(network(X), 4)
    assert on_grid(network(X), 4)


def test_weights_stay_on_the_grid_and_small_updates_vanish(simulate):
    _, network, train = simulate(rate=1e-6)
    before = [v.numpy() for v in network.trainable_variables]
    assert all(on_grid(value, 4) for value in before)
    train(X)
    assert all(
        np.array_equal(a, b) for a, b in zip(before, network.trainable_variables, strict=True)
    )
    _, network, train = simulate()
    before = network.trainable_variables[0].numpy()
    train(X)
    assert on_grid(network.trainable_variables[0], 4)
    assert (network.trainable_variables[0].numpy() != before).any()


def test_without_rounded_updates_small_ones_accumulate_in_a_float32_copy(simulate):
    kinds = ("weights", "activations", "gradients")
    _, network, train = simulate(kinds, rate=1e-3)
    before = network.trainable_variables[0].numpy()
    for _ in range(60):
        train(X)
        assert on_grid(network.trainable_variables[0], 4)
    assert (network.trainable_variables[0].numpy() != before).any()


def test_the_copy_gives_way_to_weights_set_from_outside(simulate):
    _, network, train = simulate(("weights",), rate=1e-6)
    network.trainable_variables[0].assign(tf.fill([3, 5], 0.25))
    train(X)
    np.testing.assert_array_equal(network.trainable_variables[0], np.full((3, 5), 0.25))


def test_gradients_are_rounded_where_they_enter_a_layer_and_at_the_weights(simulate):
    simulation, _, train = simulate(("gradients",), FixedPoint(16, 2))
    seen = []
    for row in simulation.record().tensors:
        seen.append((row.layer, row.tensor))
    assert ("hidden", "output") in seen
    assert ("hidden", "kernel") in seen
    train(X)
    row = next(r for r in simulation.record().tensors if (r.layer, r.tensor) == ("out", "output"))
    assert row.values == 8


def test_stochastic_rounding_lets_small_updates_through(simulate):
    step = tf.Variable(0, False, dtype=tf.int64)
    seeds = iter(range(100))
    noise = lambda: PRNGKey(next(seeds), step)  # noqa: E731
    simulation, network, train = simulate(noise=noise, rate=1e-3)
    before = network.trainable_variables[0].numpy()
    for _ in range(20):
        train(X)
        step.assign_add(1)
    assert on_grid(network.trainable_variables[0], 4)
    assert (network.trainable_variables[0].numpy() != before).any()
    assert simulation.record().rounding == "stochastic"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Gives the checkpoints and the metrics of a small float32 training."""
    folder = tmp_path_factory.mktemp("float32")
    model = Autoenc("/cpu:0", SMALL)
    model.setup({"checkpoint_dir": folder})
    model.run(n_steps=100)
    return folder, model.evaluate()["negative_elbo"]


def bound(folder, **options):
    model = AutoencFwd("/cpu:0", SMALL | options)
    model.setup({"checkpoint_dir": folder})
    return model.evaluate()["negative_elbo"]


@pytest.mark.slow
def test_calibrated_inference_nears_float32_with_the_bits(trained):
    folder, expected = trained
    errors = [abs(bound(folder, precision=f"fixed{b}") - expected) for b in (4, 8, 16)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3 * expected


@pytest.mark.slow
def test_training_calibrates_on_steps_that_it_undoes_and_resumes_bit_identically(tmp_path):
    def losses(folder, n_steps, resume=False):
        model = Autoenc("/cpu:0", SMALL | {"precision": "fixed16", "steps_per_call": 2})
        model.setup({"checkpoint_dir": folder, "resume": resume})
        result = model.run(n_steps=n_steps)
        assert result.fixed_point.bits == 16
        assert any(row.values for row in result.fixed_point.tensors)
        return result.steps.loss

    whole = losses(tmp_path / "whole", 8)
    first = losses(tmp_path / "parts", 4)
    assert first + losses(tmp_path / "parts", 4, resume=True) == whole
    plain = Autoenc("/cpu:0", SMALL)
    plain.setup()
    assert whole[0] == pytest.approx(plain.run(n_steps=1).steps.loss[0], rel=1e-3)


@pytest.mark.slow
def test_a_training_goes_on_in_another_precision_in_formats_chosen_then(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "copy")
    tensors = []
    for precision in ("fixed16", "fixed32"):
        model = Autoenc("/cpu:0", SMALL | {"precision": precision})
        model.setup({"checkpoint_dir": folder, "resume": True})
        metrics = model.evaluate()
        assert metrics["negative_elbo"] == pytest.approx(trained[1], rel=0.1)
        tensors.append(model.run(n_steps=10).fixed_point.tensors)
    for narrow, wide in zip(*tensors, strict=True):
        assert wide.fraction > narrow.fraction


@pytest.mark.slow
def test_a_training_goes_on_rounding_other_tensors_in_formats_chosen_then(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "copy")
    for kinds in (None, "weights,activations,updates"):
        model = Autoenc("/cpu:0", SMALL | {"precision": "fixed16", "quantize": kinds})
        model.setup({"checkpoint_dir": folder, "resume": True})
        model.run(n_steps=10)
    change = "precision fixed16 -> fixed16 of weights,activations,updates"
    assert f"changed since then: {change}" in model.notes
    assert model.evaluate()["negative_elbo"] == pytest.approx(trained[1], rel=0.1)


@pytest.mark.slow
def test_values_in_training_may_grow_more_the_more_bits_there_are():
    assert [training_headroom(bits) for bits in (8, 16, 24, 32)] == [2, 2, 6, 10]
    tensors = {}
    for bits in (16, 32):
        model = Autoenc("/cpu:0", SMALL | {"precision": f"fixed{bits}", "steps_per_call": 1})
        model.setup()
        model.run(n_steps=1)
        tensors[bits] = model.record().fixed_point.tensors
    for narrow, wide in zip(tensors[16], tensors[32], strict=True):
        assert (wide.tensor, wide.kind) == (narrow.tensor, narrow.kind)
        more = 8 if narrow.kind in ("activations", "gradients") else 16
        assert wide.fraction - narrow.fraction == more


def test_a_description_in_fixed_point_is_of_the_network_itself():
    def describe(precision):
        model = Autoenc("/cpu:0", SMALL | {"precision": precision})
        model.build()
        return model.describe()

    packed, plain = describe("fixed:16.10"), describe("float32")
    assert len(packed.operations) == len(plain.operations)
    assert packed.macs == plain.macs
    products = [row for row in packed.operations if row.macs]
    assert {row.dtype for row in products} == {"fixed16"}
    same = [row for row in plain.operations if row.macs]
    assert sum(row.weight_bytes for row in products) * 2 == sum(row.weight_bytes for row in same)
    assert sum(row.result_bytes for row in products) * 2 == sum(row.result_bytes for row in same)
    assert packed.held_bytes == plain.held_bytes  # a training's weights stay in float32
    assert roofline.memory_bytes(packed) == roofline.memory_bytes(plain, "fixed16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fixed1"}, "from 2 to 64 bits, not 1"),
        ({"precision": "fixed:65.3"}, "from 2 to 64 bits, not 65"),
        ({"precision": "fixed:16.17"}, "more than its 16 bits"),
        ({"precision": "fixed16", "quantize": "weights,values"}, "unknown kind of tensor"),
        ({"precision": "fixed16", "rounding": "up"}, "unknown rounding"),
        ({"precision": "fixed32", "overflow": "wrap"}, "at most 24 bits"),
    ],
)
def test_unusable_formats_are_refused(options, message):
    with pytest.raises(FathomError, match=message):
        Autoenc("/cpu:0", SMALL | options)


def test_rounding_nothing_in_inference_is_refused():
    model = AutoencFwd("/cpu:0", SMALL | {"precision": "fixed16", "quantize": "gradients,updates"})
    with pytest.raises(FathomError, match="quantize gradients,updates has no effect in inference"):
        model.build()


def test_a_gpu_is_refused():
    with pytest.raises(FathomError, match="on the CPU only"):
        select_precision("fixed16", GPU)


def test_a_calibration_of_values_that_are_not_finite_is_refused():
    inputs = keras.Input((3,))
    network = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    step, chosen = tf.Variable(0, False, dtype=tf.int64), FixedPoint(16, None)
    simulation = Simulation(network, False, chosen, ("activations",), "saturate", step, None)
    simulation.calibrate()
    network(tf.fill([1, 3], 3e38))
    with pytest.raises(FathomError, match="output are not finite in the calibration"):
        simulation.begin()


def test_calibration_needs_data(monkeypatch):
    monkeypatch.setattr(AutoencFwd, "inference_batches", lambda self: iter(()))
    with pytest.raises(FathomError, match="no data to calibrate on"):
        AutoencFwd("/cpu:0", SMALL | {"precision": "fixed16"}).setup()
