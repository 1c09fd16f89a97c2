"""PyTorch baseline of ngp, timed in the same way as Fathom's network of an image.

The hash encoding and network of Mueller et al. 2022, as in ``fathom/modern/ngp/model.py``. The
look-ups take two forms: ``nn.functional.embedding``, then a weighted sum, or
``nn.functional.embedding_bag`` with a bag for the corners around a position. Both are timed, and
the faster one counts. Gradients are dense, as Adam needs them. Needs only PyTorch.

    python benchmarks/pytorch_ngp.py --mode train --batch-size 16384
"""

import argparse
import itertools

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

PRIMES = (1, 2_654_435_761, 805_459_861)
RATE, BETAS, EPSILON, DECAY = 0.01, (0.9, 0.99), 1e-15, 1e-6
FORMS = {"embedding": False, "embedding bag": True}


class HashNetwork(nn.Module):
    """Positions to colours.

    Args:
        sizes: cells along each axis, by level.
        entries: of a level's table at most.
        features: of an entry.
        hidden: units of each of the two hidden layers.
        bags: look up by ``embedding_bag``.
    """

    def __init__(
        self, sizes: list[int], entries: int, features: int, hidden: int, bags: bool = False
    ) -> None:
        super().__init__()
        self.sizes, self.entries, self.bags = sizes, entries, bags
        rows = sum(min((size + 1) ** 2, entries) for size in sizes)
        self.table = nn.Parameter(torch.empty(rows, features).uniform_(-1e-4, 1e-4))
        widths = (len(sizes) * features, hidden, hidden, 3)
        self.dense = nn.ModuleList(
            nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)
        )
        for layer in self.dense:
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, positions: Tensor) -> Tensor:
        """Maps [batch, 2] to [batch, 3]."""
        x = self.encode(positions)
        for layer in self.dense[:-1]:
            x = F.relu(layer(x))
        return self.dense[-1](x)

    def encode(self, positions: Tensor) -> Tensor:
        """Returns the features of positions: [batch, levels * features]."""
        levels = torch.tensor(self.sizes)
        scaled = positions[:, None] * levels[:, None]  # [batch, levels, 2]
        low = torch.minimum(scaled.floor(), levels[:, None] - 1)
        part, low = scaled - low, low.long()
        corners = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        places = low[:, :, None] + corners  # [batch, levels, 4, 2]
        weights = torch.where(corners == 1, part[:, :, None], 1 - part[:, :, None]).prod(-1)
        rows = self.rows(places)
        if self.bags:
            found = F.embedding_bag(
                rows.view(-1, 4), self.table, mode="sum", per_sample_weights=weights.view(-1, 4)
            )
        else:
            found = (F.embedding(rows, self.table) * weights[..., None]).sum(2)
        return found.view(len(positions), -1)

    def rows(self, places: Tensor) -> Tensor:
        """Returns the rows of grid points, int64 [batch, levels, 4, 2]: [batch, levels, 4]."""
        x, y = places.unbind(-1)
        found, first = [], 0
        for level, size in enumerate(self.sizes):
            count = min((size + 1) ** 2, self.entries)
            if count < (size + 1) ** 2:
                row = (x[:, level] * PRIMES[0] ^ y[:, level] * PRIMES[1]) % self.entries
            else:
                row = x[:, level] + y[:, level] * (size + 1)
            found.append(row + first)
            first += count
        return torch.stack(found, 1)


def make_step(args: argparse.Namespace, bags: bool) -> Step:
    """Returns a function that runs one step on a random batch."""
    growth = (args.finest / args.coarsest) ** (1 / (args.levels - 1))
    sizes = [int(args.coarsest * growth**level + 1e-6) for level in range(args.levels)]
    network = HashNetwork(sizes, 2**args.log2_table, args.features, args.hidden_units, bags)
    positions, colours = torch.rand(args.batch_size, 2), torch.rand(args.batch_size, 3)
    function = pytorch_program.compiled(args, network)
    if args.mode == "infer":
        return pytorch_program.inference(function, positions)
    groups = [
        {"params": [network.table]},
        {"params": list(network.dense.parameters()), "weight_decay": DECAY},
    ]
    optimizer = torch.optim.Adam(groups, lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    return pytorch_program.training(lambda: F.mse_loss(function(positions), colours), optimizer)


if __name__ == "__main__":
    sizes = {"levels": 16, "coarsest": 16, "finest": 512, "log2-table": 15}
    rest = {"features": 2, "hidden-units": 64}
    pytorch_program.main(__doc__, make_step, lambda args: FORMS, batch_size=2**14, **sizes, **rest)
