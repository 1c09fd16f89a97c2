"""The programs in JAX compute what Fathom does: results and gradients, of the same weights."""

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fathom import workloads
from fathom.modern.gcn.layers import normalized_adjacency, normalized_rows
from fathom.modern.transformer.embedding import sinusoids

jax = pytest.importorskip("jax")
jnp = jax.numpy
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RNG = np.random.default_rng(0)


@pytest.fixture
def program(monkeypatch):
    """Imports a program; its allocator would be that of all tests.

    Each test has the same random numbers, whichever ran before.
    """
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(0))
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(importlib.import_module("program"), "keep_memory", lambda: None)
    yield importlib.import_module
    for name in [name for name in sys.modules if name.startswith(("jax_", "program"))]:
        monkeypatch.delitem(sys.modules, name)


def model_of(name, **options):
    model = workloads.load(name)("/cpu:0", {"batch_size": 4, **options})
    model.setup()
    for variable in model.network.trainable_variables:  # also biases, which begin at zero
        variable.assign(variable + 0.1 * RNG.standard_normal(variable.shape).astype(np.float32))
    return model


def weights_of(model):
    return {variable.path: variable.numpy() for variable in model.network.trainable_variables}


def words(below, *size):
    return RNG.integers(4, below, size).astype(np.int32)


def close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-4 * np.abs(expected).max() + 1e-6)


def check(model, inputs, weights, theirs, ours=lambda outputs: outputs, compare=close):
    """Compares results, and the gradients of a sum of them with random weights.

    Args:
        model: of Fathom.
        inputs: of its network.
        weights: returns those of the program from Fathom's by name; also maps gradients.
        theirs: the program's function of its weights.
        ours: what it is compared with, of the network's outputs.
        compare: two gradients.
    """
    variables = model.network.trainable_variables
    with tf.GradientTape() as tape:
        result = ours(model.network(inputs, training=False))
        odds = RNG.standard_normal(result.shape).astype(np.float32)
        total = tf.reduce_sum(result * odds)
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, variables)]
    by_name = dict(zip([v.path for v in variables], gradients, strict=True))
    chosen = jax.tree.map(jnp.asarray, weights(weights_of(model)))
    close(theirs(chosen), result.numpy())
    found = jax.grad(lambda w: (theirs(w) * odds).sum())(chosen)
    jax.tree.map(compare, found, weights(by_name))
    return chosen


def test_autoenc(program):
    module, model = program("jax_autoenc"), model_of("autoenc")
    kernel, bias = model.network.get_layer("encoder_gaussian").weights
    kernel.assign(np.hstack([kernel.numpy()[:, :20], np.zeros((500, 20))]))
    bias.assign(np.r_[bias.numpy()[:20], np.full(20, -100)])  # no noise: it is not JAX's

    def weights(of):
        pair = {"encoder": "encoder_hidden", "hidden": "decoder_hidden"}
        found = {name: (of[f"{n}/kernel"], of[f"{n}/bias"]) for name, n in pair.items()}
        found["decoder"] = of["decoder_logits/kernel"], of["decoder_logits/bias"]
        gaussian = of["encoder_gaussian/kernel"], of["encoder_gaussian/bias"]
        found["mean"] = tuple(each[..., :20] for each in gaussian)
        found["log_variance"] = tuple(each[..., 20:] for each in gaussian)
        return found

    pixels, key = RNG.random((4, 784)).astype(np.float32), jax.random.key(0)

    def logits(weights):
        return module.network(weights, pixels, key)[0]

    chosen = check(model, pixels, weights, logits, lambda outputs: outputs.logits)
    loss = model.build_loss(tf.constant(pixels), (), model.network(pixels))
    close(module.negative_elbo(module.network(chosen, pixels, key), pixels), loss)


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_memnet(program, together):
    module, model = program("jax_memnet"), model_of("memnet", random_noise=0, linear_start=False)

    def weights(of):  # Fathom has no row for the null word
        names = ("A1", "C1", "C2", "C3")
        matrices = [np.vstack([np.zeros((1, 20)), of[f"{name}/matrix"]]) for name in names]
        times = [value for name, value in of.items() if name.startswith("T_")]
        return {"matrices": matrices, "times": times}

    size = model.babi.train.story.shape[1:]
    story, question = words(len(model.babi.vocabulary), 4, *size), words(9, 4, size[1])
    story[:, 20:] = 0
    check(
        model,
        (story, question),
        weights,
        lambda w: module.network(w, story, question, together)[:, 1:],
    )


