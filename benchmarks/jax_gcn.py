"""JAX baseline of gcn: the network and the update of pytorch_gcn.py, compiled by ``jit``.

Sparse products take three forms: those of ``jax.experimental.sparse`` by rows (BCSR) or by
coordinates (BCOO), and sums of gathered rows. All are timed, and the fastest one counts. Their
gradients are products with the transposed matrix, whose values are sorted beforehand.

    python benchmarks/jax_gcn.py --mode train --nodes 100000 --edges 1000000 --features 64
"""

import argparse
import functools
from typing import NamedTuple

import jax_program  # first: it sets up the allocator
import numpy as np
import program

import jax  # isort: skip
from jax import Array, numpy as jnp  # isort: skip
from jax.experimental import sparse  # isort: skip

UNITS, DROPOUT, DECAY, RATE = 16, 0.5, 5e-4, 0.01
FORMS = {name: name for name in ("BCSR", "BCOO", "segment sum")}
Weights = list[Array]


class Places(NamedTuple):
    """Where a sparse matrix has values, sorted by rows: of each its row, column and number."""

    rows: Array
    columns: Array
    starts: Array  # of each row, and the end
    order: Array


class Matrix(NamedTuple):
    """A sparse matrix, and where its transpose has the same values."""

    values: Array
    places: Places
    transposed: Places


def sparse_matrix(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple
) -> Matrix:
    """Returns the matrix of some values, sorted."""
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]

    def places(rows: np.ndarray, columns: np.ndarray, count: int) -> Places:
        order = np.lexsort((columns, rows))
        starts = np.searchsorted(rows[order], np.arange(count + 1))
        each = rows[order], columns[order], starts, order
        return Places(*(jnp.asarray(x, jnp.int32) for x in each))

    return Matrix(
        jnp.asarray(values, jnp.float32),
        places(rows, columns, shape[0]),
        places(columns, rows, shape[1]),
    )


def times(form: str, values: Array, places: Places, x: Array) -> Array:
    """Multiplies by the dense x."""
    shape = len(places.starts) - 1, len(x)
    if form == "BCSR":
        return sparse.BCSR((values, places.columns, places.starts), shape=shape) @ x
    if form == "BCOO":
        indices = jnp.stack([places.rows, places.columns], 1)
        matrix = sparse.BCOO(
            (values, indices), shape=shape, indices_sorted=True, unique_indices=True
        )
        return matrix @ x
    gathered = values[:, None] * x[places.columns]
    return jax.ops.segment_sum(gathered, places.rows, shape[0], indices_are_sorted=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def product(form: str, matrix: Matrix, x: Array) -> Array:
    """Multiplies a matrix, which has no gradient, by the dense x."""
    return times(form, matrix.values, matrix.places, x)


def _forward(form: str, matrix: Matrix, x: Array) -> tuple[Array, Matrix]:
    return product(form, matrix, x), matrix


def _backward(form: str, matrix: Matrix, gradient: Array) -> tuple[None, Array]:
    values, places = matrix.values[matrix.transposed.order], matrix.transposed
    return None, times(form, values, places, gradient)


product.defvjp(_forward, _backward)


def network(
    weights: Weights, adjacency: Matrix, features: Matrix, form: str, key: Array | None = None
) -> Array:
    """Returns the logits of all nodes, [nodes, classes]; with a key, those of training."""
    keys = (None, None) if key is None else jax.random.split(key)
    values = jax_program.dropped(features.values, DROPOUT, keys[0])
    hidden = product(form, features._replace(values=values), weights[0])
    hidden = jax.nn.relu(product(form, adjacency, hidden))
    hidden = jax_program.dropped(hidden, DROPOUT, keys[1])
    return product(form, adjacency, hidden @ weights[1])


def update(gradients: Weights, state: jax_program.State, number: Array) -> jax_program.State:
    """Returns the state after a step of Adam; the first matrix decays."""
    first, second = gradients
    return jax_program.adam([first + DECAY * state[0][0], second], state, number, RATE)


def make_graph(args: argparse.Namespace, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Returns A' and X, with degrees by a power law."""
    odds = rng.permutation((np.arange(args.nodes) + 1.0) ** -0.5)
    ends = rng.choice(args.nodes, (2, args.edges), p=odds / odds.sum())
    loops = np.tile(np.arange(args.nodes), (2, 1))
    places, counts = np.unique(np.hstack([ends, ends[::-1], loops]), axis=1, return_counts=True)
    scale = np.bincount(places[0], counts) ** -0.5
    values = counts * scale[places[0]] * scale[places[1]]
    adjacency = sparse_matrix(*places, values, (args.nodes, args.nodes))
    each = np.repeat(np.arange(args.nodes), max(1, args.nonzeros // args.nodes))
    places = np.unique(np.stack([each, rng.integers(args.features, size=len(each))]), axis=1)
    values = rng.random(places.shape[1])
    return adjacency, sparse_matrix(*places, values, (args.nodes, args.features))


def make_step(args: argparse.Namespace, form: str) -> program.Step:
    """Returns a function that runs one step, of which the loss takes some nodes."""
    rng = np.random.default_rng(0)
    adjacency, features = make_graph(args, rng)
    sizes = (args.features, UNITS), (UNITS, args.classes)
    limits = ((6 / sum(size)) ** 0.5 for size in sizes)
    weights = [
        rng.uniform(-limit, limit, size).astype(np.float32)
        for limit, size in zip(limits, sizes, strict=True)
    ]
    nodes = rng.permutation(args.nodes)[: args.batch_size].astype(np.int32)
    classes = rng.integers(args.classes, size=args.batch_size, dtype=np.int32)

    def logits(
        weights: Weights, a: Matrix, x: Matrix, nodes: Array, key: Array | None = None
    ) -> Array:
        return network(weights, a, x, form, key)[nodes]

    if args.mode == "infer":
        return jax_program.inference(logits, weights, adjacency, features, nodes)

    def loss(
        weights: Weights, number: Array, a: Matrix, x: Matrix, nodes: Array, classes: Array
    ) -> Array:
        found = logits(weights, a, x, nodes, jax_program.key_of(number))
        return jnp.mean(jax_program.cross_entropies(found, classes))

    state = jax_program.with_slots(weights)
    return jax_program.training(loss, update, state, adjacency, features, nodes, classes)


if __name__ == "__main__":
    # Its default graph is of Cora's size.
    sizes = {"nodes": 2_708, "edges": 5_278, "features": 1_433, "nonzeros": 49_216, "classes": 7}
    jax_program.main(__doc__, make_step, lambda args: FORMS, batch_size=140, **sizes)
