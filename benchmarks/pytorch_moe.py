"""PyTorch baseline of moe, timed in the same way as Fathom's network.

Llama's network of ``pytorch_llama.py`` with Mixtral's experts: a linear router, the softmax over
the best of its logits, and each expert on the rows that chose it, one after the other, as in
transformers. In training, Switch's balance of the experts is added to the loss. Needs only
PyTorch, not Fathom.

    python benchmarks/pytorch_moe.py --mode train
    python benchmarks/pytorch_moe.py --mode infer --compile
"""

import argparse

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from pytorch_gpt import PHASES, step_of
from pytorch_llama import Block, Llama
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

BALANCE = 0.01


class Experts(nn.Module):
    """A router and its SwiGLU networks."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.router = nn.Linear(args.width, args.experts, bias=False)
        self.count, self.chosen = args.experts, args.experts_per_token
        self.expand = nn.Parameter(torch.empty(args.experts, 2 * args.hidden_units, args.width))
        self.contract = nn.Parameter(torch.empty(args.experts, args.width, args.hidden_units))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, time, width]; keeps the balance of this call."""
        rows = x.flatten(0, 1)
        logits = self.router(rows)
        best, experts = logits.topk(self.chosen)
        weights, out = best.softmax(-1), torch.zeros_like(rows)
        for expert in range(self.count):
            places, ranks = torch.where(experts == expert)
            gates, values = F.linear(rows[places], self.expand[expert]).chunk(2, -1)
            found = F.linear(F.silu(gates) * values, self.contract[expert])
            out.index_add_(0, places, found * weights[places, ranks, None])
        shares = F.one_hot(experts, self.count).sum(1).float().mean(0)
        self.balance = self.count * (shares * logits.softmax(-1).mean(0)).sum()
        return out.view_as(x)


class SparseBlock(Block):
    """Llama's block with experts in the place of the feed-forward network."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        del self.expand, self.contract
        self.experts = Experts(args)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Maps normalised [batch, time, width]."""
        return self.experts(x)


class MoE(Llama):
    """The network."""

    Block = SparseBlock

    def loss(self, tokens: Tensor, following: Tensor) -> Tensor:
        """Returns the mean cross entropy and the weighted balance."""
        loss = super().loss(tokens, following)
        return loss + BALANCE * sum(block.experts.balance for block in self.blocks)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    return step_of(args, MoE(args), args.kv_heads)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 128, "vocabulary": 65, "width": 128, "heads": 4, "kv_heads": 2}
    sizes |= {"hidden_units": 172, "layers": 6, "rope_base": 500_000}
    sizes |= {"experts": 8, "experts_per_token": 2}
    pytorch_program.main(
        __doc__, make_step, batch_size=16, prompt=64, new=64, **sizes, phase=PHASES
    )
