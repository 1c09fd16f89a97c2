"""PyTorch baseline of mamba, timed in the same way as Fathom's network.

Mamba's network with PyTorch's usual modules and the published code's reference of the selective
scan, a loop over positions: its fast one is for GPUs. Needs only PyTorch, not Fathom. Tokens are
random, the same in every step. Decoding keeps the states and the convolution's last inputs.

    python benchmarks/pytorch_mamba.py --mode train
    python benchmarks/pytorch_mamba.py --mode infer --compile
"""

import argparse
import math
from typing import Any

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import Step
from pytorch_gpt import PHASES, Decoder, make_training, phase_of
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

STATES, TAPS = 16, 4
Cache = tuple[Tensor, Tensor]


class Block(nn.Module):
    """A causal convolution and a selective scan, beside a gate, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner, self.rank = 2 * width, math.ceil(width / 16)
        self.norm = nn.RMSNorm(width, 1e-5)
        self.expand = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Conv1d(inner, inner, TAPS, groups=inner)
        self.selection = nn.Linear(inner, self.rank + 2 * STATES, bias=False)
        self.steps = nn.Linear(self.rank, inner)
        self.log_rates = nn.Parameter(torch.arange(1.0, STATES + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.contract = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Returns the next [batch, time, width], and the cache after these tokens."""
        state, earlier = cache
        values, gate = self.expand(self.norm(x)).chunk(2, -1)
        inputs = torch.cat([earlier, values.transpose(1, 2)], 2)
        values = F.silu(self.taps(inputs)).transpose(1, 2)
        steps, b, c = self.selection(values).split([self.rank, STATES, STATES], -1)
        steps, rates = F.softplus(self.steps(steps)), -self.log_rates.exp()
        decays = torch.exp(steps[..., None] * rates)  # [batch, time, inner, states]
        added = (steps * values)[..., None] * b[:, :, None]
        found = []
        for i in range(x.shape[1]):
            state = decays[:, i] * state + added[:, i]
            found.append((state * c[:, i, None]).sum(-1))
        y = torch.stack(found, 1) + values * self.skip
        return x + self.contract(y * F.silu(gate)), (state, inputs[:, :, 1 - TAPS :])


class Mamba(Decoder):
    """The network; its output matrix is that of its embedding."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.width = args.width
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args.width) for _ in range(args.layers))
        self.norm, self.head = nn.RMSNorm(args.width, 1e-5), self.tokens.weight
        if args.compile:  # one block for all: all loops together took over 20 minutes
            for block in self.blocks:
                block.compile()

    def start(self, batch: int) -> list[Cache]:
        """Returns the caches before the first token."""
        inner = 2 * self.width
        return [
            (torch.zeros(batch, inner, STATES), torch.zeros(batch, inner, TAPS - 1))
            for _ in self.blocks
        ]

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns what tokens are predicted from, [batch, time, width]."""
        return self.after(tokens, self.start(len(tokens)))[0]

    def after(self, tokens: Tensor, caches: list[Cache]) -> tuple[Tensor, list[Cache]]:
        """Returns the same of tokens after others, and the caches after them."""
        x, kept = self.tokens(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache)
            kept.append(cache)
        return self.norm(x), kept

    def following(self, tokens: Tensor, caches: list[Cache]) -> tuple[Tensor, list[Cache]]:
        """Returns the most probable tokens after the last ones, [batch, 1], and the caches."""
        x, caches = self.after(tokens, caches)
        return F.linear(x[:, -1], self.head).argmax(1, keepdim=True), caches


def make_generation(args: argparse.Namespace, model: Mamba) -> Step:
    """Returns a function that runs the chosen phases."""
    prompts = torch.randint(args.vocabulary, [args.batch_size, args.prompt])
    start = model.start(args.batch_size)
    step = torch.compile(model.following) if args.compile else model.following
    state: list[Any] = []

    def prefill() -> None:
        state[:] = model.following(prompts, start)

    def decode() -> None:
        tokens, caches = state
        for _ in range(args.new - 1):
            tokens, caches = step(tokens, caches)

    return phase_of(args, prefill, decode)


def make_step(args: argparse.Namespace) -> Step:
    """Returns a function that runs one step."""
    model = Mamba(args)
    if args.mode == "infer":
        return make_generation(args, model)
    uncompiled = argparse.Namespace(**vars(args) | {"compile": False})  # but for the blocks
    return make_training(uncompiled, model)


if __name__ == "__main__":
    # Its default size is that of Fathom's workload.
    sizes = {"context": 128, "vocabulary": 65, "width": 128, "layers": 8}
    pytorch_program.main(
        __doc__, make_step, batch_size=16, prompt=64, new=64, **sizes, phase=PHASES
    )
