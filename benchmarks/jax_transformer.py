"""JAX baseline of transformer: the network and the update of pytorch_transformer.py, by ``jit``.

Inference reads given target words, or decodes greedily in one loop of XLA with a cache of keys and
values. Words are random, the same in every step.

    python benchmarks/jax_transformer.py --mode train --length 20
"""

import argparse
import functools
import math
from collections.abc import Iterator
from typing import Any

import jax_program  # first: it sets up the allocator
import numpy as np
import program
from jax_program import State, Tree

import jax  # isort: skip
from jax import Array, numpy as jnp  # isort: skip

PLACES, SMOOTHING, RATE, BETAS = 512, 0.1, 1e-4, (0.9, 0.98)


def new_weights(args: argparse.Namespace, rng: np.random.Generator) -> dict[str, Any]:
    """Returns the weights; one matrix is that of both embeddings and the softmax."""
    width = args.width

    def dense(inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        matrix = rng.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        return matrix, np.zeros(outputs, np.float32)

    def layer(attentions: tuple[str, ...]) -> dict[str, Any]:
        sublayers = {
            name: {"qkv": dense(width, 3 * width), "output": dense(width, width)}
            for name in attentions
        }
        sublayers["feed_forward"] = {
            "first": dense(width, args.hidden_units),
            "second": dense(args.hidden_units, width),
        }
        one, zero = np.ones(width, np.float32), np.zeros(width, np.float32)
        return {name: {**parts, "norm": (one, zero)} for name, parts in sublayers.items()}

    return {
        "embedding": rng.normal(0, width**-0.5, (args.vocabulary, width)).astype(np.float32),
        "encoder": [layer(("attention",)) for _ in range(args.layers)],
        "decoder": [layer(("attention", "source_attention")) for _ in range(args.layers)],
    }


class Dropout:
    """Drops values, each time others; none without a key."""

    def __init__(self, rate: float = 0.0, key: Array | None = None) -> None:
        self._rate, self._keys = rate, _keys(key)

    def __call__(self, x: Array) -> Array:
        """Returns x with dropout."""
        return jax_program.dropped(x, self._rate, next(self._keys))


def _keys(key: Array | None) -> Iterator[Array | None]:
    while key is not None:
        key, used = jax.random.split(key)
        yield used
    while True:
        yield None


def linear(x: Array, weights: tuple[Array, Array], part: slice = slice(None)) -> Array:
    """Applies a dense layer, or some of its columns."""
    return x @ weights[0][:, part] + weights[1][part]


def split(x: Array, heads: int, parts: int) -> Array:
    """Returns [batch, time, parts * width] as [parts, batch, heads, time, width / heads]."""
    batch, time, columns = x.shape
    x = x.reshape(batch, time, parts, heads, columns // parts // heads)
    return x.transpose(2, 0, 3, 1, 4)


def attend(weights: Tree, q: Array, k: Array, v: Array, mask: Array | None, drop: Dropout) -> Array:
    """Returns the sums of the values, projected: [batch, queries, width]."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    odds = jax.nn.softmax(scores if mask is None else jnp.where(mask, scores, -1e9))
    y = jnp.einsum("bhqk,bhkd->bhqd", drop(odds), v)
    batch, heads, time, size = y.shape
    return linear(y.transpose(0, 2, 1, 3).reshape(batch, time, heads * size), weights["output"])


def feed_forward(weights: Tree, x: Array, drop: Dropout) -> Array:
    """Applies the two dense layers."""
    return linear(drop(jax.nn.relu(linear(x, weights["first"]))), weights["second"])


def residual(weights: Tree, x: Array, y: Array, drop: Dropout) -> Array:
    """Adds a sublayer's output to its input, and normalizes."""
    return jax_program.normalized(x + drop(y), *weights["norm"])


def keys_and_values(weights: Tree, x: Array, heads: int) -> Array:
    """Returns keys and values of x, [2, batch, heads, time, width / heads]."""
    return split(linear(x, weights["qkv"], slice(x.shape[2], None)), heads, 2)


def queries(weights: Tree, x: Array, heads: int) -> Array:
    """Returns the queries of x, [batch, heads, time, width / heads]."""
    return split(linear(x, weights["qkv"], slice(x.shape[2])), heads, 1)[0]


def embed(weights: Tree, words: Array, places: Array, drop: Dropout) -> Array:
    """Embeds words [batch, time] at places [time, width]."""
    matrix = weights["embedding"]
    return drop(matrix[words] * math.sqrt(matrix.shape[1]) + places)


def self_attended(layer: Tree, x: Array, heads: int, mask: Array | None, drop: Dropout) -> Array:
    """Lets words attend to each other."""
    weights = layer["attention"]
    parts = split(linear(x, weights["qkv"]), heads, 3)
    return residual(weights, x, attend(weights, *parts, mask, drop), drop)


def encode(weights: Tree, source: Array, places: Array, heads: int, drop: Dropout) -> Array:
    """Encodes words [batch, source]."""
    x = embed(weights, source, places[: source.shape[1]], drop)
    for layer in weights["encoder"]:
        x = self_attended(layer, x, heads, None, drop)
        x = fed_forward(layer, x, drop)
    return x


def fed_forward(layer: Tree, x: Array, drop: Dropout) -> Array:
    """Applies the last sublayer."""
    weights = layer["feed_forward"]
    return residual(weights, x, feed_forward(weights, x, drop), drop)


def source_attended(layer: Tree, x: Array, memory: Array, heads: int, drop: Dropout) -> Array:
    """Lets words attend to keys and values of the source."""
    weights = layer["source_attention"]
    y = attend(weights, queries(weights, x, heads), *memory, None, drop)
    return residual(weights, x, y, drop)


def logits(
    weights: Tree, source: Array, target: Array, places: Array, heads: int, drop: Dropout
) -> Array:
    """Returns the logits of the words after each of the target's, [batch, target, words]."""
    encoded = encode(weights, source, places, heads, drop)
    time = target.shape[1]
    x = embed(weights, target, places[:time], drop)
    past = jnp.tril(jnp.ones((time, time), bool))
    for layer in weights["decoder"]:
        x = self_attended(layer, x, heads, past, drop)
        memory = keys_and_values(layer["source_attention"], encoded, heads)
        x = fed_forward(layer, source_attended(layer, x, memory, heads, drop), drop)
    return x @ weights["embedding"].T


def smoothed(logits: Array, words: Array) -> Array:
    """Returns the mean cross-entropy with smoothed labels, in nats."""
    uniform = jax.nn.logsumexp(logits, -1) - jnp.mean(logits, -1)
    entropies = jax_program.cross_entropies(logits, words)
    return jnp.mean((1 - SMOOTHING) * entropies + SMOOTHING * uniform)


def greedy(weights: Tree, source: Array, places: Array, heads: int, longest: int) -> Array:
    """Translates by the most probable words: [longest, batch, 1]."""
    still = Dropout()
    encoded = encode(weights, source, places, heads, still)
    layers = weights["decoder"]
    memories = [keys_and_values(each["source_attention"], encoded, heads) for each in layers]
    size = (2, len(source), heads, longest, encoded.shape[2] // heads)

    def next_words(state: tuple[Array, list[Array]], position: Array) -> tuple[Any, Array]:
        words, caches = state
        x = embed(weights, words, jax.lax.dynamic_slice_in_dim(places, position, 1), still)
        seen, new = jnp.arange(longest) <= position, []
        for layer, cache, memory in zip(layers, caches, memories, strict=True):
            part = layer["attention"]
            q, *kv = split(linear(x, part["qkv"]), heads, 3)
            start = (0, 0, 0, position, 0)
            new.append(jax.lax.dynamic_update_slice(cache, jnp.stack(kv), start))
            x = residual(part, x, attend(part, q, *new[-1], seen, still), still)
            x = fed_forward(layer, source_attended(layer, x, memory, heads, still), still)
        words = jnp.argmax(x[:, 0] @ weights["embedding"].T, 1, keepdims=True)
        return (words, new), words

    first = jnp.ones((len(source), 1), jnp.int32), [jnp.zeros(size) for _ in layers]
    return jax.lax.scan(next_words, first, jnp.arange(longest))[1]


def make_step(args: argparse.Namespace) -> program.Step:
    """Returns a function that runs one training step or decodes one batch."""
    rng = np.random.default_rng(0)
    weights = new_weights(args, rng)
    size = (2, args.batch_size, args.length)
    source, target = rng.integers(4, args.vocabulary, size, np.int32)
    places = rng.normal(size=(PLACES, args.width)).astype(np.float32)
    if args.mode == "infer" and args.words:
        translate = functools.partial(greedy, heads=args.heads, longest=args.words)
        return jax_program.inference(translate, weights, source, places)

    def most_probable(weights: Tree, source: Array, target: Array, places: Array) -> Array:
        return jnp.argmax(logits(weights, source, target, places, args.heads, Dropout()), -1)

    if args.mode == "infer":
        return jax_program.inference(most_probable, weights, source, target, places)

    def loss(weights: Tree, number: Array, source: Array, target: Array, places: Array) -> Array:
        drop = Dropout(args.dropout, jax_program.key_of(number))
        return smoothed(logits(weights, source, target, places, args.heads, drop), target)

    def update(gradients: Tree, state: State, number: Array) -> State:
        return jax_program.adam(gradients, state, number, RATE, BETAS)

    state = jax_program.with_slots(weights)
    return jax_program.training(loss, update, state, source, target, places)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"vocabulary": 8_000, "width": 128, "heads": 4, "hidden_units": 256, "layers": 4}
    sizes |= {"batch_size": 256, "length": 16, "words": 0}
    jax_program.main(__doc__, make_step, **sizes, dropout=0.3)
