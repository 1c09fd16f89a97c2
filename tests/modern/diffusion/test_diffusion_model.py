"""The diffusion transformer against its formulas in NumPy, and its sampling step by step."""

import math

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import gelu, perturbed, silu, softmax, weights_of

from fathom.measure.serving.engine import Engine
from fathom.modern.diffusion.layers import positions
from fathom.modern.diffusion.model import Diffusion, DiffusionFwd
from fathom.modern.diffusion.process import signal, steps_back

SMALL = {
    **{"layers": 2, "heads": 2, "width": 16, "patch": 7, "batch_size": 3, "sampling_steps": 4},
    **{"xla": False},
}


def make(kind=Diffusion, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup()
    perturbed(model, 0.2)
    model.build_state()  # an average of these
    return model


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def attended(x, w, heads):
    parts = []
    for q, k, v in zip(
        *(np.split(each, heads, 1) for each in np.split(x @ w["kernel"] + w["bias"], 3, 1)),
        strict=True,
    ):
        scores = q @ k.T / np.sqrt(q.shape[1])
        parts.append(softmax(scores) @ v)
    return np.concatenate(parts, 1) @ w["projection_kernel"] + w["projection_bias"]


def fed(x, w):
    return gelu(x @ w["kernel"] + w["bias"]) @ w["projection_kernel"] + w["projection_bias"]


def noise_of(model, image, time, label):
    """Returns the noise in one image, computed in NumPy in float64."""
    w, sizes = weights_of(model.network), model.hyperparameters
    n, p = sizes.side // sizes.patch, sizes.patch
    patches = image.reshape(n, p, n, p).swapaxes(1, 2).reshape(n * n, p * p)
    x = patches @ w["patches"]["kernel"] + w["patches"]["bias"] + positions(n, sizes.width)
    angles = time * np.exp(-math.log(1e4) * np.arange(128) / 128)
    first, own = w["time"], w["condition"]
    c = np.concatenate([np.cos(angles), np.sin(angles)]) @ first["kernel"] + first["bias"]
    c = silu(c) @ own["kernel"] + own["bias"]
    c = silu(c + own["classes"][label])
    for i in range(1, sizes.layers + 1):
        m = w[f"block{i}_modulation"]
        shift1, scale1, gate1, shift2, scale2, gate2 = np.split(c @ m["kernel"] + m["bias"], 6)
        y = normalized(x) * (1 + scale1) + shift1
        x = x + gate1 * attended(y, w[f"block{i}_attention"], sizes.heads)
        y = normalized(x) * (1 + scale2) + shift2
        x = x + gate2 * fed(y, w[f"block{i}_feed_forward"])
    m = w["modulation"]
    shift, scale = np.split(c @ m["kernel"] + m["bias"], 2)
    y = (normalized(x) * (1 + scale) + shift) @ w["pixels"]["kernel"] + w["pixels"]["bias"]
    return y.reshape(n, n, p, p).swapaxes(1, 2).reshape(sizes.side, sizes.side, 1)


def test_the_network_is_that_of_the_paper():
    model = make()
    rng = np.random.default_rng(1)
    images = rng.normal(size=(3, 28, 28, 1)).astype(np.float32)
    times, classes = np.array([0, 500, 999], np.int32), np.array([0, 10, 7], np.int32)
    found = model.dit(tf.constant(images), tf.constant(times), tf.constant(classes)).numpy()
    for i in range(3):
        expected = noise_of(model, images[i].astype(np.float64), times[i], classes[i])
        np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-4)


def test_an_untrained_network_finds_no_noise():
    model = Diffusion("/cpu:0", SMALL)
    model.setup()
    images, classes = next(model.training_batches(0))
    found, noise = model.network([images, classes])
    assert not found.numpy().any()
    assert float(tf.reduce_mean(noise**2)) == pytest.approx(1, abs=0.1)


def test_images_and_noise_are_mixed_by_the_share_of_their_time():
    model = make(batch_size=200)
    images = tf.ones([200, 28, 28, 1])
    noisy, times, noise = (each.numpy() for each in model.noising(images))
    share = signal()[times][:, None, None, None]
    np.testing.assert_allclose(
        noisy, np.sqrt(share) + np.sqrt(1 - share) * noise, rtol=1e-5, atol=1e-5
    )
    assert 0 <= times.min() < 50
    assert 950 < times.max() < 1000


