"""What the programs in JAX share. Sets the allocator up, so that it comes before JAX."""

import os
from collections.abc import Callable
from typing import Any

import program

program.keep_memory()

import jax  # noqa: E402
from jax import Array  # noqa: E402
from jax import numpy as jnp  # noqa: E402

Tree = Any  # arrays in lists and dictionaries
State = tuple[Tree, ...]  # the parameters, and what the update rule keeps of each


def main(
    documentation: str | None,
    make_step: Callable[..., program.Step],
    forms: program.Forms | None = None,
    **own: Any,
) -> None:
    """Times the forms of a step that the command line asks for; see ``program``."""
    args = program.command_line(documentation, **own).parse_args()
    _limit_threads(args.threads)
    program.measure(args, f"JAX {jax.__version__}", make_step, forms)


def _limit_threads(count: int) -> None:
    """Limits threads and cores of this process; must run before JAX computes for the first time.

    JAX has threads that dispatch beside those that compute: only fewer cores stop them from
    computing, too.
    """
    os.environ["PJRT_NPROC"] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def key_of(number: Array) -> Array:
    """Returns the key of a step's random numbers."""
    return jax.random.fold_in(jax.random.key(0), number)


def dropped(x: Array, rate: float, key: Array | None) -> Array:
    """Returns x with dropout; as it is without a key."""
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def training(
    loss: Callable[..., Array],
    update: Callable[[Tree, State, Array], State],
    state: State,
    *data: Tree,
) -> program.Step:
    """Returns a function that runs one training step.

    Args:
        loss: of the parameters, the step's number and the data.
        update: returns the next state from gradients, state and the step's number.
        state: the first one.
        data: the same in every step.
    """

    def next_state(state: State, number: Array, data: Tree) -> tuple[State, Array, Array]:
        value, gradients = jax.value_and_grad(loss)(state[0], number, *data)
        return update(gradients, state, number), number + 1, value

    compiled = jax.jit(next_state, donate_argnums=(0, 1))
    data = jax.tree.map(jnp.asarray, data)
    held = jax.tree.map(jnp.asarray, (state, jnp.zeros((), jnp.int32)))

    def step() -> None:
        nonlocal held
        *held, value = compiled(*held, data)
        jax.block_until_ready((held, value))

    return step


def inference(function: Callable[..., Tree], *arguments: Tree) -> program.Step:
    """Returns a function that computes another, compiled, of the same arguments each time."""
    compiled = jax.jit(function)
    arguments = jax.tree.map(jnp.asarray, arguments)
    return lambda: jax.block_until_ready(compiled(*arguments))


def with_slots(parameters: Tree) -> State:
    """Returns the state of ``adam``."""
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return parameters, zeros, jax.tree.map(jnp.copy, zeros)


def adam(
    gradients: Tree,
    state: State,
    number: Array,
    rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
) -> State:
    """Returns the state after a step of Adam (Kingma and Ba 2014)."""
    parameters, means, squares = state
    b1, b2 = betas
    means = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, means, gradients)
    squares = jax.tree.map(lambda s, g: b2 * s + (1 - b2) * g * g, squares, gradients)
    time = number.astype(jnp.float32) + 1
    scale, root = rate / (1 - b1**time), jnp.sqrt(1 - b2**time)
    new = jax.tree.map(
        lambda p, m, s: p - scale * m / (jnp.sqrt(s) / root + 1e-8), parameters, means, squares
    )
    return new, means, squares


def cross_entropies(logits: Array, classes: Array) -> Array:
    """Returns the cross-entropy of each row of logits, in nats."""
    right = jnp.take_along_axis(logits, classes[..., None], -1)[..., 0]
    return jax.nn.logsumexp(logits, -1) - right


def normalized(x: Array, scale: Array, offset: Array) -> Array:
    """Returns layer normalization of [..., width] (Ba et al. 2016)."""
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset
