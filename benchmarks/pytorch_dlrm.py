"""PyTorch baseline of dlrm, timed in the same way as Fathom's recommendation model.

The network of Naumov et al. 2019, as in ``fathom/modern/dlrm/model.py``, trained by stochastic
gradient descent with sparse gradients of its tables. The tables take two forms: an
``nn.EmbeddingBag`` each, as in the published code, or one for all. Both are timed, and the faster
one counts. Needs only PyTorch. Numbers and rows are random, the same in every step.

    python benchmarks/pytorch_dlrm.py --mode train --rows 100000
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from timing import record_of
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

NUMBERS, TABLES, COLUMNS, RATE = 13, 26, 16, 0.1
BOTTOM = (NUMBERS, 512, 256, 64, COLUMNS)
TOP = (COLUMNS + (TABLES + 1) * TABLES // 2, 512, 256, 1)


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


def make_step(args: argparse.Namespace, together: bool) -> Callable[[], object]:
    """Returns a function that runs one step on a random batch."""
    torch.manual_seed(0)
    numbers = torch.rand(args.batch_size, NUMBERS)
    rows = torch.randint(args.rows, (args.batch_size, TABLES))
    clicked = torch.randint(2, (args.batch_size,)).float()
    network = RecommendationModel(args.rows, together)
    compiled = torch.compile if args.compile else lambda function: function
    if args.mode == "infer":
        forward = compiled(network)
        return torch.inference_mode()(lambda: forward(numbers, rows))
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    loss = compiled(  # torch.compile has no sparse gradients: the look-up stays outside
        lambda n, v, c: F.binary_cross_entropy_with_logits(network.click(n, v), c)
    )

    def step() -> None:
        optimizer.zero_grad()
        loss(numbers, network.look_up(rows), clicked).backward()
        optimizer.step()

    return step


def main() -> None:
    """Measures the network and prints one line of results."""
    parser = argparse.ArgumentParser(description="Time the recommendation model in PyTorch.")
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rows", type=int, default=10_000, help="of each table")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200, help="steps timed (default: 200)")
    parser.add_argument("--warmup", type=int, default=20, help="steps before (default: 20)")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    best = None
    for together in (False, True):
        step = make_step(args, together)
        record = record_of(step, args.steps, args.warmup) | {"together": together}
        record["median_s"] = statistics.median(record["step_seconds"])
        if best is None or sum(record["processor_seconds"]) < sum(best["processor_seconds"]):
            best = record
    print(
        f"dlrm {args.mode}, batch {args.batch_size}, {args.rows} rows, {args.threads} thread(s): "
        f"{1e3 * best['median_s']:.3f} ms a step, "
        f"{1e3 * statistics.median(best['processor_seconds']):.3f} ms of processor time; "
        f"{'one table' if best['together'] else 'a table for each category'}"
    )
    if args.json:
        args.json.write_text(json.dumps(best | {"torch": torch.__version__}, indent=2) + "\n")


if __name__ == "__main__":
    main()