def test_the_shares_are_those_of_the_paper():
    share = signal()
    assert share[0] == pytest.approx(1 - 1e-4)
    assert share[-1] == pytest.approx(4.04e-5, rel=0.01)


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
def test_a_step_of_sampling_keeps_images_of_known_noise(sampler):
    times, factors = steps_back(sampler, 1000)
    a, b, c, s = factors.astype(np.float64).T
    now, then = signal()[times], np.append(signal()[times[1:]], 1)
    # Of x = sqrt(now) x_0 + sqrt(1 - now) e: what is left of x_0, and the variance of the rest.
    np.testing.assert_allclose(a + b * np.sqrt(now), np.sqrt(then), atol=1e-6)
    np.testing.assert_allclose((b * np.sqrt(1 - now) + c) ** 2 + s**2, 1 - then, atol=1e-5)
    assert times.tolist() == list(range(999, -1, -1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ({"guidance": 1.0}, {"xla": True})
        ),
    ],
)
def test_sampling_follows_equation_12_of_ddim(options):
    model = make(DiffusionFwd, **options)
    guidance = options.get("guidance", 2.0)
    noise, classes = next(model.inference_batches())
    found = model.compiled.step.call(noise, classes).numpy()
    times = [750, 500, 250, 0]
    for i in range(3):
        x, label = noise[i].numpy().astype(np.float64), int(classes[i])
        for time, then in zip(times, [*signal()[times[1:]], 1.0], strict=True):
            now = signal()[time]
            e, unknown = (noise_of(model, x, time, each) for each in (label, 10))
            e = unknown + guidance * (e - unknown)
            image = np.clip((x - np.sqrt(1 - now) * e) / np.sqrt(now), -1, 1)
            e = (x - np.sqrt(now) * image) / np.sqrt(1 - now)  # of the image that was cut
            x = np.sqrt(then) * image + np.sqrt(1 - then) * e
        np.testing.assert_allclose(found[i], x, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_ddpm_draws_noise_of_its_own_in_each_step():
    model = make(DiffusionFwd, sampler="ddpm")
    noise, classes = next(model.inference_batches())
    one, other = (model.compiled.step.call(noise, classes).numpy() for _ in range(2))
    assert np.abs(one - other).max() > 1e-3
    assert np.isfinite(one).all()


@pytest.mark.slow
def test_evaluation_and_sampling_use_the_average(tmp_path):
    model = Diffusion("/cpu:0", SMALL)
    model.setup({"checkpoint_dir": str(tmp_path)})
    model.run(n_steps=4)
    weights = [v.numpy() for v in model.network.trainable_variables]
    average = [v.numpy() for v in model.state().values()]
    assert any(np.abs(a - w).max() > 1e-5 for a, w in zip(average, weights, strict=True))
    with model.average.applied():
        for variable, expected in zip(model.network.trainable_variables, average, strict=True):
            np.testing.assert_array_equal(variable.numpy(), expected)
    model.evaluate()
    for variable, expected in zip(model.network.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(variable.numpy(), expected)
    twin = DiffusionFwd("/cpu:0", SMALL)
    twin.setup({"checkpoint_dir": str(tmp_path)})
    returned = []
    twin.run(n_steps=1, runstep=lambda step, batch: returned.append(step(*batch)))
    noise, classes = next(twin.inference_batches())
    trajectory = model.sample(noise.numpy(), classes.numpy())
    np.testing.assert_allclose(trajectory[-1], returned[0], rtol=1e-4, atol=1e-4)
    engine = Engine(twin, samples=4, limit=4)  # of fathom serve
    images = model.sample(*map(np.stack, zip(*engine.samples, strict=True)))[-1]
    np.testing.assert_allclose(engine.run(engine.samples)[0][:4], images, rtol=1e-4, atol=1e-4)


def test_averages_are_rounded_in_fixed_point():
    model = DiffusionFwd("/cpu:0", SMALL | {"precision": "fixed8", "quantize": "weights"})
    model.setup()
    kernel = max(model.network.trainable_variables, key=lambda each: np.prod(each.shape))
    with model.evaluated_weights():
        assert 2 < len(np.unique(kernel.numpy())) <= 256


@pytest.mark.parametrize("count", [1, 3, 50, 350, 501, 1000])
def test_sampling_begins_with_noise_at_any_number_of_steps(count):
    times, _ = steps_back("ddim", count)
    assert times[-1] == 0
    assert (np.diff(times) < 0).all()
    assert times[0] >= 1000 - -(-1000 // count)


@pytest.mark.slow
def test_the_average_is_bit_equal_after_resuming(tmp_path):
    whole, part = (Diffusion("/cpu:0", SMALL) for _ in range(2))
    whole.setup()
    whole.run(n_steps=5)
    part.setup({"checkpoint_dir": str(tmp_path)})
    part.run(n_steps=2)
    resumed = Diffusion("/cpu:0", SMALL)
    resumed.setup({"checkpoint_dir": str(tmp_path), "resume": True})
    resumed.run(n_steps=3)
    for name, variable in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name].numpy(), variable.numpy())


@pytest.mark.slow
def test_the_rate_stays_or_falls_to_a_tenth(tmp_path):
    model = Diffusion("/cpu:0", SMALL | {"learning_rate": 0.01})
    model.setup()
    model.run(n_steps=2)
    assert model.learning_rate.numpy() == pytest.approx(0.01)
    options = SMALL | {"learning_rate": 0.01, "decay_steps": 4}
    for done, rate in ((2, 0.0055), (4, 0.001), (5, 0.001)):  # the middle of the cosine; its end
        model = Diffusion("/cpu:0", options)
        model.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        model.run(n_steps=done - model.steps_done)
        assert model.learning_rate.numpy() == pytest.approx(rate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "gmacs", "parameters"),
    [
        ("s", 6.06, 32_865_056),
        ("b", 23.01, 130_315_808),
        ("l", 80.71, 457_840_672),
        ("xl", 118.64, 674_834_720),
    ],
)
def test_the_papers_sizes_are_described_with_the_published_work(size, gmacs, parameters):
    described = Diffusion("cpu", {"size": size, "batch_size": 1}).describe()  # allocates nothing
    forward = sum(row.macs for row in described.operations if row.phase == "forward")
    assert forward / 1e9 == pytest.approx(gmacs, abs=0.02)
    assert described.parameters == parameters
