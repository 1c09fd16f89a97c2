"""JAX baseline of autoenc: the network and the update of pytorch_networks.py, compiled by ``jit``.

Pixels are random, the same in every step.

    python benchmarks/jax_autoenc.py --mode train --batch-size 100
"""

import argparse

import jax_program  # first: it sets up the allocator
import numpy as np
import program

import jax  # isort: skip
from jax import Array, numpy as jnp  # isort: skip

Weights = dict[str, tuple[Array, Array]]
LAYERS = {
    "encoder": (784, 500),
    "mean": (500, 20),
    "log_variance": (500, 20),
    "hidden": (20, 500),
    "decoder": (500, 784),
}


def new_weights(rng: np.random.Generator) -> Weights:
    """Returns a matrix and a bias for each layer."""
    return {
        name: (rng.normal(0, a**-0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for name, (a, b) in LAYERS.items()
    }


def dense(weights: Weights, name: str, x: Array) -> Array:
    """Applies a layer."""
    matrix, bias = weights[name]
    return x @ matrix + bias


def network(weights: Weights, pixels: Array, key: Array) -> tuple[Array, Array, Array]:
    """Maps pixels [batch, 784] to logits [batch, 784], mean and log-variance [batch, 20]."""
    hidden = jnp.tanh(dense(weights, "encoder", pixels))
    mean, log_variance = (dense(weights, name, hidden) for name in ("mean", "log_variance"))
    latent = mean + jax.random.normal(key, mean.shape) * jnp.exp(0.5 * log_variance)
    hidden = jnp.tanh(dense(weights, "hidden", latent))
    return dense(weights, "decoder", hidden), mean, log_variance


def negative_elbo(outputs: tuple[Array, Array, Array], pixels: Array) -> Array:
    """Returns the mean over images of the negative evidence lower bound, in nats."""
    logits, mean, log_variance = outputs
    reconstruction = jnp.sum(jax.nn.softplus(logits) - logits * pixels)
    divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance))
    return (reconstruction + divergence) / len(pixels)


def loss(weights: Weights, number: Array, pixels: Array) -> Array:
    """Returns the loss of a step."""
    return negative_elbo(network(weights, pixels, jax_program.key_of(number)), pixels)


def make_step(args: argparse.Namespace) -> program.Step:
    """Returns a function that runs one training step or one inference."""
    rng = np.random.default_rng(0)
    weights, pixels = new_weights(rng), rng.random((args.batch_size, 784), np.float32)
    if args.mode == "infer":
        key = jax.random.key(0)
        return jax_program.inference(network, weights, pixels, key)
    state = jax_program.with_slots(weights)
    return jax_program.training(loss, jax_program.adam, state, pixels)


if __name__ == "__main__":
    jax_program.main(__doc__, make_step, batch_size=100)
