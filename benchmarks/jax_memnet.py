"""JAX baseline of memnet: the network and the update of pytorch_memnet.py, compiled by ``jit``.

Two forms as there: a look-up for each matrix, or one in all matrices side by side. Both are timed,
and the faster one counts. A sentence is the sum of a look-up for each place: with one look-up for
all places and a sum, a step took 2 to 9 times as much processor time, and products with one-hot
vectors or with counts of words took up to 4 times as much. Stories are random words, the same in
every step.

    python benchmarks/jax_memnet.py --mode train
"""

import argparse
import functools
import itertools

import jax_program  # first: it sets up the allocator
import numpy as np
import program

import jax  # isort: skip
from jax import Array, numpy as jnp  # isort: skip

DIMENSIONS, RATE, CLIP = 20, 0.01, 40.0
FORMS = {"a look-up a matrix": False, "one look-up for all matrices": True}
Weights = dict[str, list[Array]]


def new_weights(args: argparse.Namespace, rng: np.random.Generator) -> Weights:
    """Returns the matrices of words, whose first row is the null word's, and those of times."""
    rows = {"matrices": args.vocabulary, "times": args.memory}
    weights = {
        name: [
            rng.normal(0, 0.1, (count, DIMENSIONS)).astype(np.float32) for _ in range(args.hops + 1)
        ]
        for name, count in rows.items()
    }
    for matrix in weights["matrices"]:
        matrix[0] = 0
    return weights


def position_weights(words: int) -> Array:
    """Returns the weight of each word in each dimension, [words, dimensions]."""
    j = jnp.arange(1, words + 1)[:, None] / words
    k = jnp.arange(1, DIMENSIONS + 1)[None, :] / DIMENSIONS
    return 2 * ((1 - j) - k * (1 - 2 * j))


def embed(sentences: Array, matrix: Array) -> Array:
    """Maps words [..., words] to [..., columns of the matrix]; the null word counts nothing."""
    places = range(sentences.shape[-1])
    weights = jnp.tile(position_weights(len(places)), matrix.shape[1] // DIMENSIONS)
    matrix = matrix.at[0].set(0)
    return sum(matrix[sentences[..., i]] * weights[i] for i in places)


def remember(weights: Weights, story: Array, together: bool) -> list[Array]:
    """Returns the memories for each matrix, [batch, memory, dimensions]."""
    matrices, times = weights["matrices"], weights["times"]
    is_filled = jnp.any(story > 0, -1, keepdims=True)
    if together:
        embedded = embed(story, jnp.concatenate(matrices, 1))
        in_time = embedded + is_filled * jnp.concatenate(times, 1)
        return jnp.split(in_time, len(matrices), 2)
    return [embed(story, m) + is_filled * t for m, t in zip(matrices, times, strict=True)]


def network(weights: Weights, story: Array, question: Array, together: bool = False) -> Array:
    """Maps [batch, memory, words] and [batch, words] to logits [batch, vocabulary]."""
    matrices = weights["matrices"]
    u = embed(question, matrices[0])
    for memory, output in itertools.pairwise(remember(weights, story, together)):
        p = jax.nn.softmax(jnp.einsum("bmd,bd->bm", memory, u))
        u = u + jnp.einsum("bm,bmd->bd", p, output)
    return u @ matrices[-1].T


def descend(gradients: Weights, state: jax_program.State, number: Array) -> jax_program.State:
    """Returns the state after a step of gradient descent, each gradient's norm limited."""

    def moved(parameter: Array, gradient: Array) -> Array:
        scale = jnp.minimum(CLIP / jnp.linalg.norm(gradient), 1)
        return parameter - RATE * scale * gradient

    return (jax.tree.map(moved, state[0], gradients),)


def make_step(args: argparse.Namespace, together: bool) -> program.Step:
    """Returns a function that runs one step on random stories."""
    rng = np.random.default_rng(0)
    weights = new_weights(args, rng)
    story = rng.integers(1, args.vocabulary, (args.batch_size, args.memory, args.words), np.int32)
    question = rng.integers(1, args.vocabulary, (args.batch_size, args.words), np.int32)
    answer = rng.integers(1, args.vocabulary, args.batch_size, np.int32)
    forward = functools.partial(network, together=together)
    if args.mode == "infer":
        return jax_program.inference(forward, weights, story, question)

    def loss(
        weights: Weights, number: Array, story: Array, question: Array, answer: Array
    ) -> Array:
        return jnp.sum(jax_program.cross_entropies(forward(weights, story, question), answer))

    return jax_program.training(loss, descend, (weights,), story, question, answer)


if __name__ == "__main__":
    sizes = {"batch_size": 32, "vocabulary": 40, "memory": 50, "words": 7, "hops": 3}
    jax_program.main(__doc__, make_step, lambda args: FORMS, **sizes)
