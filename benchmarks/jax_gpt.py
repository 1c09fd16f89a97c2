"""JAX baseline of gpt: the network and the update of pytorch_gpt.py, compiled by ``jit``.

Decoding is one loop of XLA with a cache of keys and values. Tokens are random, the same in every
step.

    python benchmarks/jax_gpt.py --mode infer --phase decode
"""

import argparse
from typing import Any

import jax_program  # first: it sets up the allocator
import numpy as np
import program
from jax_program import State, Tree

import jax  # isort: skip
from jax import Array, numpy as jnp  # isort: skip

Cache = list[tuple[Array, Array]]  # of each block: [batch, heads, time, width / heads]
RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


def new_weights(args: argparse.Namespace, rng: np.random.Generator) -> dict[str, Any]:
    """Returns the weights; the output matrix is that of the embedding."""

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, 0.02, (rows, columns)).astype(np.float32)

    def norm() -> tuple[np.ndarray, np.ndarray]:
        return np.ones(args.width, np.float32), np.zeros(args.width, np.float32)

    def dense(inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        return matrix(inputs, outputs), np.zeros(outputs, np.float32)

    width = args.width
    blocks = [
        {
            **{"norm1": norm(), "qkv": dense(width, 3 * width), "projection": dense(width, width)},
            "norm2": norm(),
            **{"expand": dense(width, 4 * width), "contract": dense(4 * width, width)},
        }
        for _ in range(args.layers)
    ]
    tables = {"tokens": matrix(args.vocabulary, width), "positions": matrix(args.context, width)}
    return {**tables, "blocks": blocks, "norm": norm()}


def linear(x: Array, weights: tuple[Array, Array]) -> Array:
    """Applies a dense layer."""
    return x @ weights[0] + weights[1]


def block(
    weights: Tree, x: Array, heads: int, cache: tuple[Array, Array] | None, position: Array | int
) -> tuple[Array, tuple[Array, Array]]:
    """Returns the next [batch, time, width], and keys and values, of the cache where there is."""
    batch, time, width = x.shape
    parts = linear(jax_program.normalized(x, *weights["norm1"]), weights["qkv"])
    parts = parts.reshape(batch, time, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    q, k, v = parts
    if cache is not None:
        start = (0, 0, position, 0)
        k, v = (
            jax.lax.dynamic_update_slice(kept, new, start)
            for kept, new in zip(cache, (k, v), strict=True)
        )
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (width // heads) ** -0.5
    seen = jnp.arange(k.shape[2]) <= position + jnp.arange(time)[:, None]
    odds = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    y = jnp.einsum("bhqk,bhkd->bhqd", odds, v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + linear(y, weights["projection"])
    hidden = linear(jax_program.normalized(x, *weights["norm2"]), weights["expand"])
    return x + linear(jax.nn.gelu(hidden), weights["contract"]), (k, v)


def network(
    weights: Tree, tokens: Array, heads: int, cache: Cache | None = None, position: Array | int = 0
) -> tuple[Array, Cache]:
    """Returns what tokens are predicted from, [batch, time, width], and keys and values."""
    places = jax.lax.dynamic_slice_in_dim(weights["positions"], position, tokens.shape[1])
    x, found = weights["tokens"][tokens] + places, []
    for i, each in enumerate(weights["blocks"]):
        x, kept = block(each, x, heads, cache[i] if cache else None, position)
        found.append(kept)
    return jax_program.normalized(x, *weights["norm"]), found


def logits(weights: Tree, tokens: Array, heads: int) -> Array:
    """Returns the logits of the next tokens, [batch, time, words]."""
    return network(weights, tokens, heads)[0] @ weights["tokens"].T


def update(gradients: Tree, state: State, number: Array) -> State:
    """Returns the state after a step of AdamW, with the global norm of the gradients limited."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(CLIP / norm, 1)
    gradients = jax.tree.map(lambda g: scale * g, gradients)
    decayed = jax.tree.map(lambda p: p * (1 - RATE * DECAY) if p.ndim > 1 else p, state[0])
    return jax_program.adam(gradients, (decayed, *state[1:]), number, RATE, BETAS)


def next_tokens(
    weights: Tree, tokens: Array, heads: int, cache: Cache, position: Array | int
) -> tuple[Array, Cache]:
    """Returns the most probable tokens after the last ones, [batch, 1], and the cache."""
    states, cache = network(weights, tokens, heads, cache, position)
    return jnp.argmax(states[:, -1] @ weights["tokens"].T, 1, keepdims=True), cache


def make_generation(args: argparse.Namespace, weights: Tree, prompts: np.ndarray) -> program.Step:
    """Returns a function that runs the chosen phases."""
    shape = args.batch_size, args.heads, args.prompt + args.new - 1, args.width // args.heads

    def prefill(weights: Tree, prompts: Array) -> tuple[Array, Cache]:
        empty = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in weights["blocks"]]
        return next_tokens(weights, prompts, args.heads, empty, 0)

    def decode(weights: Tree, tokens: Array, cache: Cache) -> Array:
        def one(state: tuple[Array, Cache], position: Array) -> tuple[tuple[Array, Cache], Array]:
            tokens, cache = next_tokens(weights, state[0], args.heads, state[1], position)
            return (tokens, cache), tokens

        places = jnp.arange(args.prompt, args.prompt + args.new - 1)
        return jax.lax.scan(one, (tokens, cache), places)[1]

    def both(weights: Tree, prompts: Array) -> Array:
        return decode(weights, *prefill(weights, prompts))

    if args.phase == "decode":
        weights = jax.tree.map(jnp.asarray, weights)
        return jax_program.inference(decode, weights, *jax.jit(prefill)(weights, prompts))
    return jax_program.inference({"both": both, "prefill": prefill}[args.phase], weights, prompts)


def make_step(args: argparse.Namespace) -> program.Step:
    """Returns a function that runs one step."""
    rng = np.random.default_rng(0)
    weights = new_weights(args, rng)
    if args.mode == "infer":
        size = (args.batch_size, args.prompt)
        return make_generation(
            args, weights, rng.integers(args.vocabulary, size=size, dtype=np.int32)
        )

    def loss(weights: Tree, number: Array, tokens: Array, following: Array) -> Array:
        found = logits(weights, tokens, args.heads)
        return jnp.mean(jax_program.cross_entropies(found, following))

    size = (2, args.batch_size, args.context)
    state = jax_program.with_slots(weights)
    tokens = rng.integers(args.vocabulary, size=size, dtype=np.int32)
    return jax_program.training(loss, update, state, *tokens)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 64, "vocabulary": 65, "width": 128, "heads": 4, "layers": 4}
    phases = ("both", "prefill", "decode")
    jax_program.main(__doc__, make_step, batch_size=12, prompt=32, new=32, **sizes, phase=phases)
