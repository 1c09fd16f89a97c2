"""Llama against its formulas in NumPy, and decoding with a cache against without."""

import numpy as np
import pytest
import tensorflow as tf

from fathom.errors import FathomError
from fathom.modern.llama.model import Llama, LlamaFwd
from fathom.shared.language.rotary import rotate

SMALL = {
    **{"layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "hidden_units": 24, "context": 12},
    **{"batch_size": 3, "xla": False},
}


def make(kind=Llama, **options):
    model = kind("/cpu:0", {**SMALL, **options})
    model.setup()
    rng = np.random.default_rng(0)
    for variable in model.network.variables:
        variable.assign(variable + rng.normal(0, 0.3, variable.shape))
    return model


def normalized(x, w):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w["scale"]


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
        weights = np.exp(scores - scores.max(1, keepdims=True))
        parts.append(weights / weights.sum(1, keepdims=True) @ v[:, shared])
    return np.concatenate(parts, 1) @ w["projection"]


def fed(x, w):
    gates, values = np.split(x @ w["kernel"], 2, 1)
    return (gates / (1 + np.exp(-gates)) * values) @ w["projection"].T


def logits_of(model, tokens):
    """Returns the logits of one sequence, computed in NumPy in float64."""
    w, sizes = {}, model.hyperparameters
    for variable in model.network.variables:
        layer, name = variable.path.split("/")
        w.setdefault(layer, {})[name] = variable.numpy().astype(np.float64)
    x = w["embedding"]["tokens"][tokens]
    for i in range(1, sizes.layers + 1):
        attention = w[f"block{i}_attention"]
        y = normalized(x, w[f"block{i}_norm1"])
        x = x + attended(y, attention, sizes.heads, sizes.kv_heads, sizes.rope_base)
        x = x + fed(normalized(x, w[f"block{i}_norm2"]), w[f"block{i}_feed_forward"])
    return normalized(x, w["norm"]) @ w["logits"]["kernel"]


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"kv_heads": 4, "rope_base": 100.0}])
def test_the_network_is_that_of_the_papers(options):
    model = make(**options)
    tokens = next(model.training_batches(0))[0]
    logits = model.network(tokens).numpy()
    for i in range(3):
        expected = logits_of(model, tokens[i].numpy())
        np.testing.assert_allclose(logits[i], expected, rtol=1e-4, atol=1e-4)


_OTHERS = ({"prompt_tokens": 1}, {"new_tokens": 2}, {"xla": True})


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in _OTHERS)]
)
def test_decoding_with_the_cache_equals_decoding_without(options):
    model = make(LlamaFwd, **options)
    prompts = next(model.inference_batches())[0]
    generated = model.compiled.step.call(prompts).numpy()
    assert generated.shape == (3, model.hyperparameters.new_tokens)
    for prompt, tokens in zip(prompts.numpy(), generated, strict=True):
        sequence = list(prompt)
        for _ in tokens:
            sequence.append(int(np.argmax(logits_of(model, sequence)[-1])))
        assert tokens.tolist() == sequence[len(prompt) :]


def test_the_cache_holds_the_keys_and_values_of_groups_alone():
    result = make(LlamaFwd).run(n_steps=2)
    # Keys and values of 2 blocks for 11 tokens of 2 heads of 4 float32 values, of 3 sequences.
    assert result.generation.cache_bytes == 2 * 2 * 11 * 2 * 4 * 4 * 3


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        pytest.param("7b", 6_738_415_616, marks=pytest.mark.slow),
        pytest.param("8b", 8_030_261_248, marks=pytest.mark.slow),
        pytest.param("70b", 70_553_706_496, marks=pytest.mark.slow),
        pytest.param("405b", 405_853_388_800, marks=pytest.mark.slow),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
        ({"width": 12}, r"the 3 values of a head \(width/heads\) are an odd number"),
        ({"width": 18}, "width 18 is not a multiple of heads 4"),
    ],
)
def test_an_unusable_size_is_named_in_one_line(options, message):
    with pytest.raises(FathomError, match=message):
        Llama("/cpu:0", {**SMALL, **options})
