"""Compares ngp with an implementation of the paper in PyTorch, of the same weights.

Prints the largest relative differences: of the encoding, the outputs, the loss, the gradients, and
the updates by three steps of Adam, which skips table values without gradient. The reference is
``pytorch_ngp.HashNetwork``, written from the paper's equations, with Adam written out here. Needs
``pip install torch`` beside Fathom.

    python benchmarks/same_as_ngp.py
"""

import argparse

import numpy as np
import pytorch_ngp
import tensorflow as tf
import torch

from fathom import workloads
from fathom.modern.ngp.layers import resolutions

STEPS = 3
MATRICES = 3  # of the network, after the tables
SIZES = {"log2_table": 11, "batch_size": 512}  # tables that positions share, and leave unread


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns the norm of a difference over that of the second."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


class Adam:
    """Adam as section 4 has it: moments and values without gradient stay as they are.

    Args:
        parameters: the table first, which alone has no weight decay.
    """

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self._parameters, self._steps = parameters, 0
        self._mean, self._square = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    def step(self) -> None:
        """Updates the parameters by their gradients."""
        self._steps += 1
        (b1, b2), t = pytorch_ngp.BETAS, self._steps
        rate = pytorch_ngp.RATE * np.sqrt(1 - b2**t) / (1 - b1**t)
        with torch.no_grad():
            for i, p in enumerate(self._parameters):
                read = p.grad != 0 if i == 0 else torch.ones_like(p, dtype=torch.bool)
                slope = (p.grad + (pytorch_ngp.DECAY * p if i else 0))[read]
                self._mean[i][read] = b1 * self._mean[i][read] + (1 - b1) * slope
                self._square[i][read] = b2 * self._square[i][read] + (1 - b2) * slope**2
                root = self._square[i][read].sqrt() + pytorch_ngp.EPSILON
                p[read] -= rate * self._mean[i][read] / root


def whole(tensors: list[torch.Tensor]) -> list[np.ndarray]:
    """Returns the table and the matrices in our order."""
    table, *matrices = (tensor.detach().numpy().copy() for tensor in tensors)
    return [table, *(matrix.T for matrix in matrices)]


def joined(ours: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the tables of all levels as one, and the matrices."""
    return [np.concatenate(ours[:-MATRICES]), *ours[-MATRICES:]]


def greatest(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Returns the greatest difference of any pair."""
    return max(map(difference, ours, theirs))


def main() -> None:
    """Compares."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    model = workloads.load("ngp")("cpu", {**SIZES, "xla": False})
    model.setup()
    h = model.hyperparameters
    sizes = resolutions(h.levels, h.coarsest, h.finest)
    theirs = pytorch_ngp.HashNetwork(sizes, 2**h.log2_table, h.features, h.hidden_units)
    encoding, variables = model.network.get_layer("encoding"), model.network.trainable_variables
    for level, table in enumerate(encoding.tables):
        table.assign(tf.random.stateless_uniform(table.shape, [level, 1], -0.5, 0.5))
    parameters = list(theirs.parameters())
    with torch.no_grad():
        values = joined([variable.numpy() for variable in variables])
        for value, parameter in zip(values, parameters, strict=True):
            parameter.copy_(torch.tensor(value if parameter is theirs.table else value.T))
    batches, adam = model.training_batches(0), Adam(parameters)
    for step in range(STEPS):
        positions, colours = next(batches)
        given = torch.tensor(positions.numpy())
        encoded, found = theirs.encode(given), theirs(given)
        loss = torch.nn.functional.mse_loss(found, torch.tensor(colours.numpy()))
        theirs.zero_grad()
        loss.backward()
        with tf.GradientTape() as tape:
            own_found = model.network(positions, training=True)
            own_loss = model.build_loss(positions, colours, own_found)
        slopes = tape.gradient(own_loss, [variable.value for variable in variables])
        own_slopes = [tf.convert_to_tensor(slope).numpy() for slope in slopes]
        figures = {
            "encoding": difference(encoding(positions).numpy(), encoded.detach().numpy()),
            "outputs": difference(own_found.numpy(), found.detach().numpy()),
            "loss": abs(float(own_loss) / float(loss.detach()) - 1),
            "gradients": greatest(joined(own_slopes), whole([p.grad for p in parameters])),
        }
        before = joined([variable.numpy() for variable in variables]), whole(parameters)
        adam.step()
        model.compiled.step.call(positions, colours)
        after = joined([variable.numpy() for variable in variables]), whole(parameters)
        moves = [
            [new - old for new, old in zip(*each, strict=True)]
            for each in zip(after, before, strict=True)
        ]
        figures |= {"update": greatest(*moves), "weights": greatest(*after)}
        unread = float((theirs.table.grad == 0).float().mean())
        words = ", ".join(f"{name} {value:.1e}" for name, value in figures.items())
        print(f"step {step + 1}: {words}; {unread:.0%} of the table without gradient")


if __name__ == "__main__":
    main()
