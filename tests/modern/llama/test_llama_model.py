"""Llama against its formulas in NumPy, and its sizes against the published ones."""

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import perturbed, rms_normalized, softmax, swiglu, weights_of

from fathom.modern.llama.model import Llama, LlamaFwd
from fathom.shared.language.rotary import rotate

SMALL = {
    **{"layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "hidden_units": 24, "context": 12},
    **{"batch_size": 3, "xla": False},
}


def make(kind=Llama, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup()
    return perturbed(model)


def rotated(x, base):
    """Rotates [time, d] as complex numbers, of value i and value i + d/2."""
    half = x.shape[1] // 2
    angles = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], 1)


def attended(x, w, heads, groups, base):
    size = w["projection"].shape[0] // heads
    q, k, v = np.split(x @ w["kernel"], [heads * size, (heads + groups) * size], 1)
    parts = []
    for h in range(heads):
        own, group = slice(h * size, (h + 1) * size), h // (heads // groups)
        shared = slice(group * size, (group + 1) * size)
        scores = rotated(q[:, own], base) @ rotated(k[:, shared], base).T / np.sqrt(size)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        parts.append(softmax(scores) @ v[:, shared])
    return np.concatenate(parts, 1) @ w["projection"]


def logits_of(model, tokens):
    """Returns the logits of one sequence, computed in NumPy in float64."""
    w, sizes = weights_of(model.network), model.hyperparameters
    x = w["embedding"]["tokens"][tokens]
    for i in range(1, sizes.layers + 1):
        attention, fed = w[f"block{i}_attention"], w[f"block{i}_feed_forward"]
        y = rms_normalized(x, w[f"block{i}_norm1"])
        x = x + attended(y, attention, sizes.heads, sizes.kv_heads, sizes.rope_base)
        y = rms_normalized(x, w[f"block{i}_norm2"])
        x = x + swiglu(y, fed["kernel"], fed["projection"].T)
    return rms_normalized(x, w["norm"]) @ w["logits"]["kernel"]


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"kv_heads": 4, "rope_base": 100.0}])
def test_the_network_is_that_of_the_papers(options):
    model = make(**options)
    tokens = next(model.training_batches(0))[0]
    logits = model.network(tokens).numpy()
    for i in range(3):
        expected = logits_of(model, tokens[i].numpy())
        np.testing.assert_allclose(logits[i], expected, rtol=1e-4, atol=1e-4)


def test_the_cache_holds_the_keys_and_values_of_groups_alone():
    result = make(LlamaFwd).run(n_steps=2)
    # Keys and values of 2 blocks for 11 tokens of 2 heads of 4 float32 values, of 3 sequences.
    assert result.generation.cache_bytes == 2 * 2 * 11 * 2 * 4 * 4 * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ("7b", 6_738_415_616),
        ("8b", 8_030_261_248),
        ("70b", 70_553_706_496),
        ("405b", 405_853_388_800),
    ],
)
def test_the_papers_sizes_are_described_with_the_published_models_parameters(size, parameters):
    model = Llama("cpu", {"size": size})
    described, given = model.describe(), model.hyperparameters  # nothing is allocated
    width, time, hidden = given.width, given.context, given.hidden_units
    shared = width * given.kv_heads // given.heads
    block = width * (2 * width + 2 * shared + 2 * time) + 3 * hidden * width
    assert described.parameters == parameters
    assert described.macs == 3 * time * (given.layers * block + width * given.vocabulary)


def test_scores_depend_on_the_distance_of_positions_alone():
    rng = np.random.default_rng(1)
    query, key = (tf.constant(rng.normal(size=(1, 1, 1, 8)), tf.float32) for _ in range(2))

    def score(i, j):
        turned = (rotate(x, tf.constant([p]), 1e4) for x, p in ((query, i), (key, j)))
        return float(tf.matmul(*turned, transpose_b=True)[0, 0, 0, 0])

    assert score(7, 3) == pytest.approx(score(1004, 1000), abs=1e-4)
    assert score(7, 3) != pytest.approx(score(3, 7), abs=1e-2)
