"""Mamba against its recurrence in NumPy, and the scan in chunks and parts."""

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import perturbed, rms_normalized, silu, weights_of

from fathom.modern.mamba.model import Mamba, MambaFwd
from fathom.modern.mamba.scan import selective_scan

SMALL = {"layers": 2, "width": 16, "context": 12, "batch_size": 3, "xla": False}


def make(kind=Mamba, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup()
    return perturbed(model, 0.2)


def recurred(steps, u, b, c, a, h):
    """Returns results [time, E] and the last state of one sequence, a position after the other."""
    results = []
    for s, inputs, write, read in zip(steps, u, b, c, strict=True):
        h = np.exp(s * a) * h + write[:, None] * inputs
        results.append(read @ h)
    return np.array(results), h


def mixed(x, w):
    values, gate = np.split(x @ w["kernel"], 2, 1)
    padded = np.pad(values, ((3, 0), (0, 0)))
    taps = w["taps"][:, 0]
    values = silu(sum(padded[i : i + len(x)] * taps[i] for i in range(4)) + w["taps_bias"])
    rank = len(w["steps"])
    steps, b, c = np.split(values @ w["selection"], [rank, rank + 16], 1)
    steps = np.log1p(np.exp(steps @ w["steps"] + w["steps_bias"]))
    rates = -np.exp(w["log_rates"])
    y, _ = recurred(steps, steps * values, b, c, rates, np.zeros_like(rates))
    return ((y + values * w["skip"]) * silu(gate)) @ w["projection"]


def logits_of(model, tokens):
    """Returns the logits of one sequence, computed in NumPy in float64."""
    w = weights_of(model.network)
    x = w["embedding"]["tokens"][tokens]
    for i in range(1, model.hyperparameters.layers + 1):
        x = x + mixed(rms_normalized(x, w[f"block{i}_norm"]), w[f"block{i}_mixer"])
    return rms_normalized(x, w["norm"]) @ w["embedding"]["tokens"].T


def arguments(time, batch=2, width=5, states=4):
    rng = np.random.default_rng(time)
    shapes = [(batch, time, width)] * 2 + [(batch, time, states)] * 2
    steps, u, b, c = (rng.normal(size=shape) for shape in shapes)
    a, begin = -np.exp(rng.normal(size=(states, width))), rng.normal(size=(batch, states, width))
    return [tf.constant(x, tf.float32) for x in (np.abs(steps), u, b, c, a, begin)]


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.slow), {"chunks": 5}])
def test_the_network_is_that_of_the_paper(options):
    model = make(**options)
    tokens = next(model.training_batches(0))[0]
    logits = model.network(tokens).numpy()
    for i in range(3):
        expected = logits_of(model, tokens[i].numpy())
        np.testing.assert_allclose(logits[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("time", "chunks"), [(1, 1), (12, 1), (12, 3), (13, 4), (3, 8)])
@pytest.mark.parametrize("xla", [False, True])
def test_the_scan_in_chunks_is_the_recurrence(time, chunks, xla):
    given = arguments(time)
    scan = tf.function(selective_scan, jit_compile=xla, autograph=False)
    y, last = scan(*given, chunks=chunks)
    for i in range(2):
        steps, u, b, c, a, begin = (x.numpy().astype(np.float64) for x in given)
        expected, end = recurred(steps[i], u[i], b[i], c[i], a, begin[i])
        np.testing.assert_allclose(y[i], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(last[i], end, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("time", "chunks"), [(12, 1), (12, 3), (13, 4), (3, 8)])
def test_the_gradients_of_the_scan_are_those_of_the_recurrence(time, chunks):
    given = arguments(time)

    def total(y, last):
        return tf.reduce_sum(tf.sin(y)) + tf.reduce_sum(tf.cos(last))

    def recurrence(steps, u, b, c, a, h):
        results = []
        for t in range(time):
            h = tf.exp(steps[:, t, None] * a) * h + b[:, t, :, None] * u[:, t, None]
            results.append(tf.reduce_sum(c[:, t, :, None] * h, 1))
        return tf.stack(results, 1), h

    found = []
    for scan in (lambda *given: selective_scan(*given, chunks), recurrence):
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = total(*scan(*given))
        found.append(tape.gradient(loss, given))
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cut", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7, 11))])
def test_a_sequence_in_two_parts_is_the_sequence_at_once(cut):
    model = make(MambaFwd, chunks=3)
    tokens = tf.constant(np.random.default_rng(cut).integers(0, 27, (3, 12)), tf.int32)
    whole, ends = model.decoder(tokens)
    first, caches = model.decoder(tokens[:, :cut])
    second, caches = model.decoder(tokens[:, cut:], caches, cut)
    np.testing.assert_allclose(tf.concat([first, second], 1), whole, rtol=1e-4, atol=1e-4)
    for ours, expected in zip(caches, ends, strict=True):
        for part, of_whole in zip(ours, expected, strict=True):
            np.testing.assert_allclose(part, of_whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("context", [12, pytest.param(24, marks=pytest.mark.slow)])
def test_the_state_has_the_same_size_at_any_context(context):
    result = make(MambaFwd, context=context).run(n_steps=2)
    # Of 3 sequences and 2 blocks, 32 channels: 16 states and 3 inputs, float32.
    assert result.generation.cache_bytes == 3 * 2 * 32 * (16 + 3) * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ("130m", 129_135_360),
        ("370m", 371_516_416),
        ("790m", 793_204_224),
        ("1.4b", 1_372_178_432),
        ("2.8b", 2_768_345_600),
    ],
)
def test_the_papers_sizes_are_described_with_the_published_models_parameters(size, parameters):
    model = Mamba("cpu", {"size": size})
    described, given = model.describe(), model.hyperparameters  # nothing is allocated
    width, rank = given.width, -(-given.width // 16)
    block = 6 * width * width + 2 * width * (2 * rank + 32)
    assert described.parameters == parameters
    assert described.macs == 3 * given.context * (given.layers * block + width * given.vocabulary)


def test_initial_weights_are_the_published_ones():
    model = Mamba("/cpu:0", {"width": 256, "layers": 2})
    model.build()
    layer = model.network.get_layer("block2_mixer")
    steps = np.log1p(np.exp(layer.steps_bias.numpy()))
    assert 1e-3 * 0.999 <= steps.min() < 1.2e-3
    assert 0.08 < steps.max() <= 0.1 * 1.001
    assert np.median(steps) == pytest.approx(1e-2, rel=0.3)  # of the logarithm
    np.testing.assert_allclose(np.exp(layer.log_rates.numpy()[:, 7]), range(1, 17), rtol=1e-6)
    limit = (512 * 2) ** -0.5
    assert np.abs(layer.projection.numpy()).max() == pytest.approx(limit, rel=0.01)


@pytest.mark.slow
def test_matrices_decay_but_not_the_rates():
    model = make()
    kept = {v.path.split("/")[-1] for v in model.network.variables if not model.is_weight_matrix(v)}
    assert kept == {"scale", "taps_bias", "steps_bias", "skip", "log_rates"}
