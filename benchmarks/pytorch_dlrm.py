"""PyTorch baseline of dlrm, timed in the same way as Fathom's recommendation model.

The network of Naumov et al. 2019, as in ``fathom/modern/dlrm/model.py``, trained by stochastic
gradient descent with sparse gradients of its tables. The tables take two forms: an
``nn.EmbeddingBag`` each, as in the published code, or one for all. Both are timed, and the faster
one counts. Needs only PyTorch. Numbers and rows are random, the same in every step.

    python benchmarks/pytorch_dlrm.py --mode train --rows 100000
"""

import argparse
import itertools

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

NUMBERS, TABLES, COLUMNS, RATE = 13, 26, 16, 0.1
BOTTOM = (NUMBERS, 512, 256, 64, COLUMNS)
TOP = (COLUMNS + (TABLES + 1) * TABLES // 2, 512, 256, 1)
FORMS = {"a table for each category": False, "one table": True}


class RecommendationModel(nn.Module):
    """Numbers and categories to the log-odds of a click.

    Args:
        rows: of each table.
        together: keep all tables in one.
    """

    def __init__(self, rows: int, together: bool) -> None:
        super().__init__()
        count, size = (1, TABLES * rows) if together else (TABLES, rows)
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(size, COLUMNS, mode="sum", sparse=True) for _ in range(count)
        )
        self.bottom = _layers(BOTTOM)
        self.top = _layers(TOP)[:-1]
        self._together = together
        first, second = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        self.register_buffer("pairs", first * (TABLES + 1) + second)
        self.register_buffer("first_rows", rows * torch.arange(TABLES))

    def forward(self, numbers: Tensor, rows: Tensor) -> Tensor:
        """Maps [batch, 13] and [batch, 26] to [batch]."""
        return self.click(numbers, self.look_up(rows))

    def look_up(self, rows: Tensor) -> Tensor:
        """Returns the rows of the tables: [batch, 26, 16]."""
        if self._together:
            places = (rows + self.first_rows).view(-1, 1)
            return self.tables[0](places).view(-1, TABLES, COLUMNS)
        found = [table(each[:, None]) for table, each in zip(self.tables, rows.T, strict=True)]
        return torch.stack(found, 1)

    def click(self, numbers: Tensor, vectors: Tensor) -> Tensor:
        """Returns the log-odds from the numbers and the tables' rows."""
        x = self.bottom(numbers)
        vectors = torch.cat([x[:, None], vectors], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products[:, self.pairs]], 1))[:, 0]


def _layers(sizes: tuple[int, ...]) -> nn.Sequential:
    pairs = itertools.pairwise(sizes)
    return nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())))


def make_step(args: argparse.Namespace, together: bool) -> Step:
    """Returns a function that runs one step on a random batch."""
    numbers = torch.rand(args.batch_size, NUMBERS)
    rows = torch.randint(args.rows, (args.batch_size, TABLES))
    clicked = torch.randint(2, (args.batch_size,)).float()
    network = RecommendationModel(args.rows, together)
    if args.mode == "infer":
        return pytorch_program.inference(pytorch_program.compiled(args, network), numbers, rows)
    loss = pytorch_program.compiled(  # without sparse gradients: the look-up stays outside
        args, lambda n, v, c: F.binary_cross_entropy_with_logits(network.click(n, v), c)
    )
    return pytorch_program.training(
        lambda: loss(numbers, network.look_up(rows), clicked),
        torch.optim.SGD(network.parameters(), lr=RATE),
    )


if __name__ == "__main__":
    pytorch_program.main(__doc__, make_step, lambda args: FORMS, batch_size=128, rows=10_000)