@pytest.mark.slow
def test_gpt(program):
    module, model = program("jax_gpt"), model_of("gpt", layers=2)

    def pair(of, name, first="scale", second="offset"):
        return of[f"{name}/{first}"], of[f"{name}/{second}"]

    def block(of, name):
        attention, mlp = f"{name}_attention", f"{name}_mlp"
        return {
            **{"norm1": pair(of, f"{name}_norm1"), "norm2": pair(of, f"{name}_norm2")},
            "qkv": pair(of, attention, "kernel", "bias"),
            "projection": pair(of, attention, "projection", "projection_bias"),
            "expand": pair(of, mlp, "kernel", "bias"),
            "contract": pair(of, mlp, "projection", "projection_bias"),
        }

    def weights(of):
        tables = {name: of[f"embedding/{name}"] for name in ("tokens", "positions")}
        blocks = [block(of, f"block{i}") for i in (1, 2)]
        return {**tables, "blocks": blocks, "norm": pair(of, "norm")}

    tokens = words(len(model.vocabulary), 4, 64)
    chosen = check(model, tokens, weights, lambda w: module.logits(w, tokens, 4))
    found = module.logits(chosen, tokens, 4)
    cache = [(jnp.zeros((4, 4, 64, 32)),) * 2 for _ in chosen["blocks"]]
    step, cache = module.next_tokens(chosen, tokens[:, :60], 4, cache, 0)
    assert (step[:, 0] == found[:, 59].argmax(-1)).all()
    step, cache = module.next_tokens(chosen, tokens[:, 60:61], 4, cache, 60)
    assert (step[:, 0] == found[:, 60].argmax(-1)).all()


def transformer_weights(of, layers):
    def dense(name):
        kernel = of[f"{name}/kernel"]
        return kernel, of.get(f"{name}/bias", np.zeros(kernel.shape[1], np.float32))

    def layer(name, attentions):
        parts = {}
        for part in attentions:
            qkv, output = (dense(f"{name}/{part}/{each}") for each in ("projections", "output"))
            norm = f"{name}/{part.replace('attention', 'attended')}"
            parts[part] = {"qkv": qkv, "output": output, "norm": norm}
        both = {each: dense(f"{name}/feed_forward/{each}") for each in ("first", "second")}
        parts["feed_forward"] = {**both, "norm": f"{name}/fed_forward"}
        for values in parts.values():
            norm = values["norm"]
            values["norm"] = of[f"{norm}/scale"], of[f"{norm}/offset"]
        return parts

    return {
        "embedding": of["embedding/matrix"],
        "encoder": [layer(f"encoder_{i + 1}", ["attention"]) for i in range(layers)],
        "decoder": [
            layer(f"decoder_{i + 1}", ["attention", "source_attention"]) for i in range(layers)
        ],
    }


@pytest.mark.slow
def test_transformer(program):
    module, model = program("jax_transformer"), model_of("transformer", layers=2)
    source, target = (jnp.asarray(words(8000, 4, 16)) for _ in range(2))
    places = jnp.asarray(sinusoids(tf.range(64), 128))
    matrix = model.network.get_layer("embedding").matrix.value

    def logits(weights, target=target):
        return module.logits(weights, source, target, places, 4, module.Dropout())

    def compare(found, expected):
        if expected.any():  # Fathom's attention has no biases
            close(found, expected)

    chosen = check(
        model,
        (np.asarray(source), np.asarray(target)),
        lambda of: transformer_weights(of, 2),
        logits,
        lambda states: tf.matmul(states, matrix, transpose_b=True),
        compare,
    )
    states = model.network((np.asarray(source), np.asarray(target)), training=False)
    loss = model.build_loss((), tf.constant(np.asarray(target)), states)
    close(module.smoothed(logits(chosen), target), loss.numpy())
    translated = module.greedy(chosen, source, places, 4, 8)[..., 0].T
    given = jnp.hstack([jnp.ones((4, 1), jnp.int32), translated[:, :-1]])
    assert (translated == logits(chosen, given).argmax(-1)).all()


@pytest.mark.parametrize(
    "form",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in ("BCSR", "BCOO")), "segment sum"],
)
def test_gcn(program, form):
    module, model = program("jax_gcn"), model_of("gcn")
    graph = model.graph
    matrices = []
    for each in (
        normalized_adjacency(graph.edges, len(graph.classes)),
        normalized_rows(graph.features),
    ):
        each = each.tocoo()
        matrices.append(module.sparse_matrix(each.row, each.col, each.data, each.shape))
    nodes = np.arange(50, dtype=np.int32)
    check(
        model,
        nodes,
        lambda of: [of["W0/kernel"], of["W1/kernel"]],
        lambda w: module.network(w, *matrices, form)[nodes],
    )


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_step_runs(program, mode):
    module = program("jax_gcn")
    sizes = {"nodes": 40, "edges": 60, "features": 9, "nonzeros": 80, "classes": 3}
    args = argparse.Namespace(mode=mode, batch_size=5, **sizes)
    step = module.make_step(args, "BCSR")
    step()
    step()
